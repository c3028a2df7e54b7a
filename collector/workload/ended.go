// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

// Ended returns how a container has ended. known says that the runtime will not tell
// anything else later; it is false while the container runs, and where the runtime has not
// answered. lives.EndUnknown that is known is that of a container that is forgotten, or of
// a host whose runtime serves no Kubernetes. It asks the runtime, which may take seconds.
func (r *Resolver) Ended(ctx context.Context, containerID string) (end lives.End, known bool) {
	return r.containers.ended(ctx, containerID)
}

// ended asks the runtimes in turn, until one knows the container.
func (c *containers) ended(ctx context.Context, id string) (end lives.End, known bool) {
	c.mu.Lock()
	sockets, needed := c.sockets, c.needed
	c.mu.Unlock()
	there := slices.DeleteFunc(lookAt(sockets), socketFile.isMissing)
	known = len(there) > 0 || !needed // or else it is being started again
	for _, s := range there {
		e, err := endedAt(ctx, s.path, id)
		switch {
		case err == nil:
			return e, e != lives.EndUnknown
		case status.Code(err) != codes.NotFound && status.Code(err) != codes.Unimplemented:
			known = false
		}
	}
	return lives.EndUnknown, known
}

// endedAt asks the runtime at a socket how a container has ended.
func endedAt(ctx context.Context, socket, id string) (lives.End, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	client, hangUp, err := dialSocket(ctx, socket)
	if err != nil {
		return lives.EndUnknown, err
	}
	defer hangUp()
	answer, err := runtimeapi.NewRuntimeServiceClient(client).ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	if err != nil {
		return lives.EndUnknown, err
	}
	end := endOf(answer.GetStatus())
	if end == lives.EndCompleted && isForGood(ctx, client, answer.GetStatus().GetLabels()["io.kubernetes.pod.uid"]) {
		return lives.EndStopped, nil
	}
	return end, nil
}

// asked are the exit codes of programs that ended because something else told them to:
// 128 and the number of SIGHUP, SIGINT, SIGQUIT, SIGKILL and SIGTERM. With the other
// signals a program ends by itself, such as SIGSEGV and SIGABRT.
var asked = []int32{129, 130, 131, 137, 143}

// endOf returns how a container has ended by what the runtime says of it.
func endOf(s *runtimeapi.ContainerStatus) lives.End {
	switch {
	case s.GetState() != runtimeapi.ContainerState_CONTAINER_EXITED:
		return lives.EndUnknown
	case slices.Contains(asked, s.GetExitCode()), s.GetReason() == "OOMKilled":
		return lives.EndStopped
	case s.GetExitCode() == 0:
		return lives.EndCompleted
	}
	return lives.EndFailed
}

// lasting are the labels of pods of a Deployment, a StatefulSet and a DaemonSet.
var lasting = []string{"pod-template-hash", "statefulset.kubernetes.io/pod-name", "controller-revision-hash"}

// isForGood reports whether a pod is one that Kubernetes never lets complete: a server that
// ends well there has been told to end, however long it would have grown. Where that is
// not known it is so, because who believes it learns nothing wrong.
func isForGood(ctx context.Context, client *grpc.ClientConn, uid string) bool {
	if uid == "" {
		return false // it is in no pod
	}
	answer, err := runtimeapi.NewRuntimeServiceClient(client).ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{
		Filter: &runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.uid": uid}},
	})
	if err != nil || len(answer.GetItems()) == 0 {
		return true
	}
	for _, label := range lasting {
		if answer.GetItems()[0].GetLabels()[label] != "" {
			return true
		}
	}
	return false
}
