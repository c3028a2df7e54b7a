// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"math"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

func TestAllOnesIsNoNumber(t *testing.T) {
	for _, v := range []uint64{math.MaxUint64, math.MaxUint64 - 1, 17592186044415, 17592186044415 << 20} {
		if got := size(v); got.OK {
			t.Errorf("size(%d) = %v, want absent", v, got.V)
		}
	}
	for _, v := range []uint64{0, 1, 80 << 30, 1 << 48, 17592186044416} {
		testkit.Equal(t, size(v), gpu.Some(v), "size(%d)", v)
	}
	if got := number32(gpu.Some[uint32](math.MaxUint32), 1, 1000); got.OK {
		t.Errorf("number32 of all ones: %v, want absent", got.V)
	}
	testkit.Equal(t, number32(gpu.Some[uint32](310_001), 1, 1000), gpu.Some(310.001), "310001 mW")
	testkit.Equal(t, number32(gpu.Some[uint32](1755), 1e6, 1), gpu.Some(1.755e9), "1755 MHz")
}

func TestPercent(t *testing.T) {
	for v, want := range map[uint32]gpu.Opt[float64]{
		0: gpu.Some(0.0), 7: gpu.Some(0.07), 100: gpu.Some(1.0), 101: {}, math.MaxUint32: {},
	} {
		testkit.Equal(t, percent(gpu.Some(v)), want, "percent(%d)", v)
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
		{"free not available", nvml.Memory_v2{Total: 100, Reserved: 10, Free: na}, gpu.Memory{Total: some(100), Used: none, Free: none, Reserved: some(10)}},
		{"nothing available", nvml.Memory_v2{Total: na, Reserved: na, Free: na, Used: na}, gpu.Memory{}},
	} {
		testkit.Equal(t, memoryOf(c.v2), c.want, "%s", c.name)
	}
	want := gpu.Memory{Total: some(100), Used: some(40), Free: some(60)}
	testkit.Equal(t, memoryOfV1(nvml.Memory{Total: 100, Free: 60, Used: 40}), want, "version 1")
}

// Parts that contradict each other make the whole unusable, and the error says which.
func TestMemoryIsPlausible(t *testing.T) {
	for _, c := range []struct {
		v2   nvml.Memory_v2
		want string
	}{
		{nvml.Memory_v2{Total: 100, Reserved: 100}, ""},
		{nvml.Memory_v2{Total: math.MaxUint64, Reserved: 1, Free: 2}, ""}, // it is not available
		{nvml.Memory_v2{Total: math.MaxUint64, Reserved: 1, Free: math.MaxUint64 - 80<<30}, "IMPLAUSIBLE_FREE"},
		{nvml.Memory_v2{Total: math.MaxUint64, Reserved: math.MaxUint64 - 80<<30, Free: 2}, "IMPLAUSIBLE_RESERVED"},
		{nvml.Memory_v2{Total: 0}, "IMPLAUSIBLE_TOTAL_ZERO"},
		{nvml.Memory_v2{Total: maxMemory + 1, Free: 5}, "IMPLAUSIBLE_TOTAL"},
		{nvml.Memory_v2{Total: 100, Free: 101}, "IMPLAUSIBLE_FREE"},
		{nvml.Memory_v2{Total: 100, Reserved: 50, Free: 60}, "IMPLAUSIBLE_RESERVED"},
		{nvml.Memory_v2{Total: 100, Reserved: 101, Free: math.MaxUint64}, "IMPLAUSIBLE_RESERVED"},
	} {
		testkit.Equal(t, implausible(memoryOf(c.v2)), c.want, "%+v", c.v2)
	}
	testkit.Equal(t, implausible(memoryOfV1(nvml.Memory{Total: 100, Free: 101})), "IMPLAUSIBLE_FREE", "version 1")
}

func TestFieldCount(t *testing.T) {
	const ones = math.MaxUint64
	for _, c := range []struct {
		name string
		kind nvml.ValueType
		bits uint64
		want gpu.Opt[uint64]
	}{
		{"uint beside garbage", nvml.VALUE_TYPE_UNSIGNED_INT, 0xDEADBEEF_00000005, gpu.Some[uint64](5)},
		{"uint all ones", nvml.VALUE_TYPE_UNSIGNED_INT, math.MaxUint32, gpu.Opt[uint64]{}},
		{"ushort", nvml.VALUE_TYPE_UNSIGNED_SHORT, 0xBEEF_0007, gpu.Some[uint64](7)},
		{"ushort all ones", nvml.VALUE_TYPE_UNSIGNED_SHORT, ones, gpu.Opt[uint64]{}},
		{"ulonglong", nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, 1 << 40, gpu.Some[uint64](1 << 40)},
		{"ulonglong like a uint's all ones", nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, math.MaxUint32, gpu.Some[uint64](math.MaxUint32)},
		{"ulonglong all ones", nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, ones, gpu.Opt[uint64]{}},
		{"int negative", nvml.VALUE_TYPE_SIGNED_INT, ones, gpu.Opt[uint64]{}},
		{"longlong negative", nvml.VALUE_TYPE_SIGNED_LONG_LONG, ones, gpu.Opt[uint64]{}},
		{"double", nvml.VALUE_TYPE_DOUBLE, math.Float64bits(3), gpu.Opt[uint64]{}},
		{"unknown type", 99, 3, gpu.Opt[uint64]{}},
	} {
		testkit.Equal(t, (fieldValue{c.kind, c.bits, true}).count(), c.want, "%s", c.name)
		if got := (fieldValue{c.kind, c.bits, false}).count(); got.OK {
			t.Errorf("%s, failed: %v, want absent", c.name, got)
		}
	}
}

func TestFieldDegrees(t *testing.T) {
	minus7 := ^uint64(6)
	for _, c := range []struct {
		kind nvml.ValueType
		bits uint64
		want gpu.Opt[float64]
	}{
		{nvml.VALUE_TYPE_SIGNED_INT, minus7 & math.MaxUint32, gpu.Some(-7.0)},
		{nvml.VALUE_TYPE_UNSIGNED_INT, minus7 & math.MaxUint32, gpu.Some(-7.0)},
		{nvml.VALUE_TYPE_SIGNED_LONG_LONG, minus7, gpu.Some(-7.0)},
		{nvml.VALUE_TYPE_UNSIGNED_INT, 50, gpu.Some(50.0)},
		{nvml.VALUE_TYPE_DOUBLE, math.Float64bits(45.5), gpu.Some(45.5)},
		{nvml.VALUE_TYPE_UNSIGNED_INT, 4711, gpu.Opt[float64]{}},
	} {
		testkit.Equal(t, (fieldValue{c.kind, c.bits, true}).degrees(), c.want, "type %d, %#x", c.kind, c.bits)
	}
	if got := sensor((fieldValue{nvml.VALUE_TYPE_UNSIGNED_INT, math.MaxUint32, true}).degrees()); got.OK {
		t.Errorf("a sensor that is all ones: %v, want absent", got)
	}
}

func TestFieldWidth(t *testing.T) {
	u := func(n uint64) fieldValue { return fieldValue{nvml.VALUE_TYPE_UNSIGNED_INT, n, true} }
	if u(1).wide() || !(fieldValue{nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, 1, true}).wide() {
		t.Error("the width of a counter is taken for another")
	}
	testkit.Equal(t, kib(gpu.Some[uint64](3)), gpu.Some[uint64](3072), "3 KiB")
	if got := kib(gpu.Some[uint64](1 << 60)); got.OK {
		t.Errorf("2^60 KiB: %v, want absent", got)
	}
}
