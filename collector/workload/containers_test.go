// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// fakeRuntime answers ListContainers, and has the status of one container.
type fakeRuntime struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	list   func(context.Context) ([]*runtimeapi.Container, error)
	lists  atomic.Int64
	status *runtimeapi.ContainerStatus
	info   map[string]string // if it is asked for more
	err    error
	before func(context.Context) error // a status; nil does nothing
}

func (r *fakeRuntime) ContainerStatus(ctx context.Context, q *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	if r.before != nil {
		if err := r.before(ctx); err != nil {
			return nil, err
		}
	}
	if q.GetContainerId() != idA {
		return nil, status.Error(codes.NotFound, "no such container")
	}
	answer := &runtimeapi.ContainerStatusResponse{Status: r.status}
	if q.GetVerbose() {
		answer.Info = r.info
	}
	return answer, r.err
}

func (r *fakeRuntime) ListContainers(ctx context.Context, q *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	r.lists.Add(1)
	if q.GetFilter() != nil {
		return nil, errors.New("the list is to have all containers")
	}
	containers, err := r.list(ctx)
	return &runtimeapi.ListContainersResponse{Containers: containers}, err
}

// start serves at a socket until stop is called, which removes the socket.
func (r *fakeRuntime) start(t testing.TB, socket string) (stop func()) {
	t.Helper()
	return serveAt(t, socket, func(s *grpc.Server) {
		if r.list != nil {
			runtimeapi.RegisterRuntimeServiceServer(s, r)
		}
	})
}

