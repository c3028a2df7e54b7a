// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// TestLimits finds the limit of a process by its control group, once the process was looked up.
func TestLimits(t *testing.T) {
	on := &gpu.Info{UUID: "GPU-a", PCIBusID: "00000000:3B:00.0"}
	tr, groups := newTree(t), tree{t, t.TempDir()}
	id := tr.add(42, process{comm: "serve", start: 7, cgroup: "0::/pods/a\n"})
	other := tr.add(43, process{comm: "train", start: 8, cgroup: "0::/pods/b\n"})
	groups.write("pods/a/dmem.max", "drm/0000:3b:00.0/vram0 4096\n")
	groups.write("pods/a/dmem.current", "drm/0000:3b:00.0/vram0 1024\n")
	groups.write("pods/b/dmem.max", "drm/0000:3b:00.0/vram0 x\n")
	r := tr.resolver(Config{CgroupFS: groups.root})
	if got, _, err := r.Limits(id, on); got != nil || err != nil {
		t.Errorf("before it was looked up: %v %v", got, err)
	}
	r.lookUp(id)
	r.lookUp(other)
	want := []gpu.Limit{{Source: gpu.LimitDmem, Of: "/pods/a", Bytes: 4096, Charged: gpu.Some(uint64(1024))}}
	if got, _, err := r.Limits(id, on); !slices.Equal(got, want) || err != nil {
		t.Errorf("%v %v, want %v", got, err, want)
	}
	if got, _, err := r.Limits(id, &gpu.Info{PCIBusID: "00000000:3C:00.0"}); got != nil || err != nil {
		t.Errorf("on another GPU: %v %v", got, err)
	}
	if got, _, err := r.Limits(other, on); got != nil || err == nil || !strings.Contains(err.Error(), `cannot read "x" as a number of bytes`) {
		t.Errorf("%v %v", got, err)
	}

	// The next run of a container has another ID, and the same limit. A group above may leave less.
	id.Start++
	r.keep(id, answer{owner: &gpu.Owner{Namespace: "ml", Pod: "a", Container: "main", ContainerID: "0123"}, group: "/pods/a/docker-0123.scope", done: true})
	groups.write("pods/a/docker-0123.scope/dmem.max", "drm/0000:3b:00.0/vram0 2048\n")
	groups.write("pods/a/docker-0123.scope/dmem.current", "drm/0000:3b:00.0/vram0 0\n")
	if got, _, err := r.Limits(id, on); len(got) != 1 || got[0].Of != "ml/a/main" || err != nil {
		t.Errorf("%v %v", got, err)
	}
	groups.write("pods/a/docker-0123.scope/dmem.max", "drm/0000:3b:00.0/vram0 8192\n")
	if got, _, err := r.Limits(id, on); !slices.Equal(got, want) || err != nil {
		t.Errorf("%v %v, want %v", got, err, want)
	}
}

// TestLimitsOfSpecification has the runtime tell the variables of a container, as containerd and CRI-O do. They stay known when another
// container comes, and are asked for though the container was listed for another one before.
func TestLimitsOfSpecification(t *testing.T) {
	const info = `{"pid": 7, "runtimeSpec": {"process": {"env": ["PATH=/bin", "SECRET=x", "NVIDIA_VISIBLE_DEVICES=GPU-b,GPU-a",
		"CUDA_DEVICE_MEMORY_LIMIT_0=9g", "CUDA_DEVICE_MEMORY_LIMIT_1=3000m", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G,1=512MB"]}}}`
	runtime := having(inPod(idA, "ml", "a-0", "main"), inPod(idB, "ml", "b-0", "main"))
	runtime.info = map[string]string{"info": info}
	socket := runtimeSocket(t)
	runtime.start(t, socket)
	tr := newTree(t)
	a := tr.add(42, process{comm: "serve", start: 7, cgroup: "0::/kubepods/" + idA + "\n"})
	b := tr.add(43, process{comm: "train", start: 8, cgroup: "0::/kubepods/" + idB + "\n"})
	r := tr.resolver(Config{RuntimeSockets: []string{socket}})
	check := func(id gpu.ProcessID, uuid string, known bool, want ...gpu.Limit) {
		t.Helper()
		r.lookUp(id)
		if got, is, err := r.Limits(id, &gpu.Info{UUID: uuid}); !slices.Equal(got, want) || is != known || err != nil {
			t.Errorf("%v %v %v, want %v %v", got, is, err, want, known)
		}
	}
	ask := func() {
		t.Helper()
		_, err := r.containers.ask(t.Context())
		must(t, err)
	}
	limits := []gpu.Limit{{Source: gpu.LimitHAMi, Of: "ml/a-0/main", Bytes: 3000 << 20}, {Source: gpu.LimitMPS, Bytes: 512 << 20}}
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
	if variables, _ := r.containers.limits(idA); strings.Contains(variables, "SECRET") {
		t.Error(variables)
	}
}

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]uint64{
		"1024": 1024, "3000m": 3000 << 20, "20G": 20 << 30, "512MB": 512 << 20, "7k": 7 << 10, "0": none,
		"": none, "m": none, "1.5g": none, "-1": none, "99999999999g": none, "7t": none,
	} {
		if got, ok := parseLimit(text); got != want%none || ok != (want != none) {
			t.Errorf("%q: %d %v", text, got, ok)
		}
	}
}

// none stands for no limit.
const none = 1 << 63

func FuzzLimits(f *testing.F) {
	f.Add("NVIDIA_VISIBLE_DEVICES=a\nCUDA_DEVICE_MEMORY_LIMIT_0=1g\nCUDA_MPS_PINNED_DEVICE_MEM_LIMIT=0=1G,=", "a")
	f.Fuzz(func(t *testing.T, variables, uuid string) {
		if got := limitsIn(variables, "c", uuid); len(got) > 1+strings.Count(variables, ",")+1 {
			t.Errorf("%d limits", len(got))
		}
	})
}
