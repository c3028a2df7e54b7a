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
)

// endedRuntime has the status of one container.
type endedRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	status *runtimeapi.ContainerStatus
	err    error
}

func (r *endedRuntime) ContainerStatus(_ context.Context, q *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	if q.GetContainerId() != idA {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	return &runtimeapi.ContainerStatusResponse{Status: r.status}, r.err
}

func TestEnded(t *testing.T) {
	exited := func(code int32) endedRuntime {
		return endedRuntime{status: &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_EXITED, ExitCode: code}}
	}
	for _, c := range []struct {
		name        string
		runtime     endedRuntime
		well, known bool
	}{
		{"done", exited(0), true, true},
		{"failed", exited(1), false, true},
		{"crashed", exited(139), false, true},
		{"terminated", exited(143), true, true},
		{"killed", exited(137), false, true},
		{"interrupted", exited(130), false, true},
		{"still running", endedRuntime{status: &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_RUNNING}}, false, false},
		{"nothing is told", endedRuntime{}, false, false},
		{"forgotten", endedRuntime{err: status.Error(codes.NotFound, "gone")}, false, true},
		{"no Kubernetes", endedRuntime{err: status.Error(codes.Unimplemented, "no CRI")}, false, true},
		{"no answer", endedRuntime{err: status.Error(codes.Unavailable, "not now")}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			socket := runtimeSocket(t)
			serveAt(t, socket, func(s *grpc.Server) { runtimeapi.RegisterRuntimeServiceServer(s, &c.runtime) })
			r := newTree(t).resolver(Config{RuntimeSockets: []string{runtimeSocket(t), socket}})
			if well, known := r.Ended(t.Context(), idA); well != c.well || known != c.known {
				t.Errorf("well %t, known %t; want %t, %t", well, known, c.well, c.known)
			}
			if well, known := r.Ended(t.Context(), idB); well || !known {
				t.Errorf("another container: well %t, known %t", well, known)
			}
		})
	}
	if well, known := newTree(t).resolver(Config{RuntimeSockets: []string{runtimeSocket(t)}}).Ended(t.Context(), idA); well || known {
		t.Errorf("without its runtime: well %t, known %t", well, known)
	}
	if well, known := newTree(t).resolver(Config{}).Ended(t.Context(), idA); well || !known {
		t.Errorf("without a runtime: well %t, known %t", well, known)
	}
}