// serveAt serves at a socket what is registered until stop is called, which removes the socket.
func serveAt(t testing.TB, socket string, register func(*grpc.Server)) (stop func()) {
	t.Helper()
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "unix", socket)
	must(t, err)
	server := grpc.NewServer()
	register(server)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	stop = sync.OnceFunc(func() {
		server.Stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// having is a runtime that has these containers.
func having(containers ...*runtimeapi.Container) *fakeRuntime {
	return &fakeRuntime{list: func(context.Context) ([]*runtimeapi.Container, error) { return containers, nil }}
}

// failing is a runtime that always returns an error.
func failing(code codes.Code) *fakeRuntime {
	return &fakeRuntime{list: func(context.Context) ([]*runtimeapi.Container, error) {
		return nil, status.Error(code, "not today")
	}}
}

// containerNumber returns the ID of one of many containers.
func containerNumber(n int) string { return fmt.Sprintf("%064x", n) }

// inPod returns a container as the kubelet labels it.
func inPod(id, namespace, pod, name string) *runtimeapi.Container {
	return &runtimeapi.Container{Id: id, State: runtimeapi.ContainerState_CONTAINER_RUNNING, Labels: map[string]string{
		"io.kubernetes.pod.namespace":  namespace,
		"io.kubernetes.pod.name":       pod,
		"io.kubernetes.container.name": name,
	}}
}

// runtimeSocket returns a path for a socket: that of t.TempDir may be longer than
// the 107 bytes that the address of a socket has.
func runtimeSocket(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cri") //nolint:usetesting // for its length
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "cri.sock")
}

// running has c.run go on until the test ends. After each list it waits until the
// test takes from the channel how long it would have paused.
func running(t testing.TB, c *containers) <-chan time.Duration {
	t.Helper()
	pauses := make(chan time.Duration)
	c.pause = func(ctx context.Context, d time.Duration) bool {
		select {
		case pauses <- d:
			return true
		case <-ctx.Done():
			return false
		}
	}
	var ended sync.WaitGroup
	ended.Go(func() { c.run(t.Context()) })
	t.Cleanup(ended.Wait)
	return pauses
}

// asking has the containers of a runtime at a new socket, which the flag names or not, looked up until the test ends.
func asking(t testing.TB, r *fakeRuntime, given bool) (c *containers, pauses <-chan time.Duration, socket string) {
	t.Helper()
	socket = runtimeSocket(t)
	r.start(t, socket)
	c = newContainers([]string{socket}, given)
	return c, running(t, c), socket
}

// listed asks for a container of which nothing is known yet, and waits for the list after that.
func listed(t testing.TB, c *containers, pauses <-chan time.Duration, id string) (pause time.Duration) {
	t.Helper()
	unknown(t, c, id)
	return <-pauses
}

// unknown checks that there is no final answer yet.
func unknown(t testing.TB, c *containers, id string) {
	t.Helper()
	if p, done := c.find(id); done || p != (place{}) {
		t.Fatalf("find(%s) = %+v, %v; want nothing known yet", id, p, done)
	}
}

// known checks the final answer for a container.
func known(t testing.TB, c *containers, id string, want place) {
	t.Helper()
	if p, done := c.find(id); !done || p != want {
		t.Fatalf("find(%s) = %+v, %v; want %+v for sure; problem: %v", id, p, done, want, c.problem())
	}
}

func TestContainersFind(t *testing.T) {
	for _, c := range []struct {
		name   string
		listed []*runtimeapi.Container
		want   place
	}{
		{
			name:   "found",
			listed: []*runtimeapi.Container{inPod(idB, "default", "other", "main"), inPod(idA, "research", "train-0", "pytorch")},
			want:   place{namespace: "research", pod: "train-0", container: "pytorch"},
		},
		{name: "not listed", listed: []*runtimeapi.Container{inPod(idB, "default", "other", "main")}},
		{name: "nothing listed"},
		{name: "in no pod", listed: []*runtimeapi.Container{{Id: idA, Labels: map[string]string{"maintainer": "somebody"}}}},
		{
			name:   "ended",
			listed: []*runtimeapi.Container{{Id: idA, State: runtimeapi.ContainerState_CONTAINER_EXITED, Labels: inPod(idA, "research", "train-0", "pytorch").Labels}},
			want:   place{namespace: "research", pod: "train-0", container: "pytorch"},
		},
		{
			name:   "not fit for a label",
			listed: []*runtimeapi.Container{inPod(idA, "re\nsearch", "train\x1b[31m", strings.Repeat("é", maxName))},
			want:   place{namespace: "re search", pod: "train\uFFFD[31m", container: strings.Repeat("é", maxName/2)},
		},
		{name: "not an ID", listed: []*runtimeapi.Container{nil, {}, inPod("../"+idA, "a", "b", "c"), inPod(idA[:12], "a", "b", "c")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, socket := having(c.listed...), runtimeSocket(t)
			r.start(t, socket)
			cs := newContainers([]string{"unix://" + socket}, true)
			pauses := running(t, cs)
			equal(t, listed(t, cs, pauses, idA), minListInterval, "the next list is made after")
			known(t, cs, idA, c.want)
			if n := r.lists.Load(); n != 1 || cs.problem() != nil {
				t.Errorf("%d lists, problem %v; want one and none", n, cs.problem())
			}
		})
	}
}

func TestContainersWithoutRuntimeSocket(t *testing.T) {
	socket := runtimeSocket(t)
	usual := newContainers([]string{socket, socket + "2"}, false)
	known(t, usual, idA, place{})
	noProblem(t, usual) // a host without Kubernetes

	given := newContainers([]string{socket}, true)
	wantProblem(t, given, socket, "not exist", "--collector.workload.cri-socket")
	pauses := running(t, given)
	listed(t, given, pauses, idA)
	wantProblem(t, given, socket, "not exist", "--collector.workload.cri-socket")

	// The runtime comes later than the exporter.
	having(inPod(idA, "default", "late", "main"), inPod(idB, "default", "later", "main")).start(t, socket)
	noProblem(t, given) // it is there now
	listed(t, given, pauses, idA)
	known(t, given, idA, place{namespace: "default", pod: "late", container: "main"})
	pauses = running(t, usual)
	known(t, usual, idA, place{})
	listed(t, usual, pauses, idB)
	known(t, usual, idB, place{namespace: "default", pod: "later", container: "main"})
}

// wantProblem checks the text of the problem.
func wantProblem(t *testing.T, c *containers, parts ...string) {
	t.Helper()
	err := c.problem()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the problem does not tell %q: %v", part, err)
		}
	}
}

