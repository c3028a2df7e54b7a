// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/hostfs"
)

// TestLimitsOfGroups asks the driver for the limit of a process's group, and of those above it.
func TestLimitsOfGroups(t *testing.T) {
	const call, pod, ctr = "nvmlDeviceGetMemoryLimits_v1", "/pods/a", "/pods/a/main"
	limit := func(of string, bytes uint64) []gpu.Limit {
		return []gpu.Limit{{Source: gpu.LimitNVML, Of: of, Bytes: bytes, Charged: gpu.Some(uint64(1 << 20))}}
	}
	for name, c := range map[string]struct {
		group  string
		limits map[string]uint64
		code   nvml.Return
		old    bool
		want   []gpu.Limit
		calls  int
		errors int
	}{
		"its own":         {group: ctr, limits: map[string]uint64{ctr: 20 << 30, pod: 30 << 30}, want: limit(ctr, 20<<30), calls: 1},
		"that above":      {group: ctr, limits: map[string]uint64{ctr: math.MaxUint64, pod: 30 << 30}, want: limit(pod, 30<<30), calls: 2},
		"none":            {group: ctr, calls: 3},
		"hidden folders":  {group: ctr, limits: map[string]uint64{ctr: 20 << 30}, code: nvml.ERROR_OPERATING_SYSTEM, calls: 3},
		"the call fails":  {group: ctr, limits: map[string]uint64{ctr: 20 << 30}, code: nvml.ERROR_UNKNOWN, calls: 3, errors: 1},
		"an old driver":   {group: ctr, limits: map[string]uint64{ctr: 20 << 30}, old: true},
		"no known group":  {limits: map[string]uint64{"": 20 << 30}},
		"the group above": {group: "/", limits: map[string]uint64{"/": 20 << 30}},
	} {
		t.Run(name, func(t *testing.T) {
			node, s, l, d := newOneGPU(t)
			node.gpus[0].limits = map[string]uint64{}
			for group, bytes := range c.limits {
				node.gpus[0].limits["/sys/fs/cgroup"+group] = bytes
			}
			var there byte
			if s.library.symbols.Store(call, unsafe.Pointer(&there)); c.old {
				s.library.symbols.Store(call, unsafe.Pointer(nil))
			}
			node.begin(&simFault{call: call, code: c.code})
			read := func(at time.Duration) (got []gpu.Limit) {
				must(t, d.read(func(r *reading) error {
					got = r.limits(&process{placement: &hostfs.Placement{Group: c.group}}, at)
					return r.failure()
				}))
				return got
			}
			asked := func(want int, when string) {
				t.Helper()
				_, _, n := l.count(call)
				equal(t, n, want, "calls %s", when)
			}
			equal(t, read(time.Hour), c.want, "limits")
			asked(c.calls, "at first")
			equal(t, read(time.Hour+14*time.Second), c.want, "limits that are kept")
			asked(c.calls, "before the slow interval")
			equal(t, read(time.Hour+15*time.Second), c.want, "limits that are asked for again")
			asked(2*c.calls, "after the slow interval")
			equal(t, len(s.Calls().Snapshot().Errors), c.errors, "kinds of errors")
			equal(t, d.read(func(r *reading) error {
				equal(t, r.limits(never, time.Hour), nil, "of a process that was not seen")
				return nil
			}), nil, "error")
		})
	}
}
