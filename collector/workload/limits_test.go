// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// TestLimitsOfSpecification has the runtime tell the variables of a container, as containerd and CRI-O do. They come with its pod, also of
// a container that was listed for another one before, and stay known when another container comes.
func TestLimitsOfSpecification(t *testing.T) {
	const info = `{"pid": 7, "runtimeSpec": {"process": {"env": ["PATH=/bin", "SECRET=x", "NVIDIA_VISIBLE_DEVICES=GPU-b,GPU-a",
		"CUDA_DEVICE_MEMORY_LIMIT_0=9g", "CUDA_DEVICE_MEMORY_LIMIT_1=3000m", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G,1=512MB"]}}}`
	runtime := having(inPod(idA, "ml", "a-0", "main"), inPod(idB, "ml", "b-0", "main"))
	runtime.info = map[string]string{"info": info}
	socket := runtimeSocket(t)
	tr := newTree(t)
	a := tr.add(42, process{comm: "serve", start: 7, cgroup: "0::/kubepods/" + idA + "\n"})
	b := tr.add(43, process{comm: "train", start: 8, cgroup: "0::/kubepods/" + idB + "\n"})
	r := tr.resolver(Config{RuntimeSockets: []string{socket}})
	runtime.before = func(context.Context) error {
		r.containers.find(idA) // as the next sample does
		return nil
	}
	runtime.start(t, socket)
	check := func(id gpu.ProcessID, uuid string, known bool, want ...gpu.Limit) {
		t.Helper()
		o, done := r.lookUp(id)
		if got := Limits(o, uuid); !slices.Equal(got, want) || done != known || strings.Contains(o.Variables, "SECRET") {
			t.Errorf("%v %v, want %v %v, of %q", got, done, want, known, o.Variables)
		}
	}
	ask := func() {
		t.Helper()
		_, err := r.containers.ask(t.Context())
		must(t, err)
	}
	limits := []gpu.Limit{{Source: gpu.LimitHAMi, Of: idA, Bytes: 3000 << 20}, {Source: gpu.LimitMPS, Bytes: 512 << 20}}
	check(b, "GPU-a", false) // the runtime has not answered
	ask()
	check(a, "GPU-a", false) // it was listed for b
	ask()
	check(a, "GPU-a", true, limits...)
	check(a, "GPU-c", true) // it does not use that
	check(b, "GPU-a", true)
	r.containers.find(containerNumber(1))
	ask()
	check(a, "GPU-a", true, limits...)
	if asked, err := r.containers.ask(t.Context()); asked || err != nil {
		t.Errorf("it is asked for what is known: %v %v", asked, err)
	}
}

// TestStatusHangs has a runtime list containers at once, and keep whoever asks for more of one waiting: their pods are known meanwhile.
func TestStatusHangs(t *testing.T) {
	asked, release := make(chan struct{}, 2), make(chan struct{})
	runtime := having(inPod(idA, "ml", "a-0", "main"), inPod(idB, "ml", "b-0", "main"))
	runtime.info = map[string]string{"info": `{"runtimeSpec": {"process": {"env": ["CUDA_DEVICE_MEMORY_LIMIT=1g"]}}}`}
	runtime.before = func(ctx context.Context) error {
		asked <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}
	c, pauses, _ := asking(t, runtime, true)
	unknown(t, c, idB) // the list may begin before the other one is asked for
	unknown(t, c, idA)
	<-asked
	p, done := c.find(idB)
	if p.pod == "" {
		p, done = c.find(idA)
	}
	if p.pod == "" || p.variables != "" || done {
		t.Errorf("while the runtime keeps it waiting: %+v, final %v", p, done)
	}
	close(release)
	<-pauses
	if _, done := c.find(idA); !done {
		<-pauses
	}
	known(t, c, idB, place{namespace: "ml", pod: "b-0", container: "main"}) // it has no status
	known(t, c, idA, place{namespace: "ml", pod: "a-0", container: "main", variables: "CUDA_DEVICE_MEMORY_LIMIT=1g\n"})
}

