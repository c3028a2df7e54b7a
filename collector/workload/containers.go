// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

// usualRuntimeSockets is where container runtimes serve Kubernetes. They are tried in this order. Docker has its own
// containerd at the first path, also on a host where Kubernetes uses another runtime.
var usualRuntimeSockets = []string{
	"/run/containerd/containerd.sock",               // containerd: kubeadm, GKE, EKS, AKS
	"/run/crio/crio.sock",                           // CRI-O: OpenShift
	"/run/k3s/containerd/containerd.sock",           // k3s and RKE2 bring their own containerd
	"/run/k0s/containerd.sock",                      // so does k0s
	"/var/snap/microk8s/common/run/containerd.sock", // and MicroK8s
	"/run/cri-dockerd.sock",                         // Docker Engine, by cri-dockerd
}

const (
	runtimeFlag = "--collector.workload.cri-socket"
	// minListInterval is between two lists: a list costs the runtime work for each container on the host.
	minListInterval = time.Second
	// maxListDelay is between two lists that fail.
	maxListDelay = 10 * time.Second
	// maxContainers bounds the answers that are kept.
	maxContainers = 8192
	// maxWaiting bounds the containers that one list is made for, so that one generation of answers can keep them.
	maxWaiting = maxContainers / 4
	// maxImage bounds the ID of an image, which is a digest or a repository with one.
	maxImage = 512
)

// place is where a container is in Kubernetes, the ID of its image, and the variables that limit its memory: see environment.
type place struct {
	namespace, pod, container, image, variables string
	incomplete                                  bool // the variables are being asked for
}

// containers finds the pod of a container. It asks the container runtime by the CRI, as the kubelet does, because only
// the runtime knows all containers of the host, also those without an allotted GPU. Its methods may be called from
// several goroutines.
type containers struct {
	// wake starts a list.
	wake chan struct{}
	// pause is a field so that tests need not wait. It returns false if ctx is done.
	pause func(ctx context.Context, d time.Duration) bool

	mu sync.Mutex // never held while the runtime is asked
	// sockets are tried in order; only one is left once it has listed containers.
	sockets []string
	// needed is true if sockets must answer: a person named them, or they answered before.
	needed bool
	// waiting are the containers that the next list is made for.
	waiting map[string]bool
	answers recent[string, place]
	// err is why the last list failed, at that time.
	err error
	at  time.Time
}

// newContainers takes the paths of unix sockets, with or without "unix://". If a person has given them, one of them must
// exist and serve Kubernetes. Otherwise they are the usual places, and a host without any has no Kubernetes.
func newContainers(sockets []string, given bool) *containers {
	c := &containers{
		wake:    make(chan struct{}, 1),
		pause:   pause,
		needed:  given,
		waiting: map[string]bool{},
		answers: newRecent[string, place](maxContainers),
	}
	for _, s := range sockets {
		c.sockets = append(c.sockets, strings.TrimPrefix(s, "unix://"))
	}
	return c
}

// find returns the place of the container with this ID. It does not wait for the runtime: while done is false, run asks
// in the background, and only the variables may be missing. The answer is final if all of the container is known, if a list
// that began later does not have it, or if there is no runtime.
func (c *containers) find(id string) (p place, done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, known := c.answers.get(id)
	switch {
	case known && !p.incomplete:
		return p, true
	case !c.waiting[id] && !c.needed && len(present(c.sockets)) == 0:
		c.answers.put(id, p)
		return p, true
	case len(c.waiting) < maxWaiting:
		c.waiting[id] = true
	}
	select {
	case c.wake <- struct{}{}:
	default: // it is awake
	}
	return p, false
}

// problem returns why no socket can be used, and what to do about it; nil if one can, or if no runtime is needed. A wrong path
// is one at the start, and not only when the first container comes.
func (c *containers) problem() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.needed && len(present(c.sockets)) == 0:
		return listError(c.sockets[0], fs.ErrNotExist)
	case errors.Is(c.err, fs.ErrNotExist): // it exists by now
		return nil
	case time.Since(c.at) > 2*maxListDelay: // while a container waits, lists go on, and each one confirms the problem
		return nil
	}
	return c.err
}

// none reports that no runtime is needed and no socket is there.
func (c *containers) none() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.needed && len(present(c.sockets)) == 0
}