func noProblem(t *testing.T, c *containers) {
	t.Helper()
	if err := c.problem(); err != nil {
		t.Errorf("the problem is %v", err)
	}
}

func TestAdvice(t *testing.T) {
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", err)}
	}
	for _, c := range []struct {
		err  error
		want string
	}{
		{dial(syscall.EACCES), "uid 0"},
		{dial(syscall.ENOENT), "--flag names another"},
		{&fs.PathError{Op: "stat", Path: "/x", Err: syscall.ENOENT}, "--flag names another"},
		{dial(syscall.ECONNREFUSED), "nothing listens"},
		{status.Error(codes.Unimplemented, "unknown service runtime.v1.RuntimeService"), "CRI plugin"},
		{dial(syscall.EMFILE), ""},
		{context.DeadlineExceeded, ""},
	} {
		if got := advice(c.err, "--flag"); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%v: %q, want %q in it", c.err, got, c.want)
		}
	}
}

func TestContainersRuntimeHangs(t *testing.T) {
	asked := make(chan struct{})
	r := &fakeRuntime{list: func(ctx context.Context) ([]*runtimeapi.Container, error) {
		if deadline, ok := ctx.Deadline(); !ok || time.Until(deadline) > socketTimeout {
			t.Errorf("the list has until %v, want %v", deadline, socketTimeout)
		}
		asked <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	socket := runtimeSocket(t)
	r.start(t, socket)
	c := newContainers([]string{socket}, true)
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() { c.run(ctx) })
	unknown(t, c, idA)
	<-asked
	unknown(t, c, idA) // it does not wait for the list
	unknown(t, c, idB)
	begin := time.Now()
	cancel()
	ended.Wait()
	if d := time.Since(begin); d > socketTimeout/2 {
		t.Errorf("run ended %v after its context", d)
	}
	noProblem(t, c)
}

func TestContainersRuntimeRestarts(t *testing.T) {
	for _, given := range []bool{true, false} {
		t.Run(fmt.Sprintf("given %v", given), func(t *testing.T) {
			a, b := place{namespace: "default", pod: "a", container: "main"}, place{namespace: "default", pod: "b", container: "main"}
			socket := runtimeSocket(t)
			stop := having(inPod(idA, "default", "a", "main")).start(t, socket)
			c := newContainers([]string{socket}, given)
			pauses := running(t, c)
			listed(t, c, pauses, idA)
			known(t, c, idA, a)

			stop()
			listed(t, c, pauses, idB)
			listed(t, c, pauses, idB) // it will be back: this host has Kubernetes
			wantProblem(t, c, socket, "not exist")
			known(t, c, idA, a)

			having(inPod(idB, "default", "b", "main")).start(t, socket)
			listed(t, c, pauses, idB)
			known(t, c, idB, b)
			known(t, c, idA, a)
			noProblem(t, c)
		})
	}
}

func TestContainersRuntimeWithoutCRI(t *testing.T) {
	t.Run("given", func(t *testing.T) {
		c, pauses, socket := asking(t, &fakeRuntime{}, true)
		listed(t, c, pauses, idA)
		unknown(t, c, idA)
		wantProblem(t, c, socket, "CRI plugin", "--collector.workload.cri-socket")
	})
	t.Run("usual", func(t *testing.T) {
		socket := runtimeSocket(t)
		stop := (&fakeRuntime{}).start(t, socket)
		c := newContainers([]string{socket + "0", socket}, false)
		pauses := running(t, c)
		listed(t, c, pauses, idA)
		known(t, c, idA, place{})
		listed(t, c, pauses, idB)
		known(t, c, idB, place{})
		noProblem(t, c) // a Docker host

		// It is started anew, with the CRI this time.
		stop()
		having(inPod(containerNumber(3), "default", "a", "main")).start(t, socket)
		listed(t, c, pauses, containerNumber(3))
		known(t, c, containerNumber(3), place{namespace: "default", pod: "a", container: "main"})
		known(t, c, idA, place{})
	})
}

// A Docker host has a containerd of its own beside that of Kubernetes.
func TestContainersSeveralRuntimes(t *testing.T) {
	for _, c := range []struct {
		name  string
		first *fakeRuntime
		lists int64
	}{
		{"nothing at the first", nil, 0},
		{"no CRI at the first", failing(codes.Unimplemented), 1},
		{"no containers at the first", having(), 1},
		{"failure of the first", failing(codes.Unavailable), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, second, third := runtimeSocket(t), runtimeSocket(t), runtimeSocket(t)
			if c.first != nil {
				c.first.start(t, first)
			}
			having(inPod(idA, "default", "a", "main")).start(t, second)
			last := having(inPod(idB, "default", "b", "main"))
			last.start(t, third)
			cs := newContainers([]string{first, second, third}, false)
			pauses := running(t, cs)
			listed(t, cs, pauses, idA)
			known(t, cs, idA, place{namespace: "default", pod: "a", container: "main"})
			listed(t, cs, pauses, idB)
			known(t, cs, idB, place{})
			if c.first != nil && c.first.lists.Load() != c.lists {
				t.Errorf("the first was asked %d times, want %d", c.first.lists.Load(), c.lists)
			}
			equal(t, last.lists.Load(), 0, "how often the last was asked")
		})
	}
}

