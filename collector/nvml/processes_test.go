// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"math"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

func TestMerge(t *testing.T) {
	const no, na = noInstance, math.MaxUint64
	some, none := gpu.Some[uint64], gpu.Opt[uint64]{}
	type infos []processInfo
	for _, c := range []struct {
		name                   string
		mig, kept              bool // kept: the list of compute could not be read
		compute, graphics, mps infos
		want                   []listed
	}{
		{
			name:    "one process in three lists, the larger memory",
			compute: infos{{7, 20, no, no}, {3, 10, no, no}}, graphics: infos{{7, 30, no, no}}, mps: infos{{7, na, no, no}},
			want: []listed{{3, no, gpu.Compute, some(10), false}, {7, no, gpu.Compute | gpu.Graphics | gpu.MPS, some(30), false}},
		},
		{
			name:    "known after not known",
			compute: infos{{7, na, no, no}}, graphics: infos{{7, 0, no, no}},
			want: []listed{{7, no, gpu.Compute | gpu.Graphics, some(0), false}},
		},
		{
			name:    "more than the GPU has",
			compute: infos{{7, 1001, no, no}, {8, 1000, no, no}},
			want:    []listed{{7, no, gpu.Compute, none, false}, {8, no, gpu.Compute, some(1000), false}},
		},
		{
			name: "two GPU instances", mig: true,
			compute: infos{{7, 20, 3, 0}, {7, 30, 1, 0}, {2, 5, 3, 0}, {9, 1, no, no}}, graphics: infos{{7, 25, 3, 1}},
			want: []listed{
				{9, no, gpu.Compute, some(1), false},
				{7, 1, gpu.Compute, some(30), false},
				{2, 3, gpu.Compute, some(5), false},
				{7, 3, gpu.Compute | gpu.Graphics, some(25), false},
			},
		},
		{
			name:    "instances without MIG are none",
			compute: infos{{7, 20, 0, 0}}, graphics: infos{{7, 10, no, no}},
			want: []listed{{7, no, gpu.Compute | gpu.Graphics, some(20), false}},
		},
		{
			name: "a list that could not be read", kept: true,
			compute: infos{{7, 20, no, no}, {8, 20, no, no}}, graphics: infos{{8, 10, no, no}},
			want: []listed{{7, no, gpu.Compute, none, true}, {8, no, gpu.Compute | gpu.Graphics, some(10), false}},
		},
	} {
		m := merger{mig: c.mig, total: some(1000)}
		m.add(c.compute, gpu.Compute, c.kept)
		m.add(c.graphics, gpu.Graphics, false)
		m.add(c.mps, gpu.MPS, false)
		testkit.Equal(t, m.list(), c.want, "%s", c.name)
	}
}

func TestHighestUtilization(t *testing.T) {
	list := []nvml.ProcessUtilizationSample{
		{Pid: 1, TimeStamp: 100, SmUtil: 90},                         // seen before
		{Pid: 1, TimeStamp: 101, SmUtil: 20, MemUtil: 5},             //
		{Pid: 1, TimeStamp: 102, SmUtil: 10, MemUtil: 9, EncUtil: 3}, //
		{Pid: 2, TimeStamp: 102, SmUtil: 180},                        // cannot be
		{Pid: 3, TimeStamp: 102, SmUtil: 50, DecUtil: 101},           // cannot be
		{Pid: 3, TimeStamp: 103, SmUtil: 7},
		{Pid: 4, TimeStamp: 99, SmUtil: 7},
		{Pid: 5, TimeStamp: 103, SmUtil: 100, MemUtil: 100, EncUtil: 100, DecUtil: 100},
	}
	f := gpu.Some[float64]
	want := map[uint32]usage{
		1: {f(0.2), f(0.09), f(0.03), f(0)},
		2: {},
		3: {f(0.07), f(0), f(0), f(0)},
		5: {f(1), f(1), f(1), f(1)},
	}
	if got, newest := highest(list, 100, 1000); newest != 103 || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, newest %d\nwant %+v, 103", got, newest, want)
	}
	if _, got := highest(list, 200, 1000); got != 200 {
		t.Errorf("newest of old ones: %d, want 200", got)
	}
	if _, got := highest(append(list, nvml.ProcessUtilizationSample{TimeStamp: 5000}), 100, 1000); got != 103 {
		t.Errorf("newest beside one in the future: %d, want 103", got)
	}
}

func TestUtilizationOfListedProcesses(t *testing.T) {
	busy := usage{sm: gpu.Some(0.5), memory: gpu.Some(0.25), encoder: gpu.Some(0.0), decoder: gpu.Some(1.0)}
	idle := gpu.Some(0.0)
	got := ofListed([]listed{{pid: 1}, {pid: 2}, {pid: 3}}, map[uint32]usage{1: busy, 2: {}, 4: busy})
	want := map[uint32]usage{
		1: busy,
		2: {}, // its samples cannot be
		3: {idle, idle, idle, idle},
	}
	testkit.Equal(t, got, want, "utilization")
}

// A step of the clock makes the time stamps so far worthless, also while no process is listed.
func TestUtilizationAfterAStepOfTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, s, _, d := newOneGPU(t)
		defer s.Close()
		read := func(sample gpu.Sample) uint64 {
			must(t, d.read(func(r *reading) error { r.processes(&sample); return nil }))
			return d.processes.samples.since
		}
		d.processes.samples.since = 42
		testkit.Equal(t, read(gpu.Sample{}), 42, "asked from on, without a step")
		testkit.Equal(t, read(gpu.Sample{Step: -10 * time.Minute}), 0, "asked from on, after a step")
	})
}
