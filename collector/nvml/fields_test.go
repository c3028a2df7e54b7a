// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"math"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

func TestFieldCount(t *testing.T) {
	const ones = math.MaxUint64
	for _, c := range []struct {
		name string
		kind nvml.ValueType
		bits uint64
		want gpu.Opt[uint64]
	}{
		{"uint", nvml.VALUE_TYPE_UNSIGNED_INT, 5, gpu.Some[uint64](5)},
		{"uint beside garbage", nvml.VALUE_TYPE_UNSIGNED_INT, 0xDEADBEEF_00000005, gpu.Some[uint64](5)},
		{"uint all ones", nvml.VALUE_TYPE_UNSIGNED_INT, math.MaxUint32, gpu.Opt[uint64]{}},
		{"ushort", nvml.VALUE_TYPE_UNSIGNED_SHORT, 0xBEEF_0007, gpu.Some[uint64](7)},
		{"ushort all ones", nvml.VALUE_TYPE_UNSIGNED_SHORT, ones, gpu.Opt[uint64]{}},
		{"ulonglong", nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, 1 << 40, gpu.Some[uint64](1 << 40)},
		{"ulonglong like a uint's all ones", nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, math.MaxUint32, gpu.Some[uint64](math.MaxUint32)},
		{"ulonglong all ones", nvml.VALUE_TYPE_UNSIGNED_LONG_LONG, ones, gpu.Opt[uint64]{}},
		{"ulong", nvml.VALUE_TYPE_UNSIGNED_LONG, 9, gpu.Some[uint64](9)},
		{"int", nvml.VALUE_TYPE_SIGNED_INT, 3, gpu.Some[uint64](3)},
		{"int negative", nvml.VALUE_TYPE_SIGNED_INT, ones, gpu.Opt[uint64]{}},
		{"longlong negative", nvml.VALUE_TYPE_SIGNED_LONG_LONG, ones, gpu.Opt[uint64]{}},
		{"double", nvml.VALUE_TYPE_DOUBLE, math.Float64bits(3), gpu.Opt[uint64]{}},
		{"unknown type", 99, 3, gpu.Opt[uint64]{}},
	} {
		if got := (fieldValue{c.kind, c.bits, true}).count(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
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
		{nvml.VALUE_TYPE_UNSIGNED_INT, 4711, gpu.Opt[float64]{V: 4711}},
	} {
		if got := (fieldValue{c.kind, c.bits, true}).degrees(); got != c.want {
			t.Errorf("type %d, %#x: %v, want %v", c.kind, c.bits, got, c.want)
		}
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
	if got := kib(gpu.Some[uint64](3)); got != gpu.Some[uint64](3072) {
		t.Errorf("3 KiB: %v", got)
	}
	if got := kib(gpu.Some[uint64](1 << 60)); got.OK {
		t.Errorf("2^60 KiB: %v, want absent", got)
	}
}