// A list answers for the containers that were asked for before it began.
func TestContainersAskedDuringRuntimeList(t *testing.T) {
	begun, answer := make(chan struct{}), make(chan []*runtimeapi.Container)
	r := &fakeRuntime{list: func(context.Context) ([]*runtimeapi.Container, error) {
		begun <- struct{}{}
		return <-answer, nil
	}}
	c, pauses, _ := asking(t, r, true)
	unknown(t, c, idA)
	<-begun
	unknown(t, c, idA)
	unknown(t, c, idB)
	unknown(t, c, containerNumber(1))
	answer <- nil
	<-pauses
	<-begun
	known(t, c, idA, place{})
	unknown(t, c, idB)
	unknown(t, c, containerNumber(1))
	answer <- []*runtimeapi.Container{inPod(containerNumber(1), "default", "late", "main")}
	<-pauses
	known(t, c, idB, place{})
	known(t, c, containerNumber(1), place{namespace: "default", pod: "late", container: "main"})
	// The last wake-up found nobody waiting.
	equal(t, r.lists.Load(), 2, "lists")
}

func TestContainersRuntimeFails(t *testing.T) {
	c, pauses, socket := asking(t, failing(codes.Unavailable), false)
	var delays []time.Duration
	for range 7 {
		delays = append(delays, listed(t, c, pauses, idA))
	}
	want := []time.Duration{1e9, 2e9, 4e9, 8e9, 10e9, 10e9, 10e9}
	equal(t, delays, want, "pauses of")
	wantProblem(t, c, socket, "not today")
	// Nobody asks any more.
	c.mu.Lock()
	defer c.mu.Unlock()
	equal(t, len(c.waiting), 0, "waited for after failures")
}

func TestContainersAreBounded(t *testing.T) {
	const many = 2_000
	var all []*runtimeapi.Container
	for n := range many {
		all = append(all, inPod(containerNumber(n), "default", fmt.Sprintf("pod-%d", n), "main"))
	}
	c, pauses, _ := asking(t, having(all...), true)
	left := map[int]bool{}
	for n := 0; n < 20*many; n += 4 {
		left[n] = true // more than can be remembered
	}
	// All get their answer in the end, those in no pod too.
	for len(left) > 0 {
		before := len(left)
		for n := range left {
			var want place
			if n < many {
				want = place{namespace: "default", pod: fmt.Sprintf("pod-%d", n), container: "main"}
			}
			if p, done := c.find(containerNumber(n)); done && p != want {
				t.Fatalf("container %d is in %+v, want %+v", n, p, want)
			} else if done {
				delete(left, n)
			}
		}
		c.mu.Lock()
		answers, waiting := len(c.answers.young)+len(c.answers.old), len(c.waiting)
		c.mu.Unlock()
		if answers > maxContainers || waiting > maxWaiting {
			t.Fatalf("%d answers and %d waiting, want at most %d and %d", answers, waiting, maxContainers, maxWaiting)
		}
		if len(left) == before {
			<-pauses
		}
	}
}

