// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Ended reports whether a container has ended well: with exit code 0, or because SIGTERM told it to. known says
// that the runtime will not tell anything else later; it is false while the container runs, and where the
// runtime has not answered. A container that is forgotten, or of a host whose runtime serves no Kubernetes,
// is known not to have. It asks the runtime, which may take seconds.
func (r *Resolver) Ended(ctx context.Context, containerID string) (well, known bool) {
	return r.containers.ended(ctx, containerID)
}

// ended asks the runtimes in turn, until one knows the container.
func (c *containers) ended(ctx context.Context, id string) (well, known bool) {
	c.mu.Lock()
	sockets, needed := c.sockets, c.needed
	c.mu.Unlock()
	there := slices.DeleteFunc(lookAt(sockets), socketFile.isMissing)
	known = len(there) > 0 || !needed // or else it is being started again
	for _, s := range there {
		is, err := statusAt(ctx, s.path, id)
		switch {
		case err == nil:
			exited := is.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED
			return exited && (is.GetExitCode() == 0 || is.GetExitCode() == terminated), exited
		case status.Code(err) != codes.NotFound && status.Code(err) != codes.Unimplemented:
			known = false
		}
	}
	return false, known
}

// terminated is the exit code of what ended by SIGTERM: 128 and its number.
const terminated = 143

// statusAt asks the runtime at a socket for a container.
func statusAt(ctx context.Context, socket, id string) (*runtimeapi.ContainerStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	client, hangUp, err := dialSocket(ctx, socket)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	answer, err := runtimeapi.NewRuntimeServiceClient(client).ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id})
	return answer.GetStatus(), err
}
