// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

// usualRuntimeSockets is where container runtimes serve Kubernetes, in the order in
// which they are tried. Docker has a containerd of its own at the first path, also
// on a host whose Kubernetes uses another one further down.
var usualRuntimeSockets = []string{
	"/run/containerd/containerd.sock",               // containerd: kubeadm, GKE, EKS, AKS
	"/run/crio/crio.sock",                           // CRI-O: OpenShift
	"/run/k3s/containerd/containerd.sock",           // k3s and RKE2 bring their own containerd
	"/run/k0s/containerd.sock",                      // so does k0s
	"/var/snap/microk8s/common/run/containerd.sock", // and MicroK8s
	"/run/cri-dockerd.sock",                         // Docker Engine, by cri-dockerd
}

const (
	// minListInterval is between two lists: a list costs the runtime work for each
	// container on the host.
	minListInterval = time.Second
	// maxListDelay is between two lists that fail.
	maxListDelay = 10 * time.Second
	// listTimeout is for one list of one runtime.
	listTimeout = 5 * time.Second
	// askAgainAfter is how long a runtime that does not serve Kubernetes is taken
	// at its word, unless its socket is replaced before.
	askAgainAfter = 30 * time.Second
	// maxContainers bounds the answers that are kept: half of them are the latest
	// list, a quarter each the two generations of those that were asked for.
	maxContainers = 8192
	// maxWaiting bounds the containers that one list is made for, so that its
	// answers do not push each other out before they were fetched.
	maxWaiting = maxContainers / 4
)

// place is where a container is in Kubernetes, and what it is made of; empty fields
// where it is in none.
type place struct{ namespace, pod, container, image string }

// containers tells in which pod a container runs. It asks the container runtime by
// the CRI, the interface that the kubelet uses, because only the runtime knows all
// containers of the host, those without a GPU of their own included. Its methods
// may be called from several goroutines.
type containers struct {
	// wake tells run that something is waited for.
	wake chan struct{}
	// pause is a field so that tests need not wait. It returns false if ctx ended.
	pause func(ctx context.Context, d time.Duration) bool
	// images says that the images are asked for, too. It does not change.
	images bool

	mu sync.Mutex // never held while the runtime is asked
	// sockets are tried in order; only one is left once it has listed containers.
	sockets []string
	// needed says that sockets must answer: a person named them, or they did before.
	needed bool
	// waiting are the containers that the next list is made for.
	waiting map[string]bool
	// listed is what the latest list knew, asked for or not.
	listed map[string]place
	// answers are those given lately.
	answers recent[string, place]
	// unserved are the sockets as they were when none of them served Kubernetes.
	unserved   []socketFile
	unservedAt time.Time
	// trouble is why the last list failed, with the sockets as troubled has them.
	trouble   error
	troubled  []socketFile
	troubleAt time.Time
}

// newContainers takes the paths of unix sockets, with or without "unix://". They are
// tried in order, until one lists containers; that one stays. given says that a
// person named them, so that one must exist and serve Kubernetes. Otherwise they are
// the usual places, and a host where none does so simply has no Kubernetes.
func newContainers(sockets []string, given bool) *containers {
	c := &containers{
		wake:    make(chan struct{}, 1),
		pause:   pause,
		needed:  given,
		waiting: map[string]bool{},
		answers: newRecent[string, place](maxContainers / 2),
	}
	for _, s := range sockets {
		c.sockets = append(c.sockets, strings.TrimPrefix(s, "unix://"))
	}
	// A wrong path is to be told at the start, not when the first container comes.
	c.troubled = lookAt(c.sockets)
	if given && !slices.ContainsFunc(c.troubled, func(s socketFile) bool { return !s.missing }) {
		c.trouble = explainList(c.sockets[0], fs.ErrNotExist)
	}
	return c
}

// find returns where the container with this ID is. It does not wait for the
// runtime: while done is false, run asks in the background, and find is to be called
// again. done says that the answer is final: it is known, or a list that began after
// this was first asked does not have it, or there is no runtime to ask.
func (c *containers) find(id string) (p place, done bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.recall(id); ok {
		return p, true
	}
	if !c.waiting[id] && c.nobodyToAsk() {
		c.answers.put(id, place{})
		return place{}, true
	}
	if len(c.waiting) < maxWaiting {
		c.waiting[id] = true
	}
	select {
	case c.wake <- struct{}{}:
	default: // it is awake
	}
	return place{}, false
}

