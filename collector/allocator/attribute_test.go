// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

func TestAttribute(t *testing.T) {
	cupy := Record{UUID: "a", Allocator: gpu.Allocator{Framework: "cupy", Version: "13", Allocated: gpu.Some(uint64(10)), Reserved: gpu.Some(uint64(20))}}
	only := Record{UUID: "a", Allocator: gpu.Allocator{Framework: "tensorflow", Allocated: gpu.Some(uint64(7))}}
	alone := func(r Record) *gpu.Allocator { return &r.Allocator }
	instance := gpu.Some(uint32(3))
	for name, c := range map[string]struct {
		instance gpu.Opt[uint32]
		known    *gpu.Allocator
		records  []Record
		want     *gpu.Allocator
	}{
		"no probe":                         {},
		"this GPU":                         {records: []Record{torch("b", 3, 4), torch("a", 1, 2)}, want: alone(torch("a", 1, 2))},
		"another GPU":                      {records: []Record{torch("b", 3, 4)}},
		"the only GPU":                     {records: []Record{torch("", 1, 2)}, want: alone(torch("", 1, 2))},
		"two GPUs, which is not told":      {records: []Record{torch("", 1, 2), torch("", 3, 4)}},
		"a MIG device":                     {instance: instance, records: []Record{torch("a", 1, 2), torch("m2", 3, 4)}, want: alone(torch("m2", 3, 4))},
		"a MIG device of another instance": {instance: instance, records: []Record{torch("m1", 1, 2)}},
		"two frameworks": {records: []Record{cupy, torch("a", 1, 2)}, want: &gpu.Allocator{
			Framework: "cupy+torch", Version: "13+2.9.0+cu130", Backend: "native", Allocated: gpu.Some(uint64(11)), Reserved: gpu.Some(uint64(22)),
		}},
		"one that tells less":    {records: []Record{cupy, only}, want: &gpu.Allocator{Framework: "cupy+tensorflow", Version: "13", Allocated: gpu.Some(uint64(17))}},
		"more than the GPU has":  {records: []Record{torch("a", 1, 101)}},
		"what a recording tells": {known: alone(torch("x", 8, 9)), records: []Record{torch("a", 1, 2)}, want: alone(torch("x", 8, 9))},
	} {
		s := &gpu.Sample{
			Memory:    gpu.Memory{Total: gpu.Some(uint64(100))},
			Instances: []gpu.Instance{{ID: 1, Devices: []gpu.MIGDevice{{UUID: "MIG-m1"}}}, {ID: 3, Devices: []gpu.MIGDevice{{UUID: "MIG-m0"}, {UUID: "MIG-M2"}}}},
			Processes: []gpu.Process{{ID: gpu.ProcessID{PID: 5, Start: 6}, Instance: c.instance, Allocator: c.known}},
		}
		Attribute(func(id gpu.ProcessID) []Record {
			equal(t, id.PID, 5, "asked for %v", id)
			return c.records
		}, "GPU-A", s)
		equal(t, s.Processes[0].Allocator, c.want, "%s", name)
	}
}

// TestLimitOfFramework makes the limit of an allocator one of its process, which may hold more beside it.
func TestLimitOfFramework(t *testing.T) {
	no, dmem := gpu.Opt[uint64]{}, gpu.Limit{Source: gpu.LimitDmem, Bytes: 90}
	for name, c := range map[string]struct {
		limit, reserved, used, total gpu.Opt[uint64]
		want                         uint64
	}{
		"with a context of 5":        {gpu.Some[uint64](40), gpu.Some[uint64](20), gpu.Some[uint64](25), gpu.Some[uint64](100), 45},
		"a library takes 30":         {gpu.Some[uint64](40), gpu.Some[uint64](20), gpu.Some[uint64](55), gpu.Some[uint64](100), 75},
		"it has just freed":          {gpu.Some[uint64](40), gpu.Some[uint64](20), gpu.Some[uint64](8), gpu.Some[uint64](100), 40},
		"none":                       {no, gpu.Some[uint64](20), gpu.Some[uint64](25), gpu.Some[uint64](100), 0},
		"none, by a wrong page":      {gpu.Some[uint64](0), gpu.Some[uint64](20), gpu.Some[uint64](25), gpu.Some[uint64](100), 0},
		"the GPU ends before":        {gpu.Some[uint64](40), gpu.Some[uint64](20), gpu.Some[uint64](81), gpu.Some[uint64](100), 0},
		"more than there can be":     {gpu.Some[uint64](1<<64 - 1), gpu.Some[uint64](20), gpu.Some[uint64](25), gpu.Some[uint64](100), 0},
		"its reserve is not told":    {gpu.Some[uint64](40), no, gpu.Some[uint64](25), gpu.Some[uint64](100), 0},
		"its memory is not known":    {gpu.Some[uint64](40), gpu.Some[uint64](20), no, gpu.Some[uint64](100), 0},
		"that of the GPU is unknown": {gpu.Some[uint64](40), gpu.Some[uint64](20), gpu.Some[uint64](25), no, 0},
	} {
		a := gpu.Allocator{Framework: "torch", Limit: c.limit, Reserved: c.reserved}
		others := []gpu.Limit{dmem, {}}[:1] // they are shared, with room behind
		s := &gpu.Sample{Memory: gpu.Memory{Total: c.total}, Processes: []gpu.Process{{Used: c.used, Limits: others}}}
		Attribute(func(gpu.ProcessID) []Record { return []Record{{Allocator: a}} }, "GPU-A", s)
		want := []gpu.Limit{dmem}
		if c.want > 0 {
			want = append(want, gpu.Limit{Source: gpu.LimitFramework, Bytes: c.want})
		}
		equal(t, s.Processes[0].Limits, want, "%s", name)
		equal(t, others[:2][1], gpu.Limit{}, "%s: what is shared", name)
	}
}
