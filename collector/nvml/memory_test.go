// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"math"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

func TestAllOnesIsNoNumber(t *testing.T) {
	for _, v := range []uint64{math.MaxUint64, math.MaxUint64 - 1, 17592186044415, 17592186044415 << 20} {
		if got := size(v); got.OK {
			t.Errorf("size(%d) = %v, want absent", v, got.V)
		}
	}
	for _, v := range []uint64{0, 1, 80 << 30, 1 << 48, 17592186044416} {
		if got := size(v); got != gpu.Some(v) {
			t.Errorf("size(%d) = %v", v, got)
		}
	}
	if got := number32(gpu.Some[uint32](math.MaxUint32), 1, 1000); got.OK {
		t.Errorf("number32 of all ones: %v, want absent", got.V)
	}
	if got := number32(gpu.Some[uint32](310_001), 1, 1000); got != gpu.Some(310.001) {
		t.Errorf("310001 mW: %v, want 310.001 W", got)
	}
	if got := number32(gpu.Some[uint32](1755), 1e6, 1); got != gpu.Some(1.755e9) {
		t.Errorf("1755 MHz: %v, want 1.755e9 Hz", got)
	}
}

func TestPercent(t *testing.T) {
	for v, want := range map[uint32]gpu.Opt[float64]{
		0: gpu.Some(0.0), 7: gpu.Some(0.07), 100: gpu.Some(1.0), 101: {}, math.MaxUint32: {},
	} {
		if got := percent(gpu.Some(v)); got != want {
			t.Errorf("percent(%d) = %v, want %v", v, got, want)
		}
	}
	if got := percent(gpu.Opt[uint32]{}); got.OK {
		t.Error("percent of an absent value is present")
	}
}

func TestMemoryAddsUp(t *testing.T) {
	const na = math.MaxUint64
	some, none := gpu.Some[uint64], gpu.Opt[uint64]{}
	for _, c := range []struct {
		name string
		v2   nvml.Memory_v2
		want gpu.Memory
	}{
		{"plain", nvml.Memory_v2{Total: 100, Reserved: 10, Free: 60, Used: 30}, gpu.Memory{Total: some(100), Used: some(30), Free: some(60), Reserved: some(10)}},
		{"used includes reserved", nvml.Memory_v2{Total: 100, Reserved: 10, Free: 60, Used: 40}, gpu.Memory{Total: some(100), Used: some(30), Free: some(60), Reserved: some(10)}},
		{"full", nvml.Memory_v2{Total: 100, Reserved: 10, Free: 0, Used: 90}, gpu.Memory{Total: some(100), Used: some(90), Free: some(0), Reserved: some(10)}},
		{"free not available", nvml.Memory_v2{Total: 100, Reserved: 10, Free: na}, gpu.Memory{Total: some(100), Used: none, Free: none, Reserved: some(10)}},
		{"nothing available", nvml.Memory_v2{Total: na, Reserved: na, Free: na, Used: na}, gpu.Memory{}},
	} {
		if got := memoryOf(c.v2); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	want := gpu.Memory{Total: some(100), Used: some(40), Free: some(60)}
	if got := memoryOfV1(nvml.Memory{Total: 100, Free: 60, Used: 40}); got != want {
		t.Errorf("version 1: %+v, want %+v", got, want)
	}
}

// Parts that contradict each other make the whole unusable, and the error says which.
func TestMemoryIsPlausible(t *testing.T) {
	for _, c := range []struct {
		v2   nvml.Memory_v2
		want string
	}{
		{nvml.Memory_v2{Total: 100, Reserved: 10, Free: 60}, ""},
		{nvml.Memory_v2{Total: 100, Reserved: 40, Free: 60}, ""},
		{nvml.Memory_v2{Total: 100, Reserved: 100}, ""},
		{nvml.Memory_v2{Total: math.MaxUint64, Reserved: 1, Free: 2}, ""}, // it is not available
		{nvml.Memory_v2{Total: math.MaxUint64, Reserved: 1, Free: math.MaxUint64 - 80<<30}, "IMPLAUSIBLE_FREE"},
		{nvml.Memory_v2{Total: math.MaxUint64, Reserved: math.MaxUint64 - 80<<30, Free: 2}, "IMPLAUSIBLE_RESERVED"},
		{nvml.Memory_v2{Total: 0}, "IMPLAUSIBLE_TOTAL_ZERO"},
		{nvml.Memory_v2{Total: 0, Free: 5}, "IMPLAUSIBLE_TOTAL_ZERO"},
		{nvml.Memory_v2{Total: maxMemory + 1, Free: 5}, "IMPLAUSIBLE_TOTAL"},
		{nvml.Memory_v2{Total: 100, Free: 101}, "IMPLAUSIBLE_FREE"},
		{nvml.Memory_v2{Total: 100, Reserved: 50, Free: 60}, "IMPLAUSIBLE_RESERVED"},
		{nvml.Memory_v2{Total: 100, Reserved: 101, Free: math.MaxUint64}, "IMPLAUSIBLE_RESERVED"},
	} {
		if got := implausible(memoryOf(c.v2)); got != c.want {
			t.Errorf("%+v: %q, want %q", c.v2, got, c.want)
		}
	}
	if got := implausible(memoryOfV1(nvml.Memory{Total: 100, Free: 101})); got != "IMPLAUSIBLE_FREE" {
		t.Errorf("version 1: %q", got)
	}
}
