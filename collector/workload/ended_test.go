// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

// endedRuntime tells how one container has ended, and the labels of its pod.
type endedRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	status *runtimeapi.ContainerStatus
	err    error
	pod    map[string]string // nil: there is none any more
}

func (r *endedRuntime) ContainerStatus(_ context.Context, q *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	if q.GetContainerId() != idA {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	return &runtimeapi.ContainerStatusResponse{Status: r.status}, r.err
}

func (r *endedRuntime) ListPodSandbox(_ context.Context, q *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	if r.pod == nil || q.GetFilter().GetLabelSelector()["io.kubernetes.pod.uid"] != "uid" {
		return &runtimeapi.ListPodSandboxResponse{}, nil
	}
	return &runtimeapi.ListPodSandboxResponse{Items: []*runtimeapi.PodSandbox{{Labels: r.pod}}}, nil
}

func TestEnded(t *testing.T) {
	exited := func(code int32, reason string) *runtimeapi.ContainerStatus {
		return &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_EXITED, ExitCode: code, Reason: reason}
	}
	inPod := func(s *runtimeapi.ContainerStatus) *runtimeapi.ContainerStatus {
		s.Labels = map[string]string{"io.kubernetes.pod.uid": "uid"}
		return s
	}
	job := map[string]string{"batch.kubernetes.io/job-name": "train"}
	for _, c := range []struct {
		name    string
		runtime endedRuntime
		want    lives.End
		known   bool
	}{
		{"done", endedRuntime{status: exited(0, "Completed")}, lives.EndCompleted, true},
		{"done, in a job", endedRuntime{status: inPod(exited(0, "Completed")), pod: job}, lives.EndCompleted, true},
		{"done, in a Deployment", endedRuntime{status: inPod(exited(0, "Completed")), pod: map[string]string{"pod-template-hash": "7d9f8c6b5"}}, lives.EndStopped, true},
		{"done, in a StatefulSet", endedRuntime{status: inPod(exited(0, "Completed")), pod: map[string]string{"statefulset.kubernetes.io/pod-name": "a-0"}}, lives.EndStopped, true},
		{"done, in a DaemonSet", endedRuntime{status: inPod(exited(0, "Completed")), pod: map[string]string{"controller-revision-hash": "x"}}, lives.EndStopped, true},
		{"done, in a pod that is gone", endedRuntime{status: inPod(exited(0, "Completed"))}, lives.EndStopped, true},
		{"failed", endedRuntime{status: exited(1, "Error")}, lives.EndFailed, true},
		{"failed, in a Deployment", endedRuntime{status: inPod(exited(1, "Error")), pod: map[string]string{"pod-template-hash": "x"}}, lives.EndFailed, true},
		{"crashed", endedRuntime{status: exited(139, "Error")}, lives.EndFailed, true},
		{"terminated", endedRuntime{status: exited(143, "Error")}, lives.EndStopped, true},
		{"killed", endedRuntime{status: exited(137, "Error")}, lives.EndStopped, true},
		{"killed for the memory of the host", endedRuntime{status: exited(1, "OOMKilled")}, lives.EndStopped, true},
		{"interrupted", endedRuntime{status: exited(130, "Error")}, lives.EndStopped, true},
		{"still running", endedRuntime{status: &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_RUNNING}}, lives.EndUnknown, false},
		{"nothing is told", endedRuntime{}, lives.EndUnknown, false},
		{"forgotten", endedRuntime{err: status.Error(codes.NotFound, "gone")}, lives.EndUnknown, true},
		{"no Kubernetes", endedRuntime{err: status.Error(codes.Unimplemented, "no CRI")}, lives.EndUnknown, true},
		{"no answer", endedRuntime{err: status.Error(codes.Unavailable, "not now")}, lives.EndUnknown, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			socket := runtimeSocket(t)
			serveAt(t, socket, func(s *grpc.Server) { runtimeapi.RegisterRuntimeServiceServer(s, &c.runtime) })
			r := newTree(t).resolver(Config{RuntimeSockets: []string{runtimeSocket(t), socket}})
			if end, known := r.Ended(t.Context(), idA); end != c.want || known != c.known {
				t.Errorf("ended %d, known %t; want %d, %t", end, known, c.want, c.known)
			}
			if end, known := r.Ended(t.Context(), idB); end != lives.EndUnknown || !known {
				t.Errorf("another container: ended %d, known %t", end, known)
			}
		})
	}
	if end, known := newTree(t).resolver(Config{RuntimeSockets: []string{runtimeSocket(t)}}).Ended(t.Context(), idA); end != lives.EndUnknown || known {
		t.Errorf("without its runtime: ended %d, known %t", end, known)
	}
	if end, known := newTree(t).resolver(Config{}).Ended(t.Context(), idA); end != lives.EndUnknown || !known {
		t.Errorf("without a runtime: ended %d, known %t", end, known)
	}
}