// problem returns why the runtime could not be asked the last time, and what to do
// about it; nil if it could, if no runtime is needed, or if another one has taken its
// place since.
func (c *containers) problem() error {
	c.mu.Lock()
	trouble, troubled, sockets, at := c.trouble, c.troubled, c.sockets, c.troubleAt
	c.mu.Unlock()
	if trouble == nil || !sameSockets(troubled, lookAt(sockets)) {
		return nil
	}
	// While somebody waits it is confirmed again and again. A socket that is missing
	// needs nobody to ask.
	if time.Since(at) > 2*maxListDelay && !slices.ContainsFunc(troubled, socketFile.isMissing) {
		return nil
	}
	return trouble
}

// none says that no runtime is named and none is at the usual places.
func (c *containers) none() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.needed && !slices.ContainsFunc(lookAt(c.sockets), func(s socketFile) bool { return !s.missing })
}

// nobodyToAsk says that no socket is there, or that those that are there do not
// serve Kubernetes. It looks at files only, and needs c.mu.
func (c *containers) nobodyToAsk() bool {
	if c.needed {
		return false
	}
	now := lookAt(c.sockets)
	if !slices.ContainsFunc(now, func(s socketFile) bool { return !s.missing }) {
		return true
	}
	return time.Since(c.unservedAt) < askAgainAfter && sameSockets(now, c.unserved)
}

// recall returns the answer that is known, and saves it from being forgotten. It
// needs c.mu.
func (c *containers) recall(id string) (place, bool) {
	p, ok := c.answers.get(id)
	if !ok {
		if p, ok = c.listed[id]; ok {
			c.answers.put(id, p)
		}
	}
	return p, ok
}

// run asks the runtime whenever find has met an unknown container, until ctx ends.
// One list answers for all that are unknown. After failures it waits longer and
// longer, and then asks only if somebody still wants to know.
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

// pause waits, and returns false if ctx ended.
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

// ask makes a list for the containers that are waited for; asked is false if there
// are none. After an error they are forgotten: find brings back those that are still
// of interest.
func (c *containers) ask(ctx context.Context) (asked bool, err error) {
	c.mu.Lock()
	waiting, paths, needed := c.waiting, c.sockets, c.needed
	c.waiting = map[string]bool{}
	c.mu.Unlock()
	if len(waiting) == 0 {
		return false, nil
	}
	sockets := lookAt(paths)
	l, err := listFirst(ctx, sockets, needed, c.images)
	if ctx.Err() != nil {
		return true, ctx.Err() // the end, no trouble of the runtime's
	}
	places := l.places()

	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble, c.troubled, c.troubleAt = err, sockets, time.Now()
	if err != nil {
		return true, err
	}
	if l.socket != "" {
		c.sockets, c.needed = []string{l.socket}, true
	}
	if l.served {
		c.needed = true // it is a node of Kubernetes, whatever happens to its socket
	} else {
		c.unserved, c.unservedAt = sockets, time.Now()
	}
	c.learn(waiting, places)
	return true, nil
}

// learn takes over a list that was made for the waiting. It needs c.mu.
func (c *containers) learn(waiting map[string]bool, places map[string]place) {
	for id := range waiting {
		if _, ok := c.recall(id); !ok {
			c.answers.put(id, places[id]) // what is not listed is in no pod
		}
	}
	c.listed = places
	if len(places) > maxContainers/2 {
		c.listed = make(map[string]place, maxContainers/2)
		for id, p := range places {
			if len(c.listed) == maxContainers/2 {
				break
			}
			c.listed[id] = p
		}
	}
	// Those asked for during the list need no other one if it had them.
	maps.DeleteFunc(c.waiting, func(id string, _ bool) bool {
		_, ok := c.recall(id)
		return ok
	})
}

// listing is what the runtimes of a host answered.
type listing struct {
	// served says that a runtime answered, with containers or without.
	served bool
	// socket is that of the runtime that has the containers, "" if none has any.
	socket     string
	containers []*runtimeapi.Container
	// images are the repositories with digests of each image by its ID; nil if they
	// were not asked for.
	images map[string][]string
}