// Of several sockets that are named one is enough.
func TestContainersOfTwoNamedSockets(t *testing.T) {
	socket, missing := runtimeSocket(t), runtimeSocket(t)
	having().start(t, socket)
	c := newContainers([]string{missing, socket}, true)
	noProblem(t, c)
	pauses := running(t, c)
	listed(t, c, pauses, idA)
	known(t, c, idA, place{})
	noProblem(t, c)
	if err := newContainers([]string{missing, missing + "2"}, true).problem(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without any: %v", err)
	}
}

// A problem that nobody has met again for a while is none any more.
func TestContainersProblemPasses(t *testing.T) {
	c, pauses, _ := asking(t, failing(codes.DeadlineExceeded), true)
	listed(t, c, pauses, idA)
	if c.problem() == nil {
		t.Error("no problem")
	}
	c.mu.Lock()
	c.at = c.at.Add(-2*maxListDelay - time.Second)
	c.mu.Unlock()
	noProblem(t, c)
	listed(t, c, pauses, idA)
	if c.problem() == nil {
		t.Error("no problem, though it was met again")
	}
}

func TestEnded(t *testing.T) {
	exited := func(code int32) *fakeRuntime {
		return &fakeRuntime{status: &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_EXITED, ExitCode: code}}
	}
	failed := func(code codes.Code) *fakeRuntime { return &fakeRuntime{err: status.Error(code, "not now")} }
	for _, c := range []struct {
		name    string
		runtime *fakeRuntime
		code    gpu.Opt[int32]
		known   bool
	}{
		{"done", exited(0), gpu.Some[int32](0), true},
		{"killed", exited(137), gpu.Some[int32](137), true},
		{"still running", &fakeRuntime{status: &runtimeapi.ContainerStatus{State: runtimeapi.ContainerState_CONTAINER_RUNNING}}, gpu.Opt[int32]{}, false},
		{"nothing is told", &fakeRuntime{}, gpu.Opt[int32]{}, false},
		{"forgotten", failed(codes.NotFound), gpu.Opt[int32]{}, true},
		{"no Kubernetes", failed(codes.Unimplemented), gpu.Opt[int32]{}, true},
		{"no answer", failed(codes.Unavailable), gpu.Opt[int32]{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			socket := runtimeSocket(t)
			serveAt(t, socket, func(s *grpc.Server) { runtimeapi.RegisterRuntimeServiceServer(s, c.runtime) })
			r := newTree(t).resolver(Config{RuntimeSockets: []string{runtimeSocket(t), socket}})
			ended(t, r, idA, c.code, c.known)
			ended(t, r, idB, gpu.Opt[int32]{}, true)
		})
	}
	ended(t, newTree(t).resolver(Config{RuntimeSockets: []string{runtimeSocket(t)}}), idA, gpu.Opt[int32]{}, false) // without its runtime
	ended(t, newTree(t).resolver(Config{}), idA, gpu.Opt[int32]{}, true)                                            // without a runtime
}

// ended checks the exit code of a container, and whether the answer is final.
func ended(t *testing.T, r *Resolver, id string, code gpu.Opt[int32], known bool) {
	t.Helper()
	gotCode, gotKnown := r.Ended(t.Context(), id)
	equal(t, gotCode, code, "%s: the exit code", id)
	equal(t, gotKnown, known, "%s: known", id)
}