// TestStatusFails has a runtime that cannot tell more of a container for a moment: it is asked again, ever more rarely, and says so. A list
// for another container may come before.
func TestStatusFails(t *testing.T) {
	var calls atomic.Int32
	runtime := having(inPod(idA, "ml", "a-0", "main"))
	runtime.info = map[string]string{"info": `{"runtimeSpec": {"process": {"env": ["CUDA_DEVICE_MEMORY_LIMIT=1g"]}}}`}
	runtime.before = func(context.Context) error {
		if calls.Add(1) <= 3 {
			return status.Error(codes.ResourceExhausted, "too busy")
		}
		return nil
	}
	c, pauses, socket := asking(t, runtime, true)
	delays := []time.Duration{listed(t, c, pauses, idA)}
	wantProblem(t, c, socket, "limits of a container", "too busy")
	delays = append(delays, listed(t, c, pauses, idB))
	noProblem(t, c)
	if p, done := c.find(idA); p != (place{namespace: "ml", pod: "a-0", container: "main", incomplete: true}) || done {
		t.Errorf("while the runtime is too busy: %+v, final %v", p, done)
	}
	for range 3 {
		c.find(idA)
		delays = append(delays, <-pauses)
	}
	equal(t, delays, []time.Duration{1e9, 1e9, 1e9, 2e9, 1e9}, "pauses of")
	c.mu.Lock()
	equal(t, len(c.waiting), 0, "waited for after that")
	c.mu.Unlock()
	known(t, c, idA, place{namespace: "ml", pod: "a-0", container: "main", variables: "CUDA_DEVICE_MEMORY_LIMIT=1g\n"})
	noProblem(t, c)
}

// TestVariablesAreBounded has a container with all GPUs of a large node, and one with variables without end.
func TestVariablesAreBounded(t *testing.T) {
	const uuid = "GPU-01234567-0123-0123-0123-0123456789a%x"
	var devices []string
	for n := range 16 {
		devices = append(devices, fmt.Sprintf(uuid, n))
	}
	env := []string{visibleDevices + "=" + strings.Join(devices, ","), hamiLimit + "_15=7g", hamiLimit + "_1=" + strings.Repeat("1", maxVariables)}
	for n := range 10_000 {
		env = append(env, fmt.Sprintf("%s_%d=1g", hamiLimit, 100+n))
	}
	text, err := json.Marshal(env)
	must(t, err)
	runtime, socket := having(), runtimeSocket(t)
	runtime.info = map[string]string{"info": `{"runtimeSpec": {"process": {"env": ` + string(text) + `}}}`}
	runtime.start(t, socket)
	variables, err := environment(t.Context(), socket, idA)
	must(t, err)
	o := gpu.Owner{ContainerID: idA, Variables: variables}
	if got := Limits(&o, devices[15]); len(got) != 1 || got[0].Bytes != 7<<30 || len(o.Variables) > maxVariables {
		t.Errorf("limits %v of %d bytes of variables", got, len(o.Variables))
	}
}

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]uint64{
		"1024": 1024, "3000m": 3000 << 20, "20G": 20 << 30, "512MB": 512 << 20, "7k": 7 << 10, "0": 0,
		"": 0, "m": 0, "1.5g": 0, "-1": 0, "99999999999g": 0, "7t": 0, "m5": 0, "3mm": 0, "17179869184g": 0, "17179869183g": 17179869183 << 30,
	} {
		if got := parseLimit(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func FuzzLimits(f *testing.F) {
	f.Add("NVIDIA_VISIBLE_DEVICES=a\nCUDA_DEVICE_MEMORY_LIMIT_0=1g\nCUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G,=", "a")
	f.Fuzz(func(t *testing.T, variables, uuid string) {
		if got := Limits(&gpu.Owner{Variables: variables}, uuid); len(got) > 1+strings.Count(variables, ",")+1 {
			t.Errorf("%d limits", len(got))
		}
	})
}