// places returns where the containers are.
func (l listing) places() map[string]place {
	places := make(map[string]place, len(l.containers))
	for _, ctr := range l.containers {
		// No other ID is ever asked for.
		if id := ctr.GetId(); hostfs.IsID(id) {
			p := placeOf(ctr.GetLabels())
			if l.images != nil {
				p.image = strings.Clone(label(imageOf(ctr, l.images), maxImage))
			}
			places[id] = p
		}
	}
	return places
}

// placeOf reads the labels that the kubelet gives each container.
func placeOf(labels map[string]string) place {
	// A copy, because a part of a string keeps the whole in memory.
	value := func(key string) string { return strings.Clone(label(labels[key], maxName)) }
	return place{
		namespace: value("io.kubernetes.pod.namespace"),
		pod:       value("io.kubernetes.pod.name"),
		container: value("io.kubernetes.container.name"),
	}
}

// listFirst returns the list of the first runtime that has containers: Docker's
// containerd answers that it does not serve Kubernetes, or with an empty list, beside
// the one that does. Without a runtime that answers the first failure is the error.
// That a socket is missing or serves something else is a failure only if it is needed.
func listFirst(ctx context.Context, sockets []socketFile, needed, images bool) (listing, error) {
	var l listing
	var failure error
	for _, s := range sockets {
		if s.missing && !needed {
			continue
		}
		found, err := list(ctx, s.path, images)
		switch {
		case err == nil && len(found.containers) > 0:
			return found, nil
		case err == nil:
			l.served = true
		case !needed && (errors.Is(err, fs.ErrNotExist) || status.Code(err) == codes.Unimplemented):
		case failure == nil:
			failure = explainList(s.path, err)
		}
	}
	if l.served {
		return l, nil
	}
	return l, failure
}

// list asks one runtime for all containers, also those that have ended: what they
// left running may still hold memory. It connects anew each time. That is cheap
// beside the list, lists are rare, and there is no connection that a restart of the
// runtime could break. Images that it does not tell are no failure.
func list(ctx context.Context, socket string, images bool) (listing, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	client, hangUp, err := dialSocket(ctx, socket)
	if err != nil {
		return listing{}, err
	}
	defer hangUp()
	answer, err := runtimeapi.NewRuntimeServiceClient(client).ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return listing{}, err
	}
	l := listing{served: true, socket: socket, containers: answer.GetContainers()}
	if images && len(l.containers) > 0 {
		l.images = listImages(ctx, client)
	}
	return l, nil
}

// explainList says what a person can do about a failed list.
func explainList(socket string, err error) error {
	const flag = "--collector.workload.cri-socket"
	advice := ""
	switch {
	case errors.Is(err, fs.ErrPermission):
		advice = "; the socket is root's: run the exporter as uid 0, in a container too, and with SELinux as spc_t. Without Kubernetes on this host nothing is lacking"
	case errors.Is(err, fs.ErrNotExist):
		advice = "; is the runtime running, and is this its socket? In a container it must be mounted. " + flag + " names another"
	case errors.Is(err, syscall.ECONNREFUSED):
		advice = "; nothing listens there: is the runtime running? " + flag + " names another socket"
	case status.Code(err) == codes.Unimplemented:
		advice = "; it does not serve version 1 of the CRI: is its CRI plugin disabled? " + flag + " names another socket"
	}
	return fmt.Errorf("list the containers of the runtime at %s: %w%s", socket, err, advice)
}

// socketFile is what can be seen of a socket without asking.
type socketFile struct {
	path    string
	missing bool
	info    os.FileInfo // nil if it is missing, or hidden from the exporter
}

func (s socketFile) isMissing() bool { return s.missing }

// lookAt looks which sockets are there.
func lookAt(paths []string) []socketFile {
	seen := make([]socketFile, len(paths))
	for i, path := range paths {
		info, err := os.Stat(path)
		seen[i] = socketFile{path: path, missing: errors.Is(err, fs.ErrNotExist)}
		if err == nil {
			seen[i].info = info
		}
	}
	return seen
}

// sameSockets says whether the sockets are still those that they were. A server that
// starts makes a new one, though perhaps with the number of the old one.
func sameSockets(a, b []socketFile) bool {
	return slices.EqualFunc(a, b, func(x, y socketFile) bool {
		if x.info == nil || y.info == nil {
			return x.path == y.path && x.missing == y.missing && x.info == y.info
		}
		return os.SameFile(x.info, y.info) && x.info.ModTime().Equal(y.info.ModTime())
	})
}
