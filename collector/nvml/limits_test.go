// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// TestLimitsOfGroups asks the driver for the limits of a process's group and of those above it, and the kernel for theirs.
func TestLimitsOfGroups(t *testing.T) {
	const call, pod, ctr, region = "nvmlDeviceGetMemoryLimits_v1", "/pods/a", "/pods/a/main", "drm/0000:3b:00.0/vram0 "
	drivers := func(of string, bytes uint64) gpu.Limit {
		return gpu.Limit{Source: gpu.LimitNVML, Of: of, Bytes: bytes, Charged: gpu.Some(uint64(1 << 20))}
	}
	kernels := func(of string) gpu.Limit {
		return gpu.Limit{Source: gpu.LimitDmem, Of: of, Bytes: 4096, Charged: gpu.Some(uint64(1024))}
	}
	for name, c := range map[string]struct {
		group         string
		limits        map[string]uint64
		files         map[string]string
		code          nvml.Return
		old           bool
		want          []gpu.Limit
		calls, errors int
	}{
		"its own and above": {group: ctr, limits: map[string]uint64{ctr: 20 << 30, pod: 30 << 30}, want: []gpu.Limit{drivers(ctr, 20<<30), drivers(pod, 30<<30)}, calls: 3},
		"that above":        {group: ctr, limits: map[string]uint64{ctr: math.MaxUint64, pod: 30 << 30}, want: []gpu.Limit{drivers(pod, 30<<30)}, calls: 3},
		"none":              {group: ctr, calls: 3},
		"hidden folders":    {group: ctr, limits: map[string]uint64{ctr: 20 << 30}, code: nvml.ERROR_OPERATING_SYSTEM, calls: 3},
		"the call fails":    {group: ctr, limits: map[string]uint64{ctr: 20 << 30}, code: nvml.ERROR_UNKNOWN, calls: 3, errors: 1},
		"an old driver":     {group: ctr, limits: map[string]uint64{ctr: 20 << 30}, old: true},
		"no known group":    {limits: map[string]uint64{"": 20 << 30}},
		"the group above":   {group: "/", limits: map[string]uint64{"/": 20 << 30}},
		"not in sight":      {group: "/../pods/a", limits: map[string]uint64{pod: 20 << 30, "": 20 << 30}},
		"one that is gone":  {group: ctr + " (deleted)", limits: map[string]uint64{pod: 30 << 30}, want: []gpu.Limit{drivers(pod, 30<<30)}, calls: 3},
		"an odd name":       {group: "/..data", limits: map[string]uint64{"/..data": 20 << 30}, want: []gpu.Limit{drivers("/..data", 20<<30)}, calls: 1},
		"the kernel's": {
			group: ctr, limits: map[string]uint64{ctr: 20 << 30}, calls: 3, want: []gpu.Limit{drivers(ctr, 20<<30), kernels(ctr), kernels("/pods")},
			files: map[string]string{ctr + "/dmem.max": region + "4096", ctr + "/dmem.current": region + "1024", "/pods/dmem.max": region + "4096", "/pods/dmem.current": region + "1024"},
		},
		"it cannot be read": {
			group: ctr, limits: map[string]uint64{pod: 20 << 30}, files: map[string]string{ctr + "/dmem.max": region + "x"}, calls: 3,
			want: []gpu.Limit{{Source: gpu.LimitDmem, Of: ctr}, drivers(pod, 20<<30)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			node, s, l, d := newOneGPU(t)
			node.gpus[0].limits, d.info.PCIBusID = map[string]uint64{}, "00000000:3B:00.0"
			s.cfg.SysFS = t.TempDir()
			for group, bytes := range c.limits {
				node.gpus[0].limits[s.cfg.SysFS+"/fs/cgroup"+group] = bytes
			}
			for file, text := range c.files {
				path := s.cfg.SysFS + "/fs/cgroup" + file
				testkit.Write(t, path, text)
			}
			var there byte
			if s.library.symbols.Store(call, unsafe.Pointer(&there)); c.old {
				s.library.symbols.Store(call, unsafe.Pointer(nil))
			}
			node.begin(&simFault{call: call, code: c.code})
			for i, after := range []time.Duration{0, 14 * time.Second, 15 * time.Second} { // the slow interval
				must(t, d.read(func(r *reading) error {
					r.migEnabled(time.Hour + after)
					testkit.Equal(t, r.limits(c.group), c.want, "after %v", after)
					return r.failure()
				}))
				_, _, calls := l.count(call)
				testkit.Equal(t, calls, []int{c.calls, c.calls, 2 * c.calls}[i], "calls after %v", after)
			}
			testkit.Equal(t, len(s.Calls().Snapshot().Errors), c.errors, "kinds of errors")
		})
	}
}

// TestReadRegion reads what the kernel tells of a control group.
func TestReadRegion(t *testing.T) {
	const bus = "00000000:3B:00.0"
	unreadable := gpu.Some(uint64(0))
	for name, c := range map[string]struct {
		text string
		want gpu.Opt[uint64]
	}{
		"no limit":       {text: "drm/0000:3b:00.0/vram0 max\n"},
		"among others":   {text: "drm/0000:1b:00.0/vram0 7\ndrm/0000:3b:00.0/stolen 8\ndrm/0000:3b:00.0/vram0 12550144\n", want: gpu.Some(uint64(12550144))},
		"no number":      {text: "drm/0000:3b:00.0/vram0 many\n", want: unreadable},
		"nothing":        {text: "drm/0000:3b:00.0/vram0\n", want: unreadable},
		"another GPU":    {text: "drm/0000:3c:00.0/vram0 100\n"},
		"another domain": {text: "drm/0001:3b:00.0/vram0 100\n"},
		"a longer one":   {text: "drm/0000:3b:00.01/vram0 100\ndrm/1:0000:3b:00.0/vram0 100\n"},
	} {
		file := filepath.Join(t.TempDir(), "dmem.max")
		must(t, os.WriteFile(file, []byte(c.text), 0o600))
		testkit.Equal(t, readRegion(file, bus), c.want, "%s", name)
		testkit.Equal(t, readRegion(file, "").OK, false, "%s, of a GPU without an address", name)
	}
	testkit.Equal(t, readRegion(filepath.Join(t.TempDir(), "dmem.max"), bus).OK, false, "a group that is gone")
	testkit.Equal(t, readRegion(t.TempDir(), bus), unreadable, "a folder")
}

func FuzzRegion(f *testing.F) {
	f.Add("drm/0000:3b:00.0/vram0 100\n", "00000000:3B:00.0")
	f.Add("drm/0000:3b:00.0/vram0 max", ":")
	f.Fuzz(func(t *testing.T, text, bus string) {
		file := filepath.Join(t.TempDir(), "dmem.max")
		must(t, os.WriteFile(file, []byte(text), 0o600))
		if bytes := readRegion(file, bus); bytes.OK && (bus == "" || !strings.Contains(text, "/vram")) {
			t.Errorf("%d bytes", bytes.V)
		}
	})
}