// run asks the runtime when find has met an unknown container, until ctx is done. One list answers for all unknown
// containers. After failures it waits longer and longer.
func (c *containers) run(ctx context.Context) {
	var delay time.Duration
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		}
		asked, err := c.ask(ctx)
		switch {
		case !asked:
			continue
		case err != nil:
			delay = min(2*max(delay, minListInterval/2), maxListDelay)
		default:
			delay = 0
		}
		if !c.pause(ctx, max(delay, minListInterval)) {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// ask makes a list for the waiting containers; asked is false if there are none. After an error nothing waits any more:
// find brings back the containers that are still of interest.
func (c *containers) ask(ctx context.Context) (asked bool, err error) {
	c.mu.Lock()
	waiting, sockets, needed := c.waiting, c.sockets, c.needed
	c.waiting = map[string]bool{}
	c.mu.Unlock()
	if len(waiting) == 0 {
		return false, nil
	}
	socket, places, err := listFirst(ctx, sockets, needed)
	err = c.answered(ctx, waiting, socket, places, err)
	for id := range waiting { // now that the pods are known: one of these calls may take as long as the list may
		if p, listed := places[id]; listed && err == nil { // after an error, new containers wait for the next list
			p.variables, err = environment(ctx, socket, id)
			p.incomplete = false
			places[id] = p
			err = c.answered(ctx, map[string]bool{id: true}, socket, places, err)
		}
	}
	return true, err
}

// answered notes what a runtime has told of containers, or why it has not, and returns the error.
func (c *containers) answered(ctx context.Context, asked map[string]bool, socket string, places map[string]place, err error) error {
	if ctx.Err() != nil {
		return ctx.Err() // the exporter stops: no problem of the runtime
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.at = err, time.Now()
	if err != nil {
		return err
	}
	if socket != "" {
		c.sockets = []string{socket}
	}
	c.needed = c.needed || places != nil // it is a node of Kubernetes, whatever happens to its socket
	for id := range asked {
		c.answers.put(id, places[id]) // a container that is not listed is in no pod
		delete(c.waiting, id)         // find may have met it meanwhile
	}
	return nil
}

// listFirst returns the list of the first runtime that has containers, and its socket. Docker's containerd does not serve
// Kubernetes, or has an empty list. places is nil if no runtime answered; the first failure is then the error. That no
// socket is there, or one of something else, is a failure only if it is needed.
func listFirst(ctx context.Context, sockets []string, needed bool) (socket string, places map[string]place, err error) {
	there := present(sockets)
	if needed && len(there) == 0 {
		return "", nil, listError(sockets[0], fs.ErrNotExist)
	}
	for _, s := range there {
		found, failed := list(ctx, s)
		switch {
		case failed == nil && len(found) > 0:
			return s, found, nil
		case failed == nil:
			places = found
		case !needed && (errors.Is(failed, fs.ErrNotExist) || status.Code(failed) == codes.Unimplemented):
		default:
			err = cmp.Or(err, listError(s, failed))
		}
	}
	if places != nil {
		err = nil
	}
	return "", places, err
}

func listError(socket string, err error) error {
	return fmt.Errorf("list the containers of the runtime at %s: %w%s", socket, err, advice(err, runtimeFlag))
}

// list returns all containers of a runtime by ID, also the exited ones: their processes may still hold memory.
func list(ctx context.Context, socket string) (map[string]place, error) {
	places := map[string]place{}
	err := withSocket(ctx, socket, func(ctx context.Context, client *grpc.ClientConn) error {
		answer, err := runtimeapi.NewRuntimeServiceClient(client).ListContainers(ctx, &runtimeapi.ListContainersRequest{})
		for _, ctr := range answer.GetContainers() {
			if id := ctr.GetId(); hostfs.IsID(id) { // find is never asked for another
				places[id] = placeOf(ctr)
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return places, nil
}

// placeOf reads the labels that the kubelet gives each container.
func placeOf(ctr *runtimeapi.Container) place {
	// A copy, because a part of a string keeps the whole answer in memory.
	value := func(key string) string { return strings.Clone(label(ctr.GetLabels()[key], maxName)) }
	return place{
		namespace: value("io.kubernetes.pod.namespace"),
		pod:       value("io.kubernetes.pod.name"),
		container: value("io.kubernetes.container.name"),
		// One runtime always fills in the same of them. Older ones do not know the ID.
		image:      strings.Clone(label(cmp.Or(ctr.GetImageId(), ctr.GetImageRef(), ctr.GetImage().GetImage()), maxImage)),
		incomplete: true,
	}
}

// statusOf asks a runtime for all that it knows of a container.
func statusOf(ctx context.Context, socket, id string) (answer *runtimeapi.ContainerStatusResponse, err error) {
	err = withSocket(ctx, socket, func(ctx context.Context, client *grpc.ClientConn) error {
		answer, err = runtimeapi.NewRuntimeServiceClient(client).ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true})
		return err
	})
	return answer, err
}

// Ended returns the exit code of a container. known means that the answer is final. It is false while the container runs, and where
// the runtime has not answered. A container that is forgotten, or whose runtime does not serve Kubernetes, has no code. Ended asks the
// runtime, which may take seconds.
func (r *Resolver) Ended(ctx context.Context, containerID string) (code gpu.Opt[int32], known bool) {
	c := r.containers
	c.mu.Lock()
	sockets, needed := c.sockets, c.needed
	c.mu.Unlock()
	there := present(sockets)
	known = len(there) > 0 || !needed // or else the runtime restarts
	for _, s := range there {
		answer, err := statusOf(ctx, s, containerID)
		is := answer.GetStatus()
		switch {
		case err == nil:
			exited := is.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED
			return gpu.Some(is.GetExitCode()).If(exited), exited
		case status.Code(err) != codes.NotFound && status.Code(err) != codes.Unimplemented:
			known = false
		}
	}
	return code, known
}
