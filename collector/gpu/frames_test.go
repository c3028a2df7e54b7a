// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// frameSample is a GPU with a process on each of two GPU instances and one that
// stands on none.
func frameSample() *Sample {
	bytes := func(v uint64) Opt[uint64] { return Some(v << 20) }
	return &Sample{
		T:              7 * time.Second,
		Memory:         Memory{Total: bytes(1000), Reserved: bytes(100), Used: bytes(600), Free: bytes(300)},
		ProcessesKnown: true, ProcessesComplete: true,
		Processes: []Process{
			{ID: ProcessID{PID: 1, Start: 10}, Used: bytes(100), SM: Some(0.5), CPU: Some(2 * time.Second), State: 'D', Owner: &Owner{Process: "train.py", Namespace: "ml", Pod: "a"}},
			{ID: ProcessID{PID: 2, Start: 20}, Used: bytes(200), Instance: Some(uint32(1)), State: 'Z', Started: Some(3 * time.Second), Owner: &Owner{SlurmJob: "9"}},
			{ID: ProcessID{PID: 3, Start: 30}, Used: bytes(250), Instance: Some(uint32(2)), State: 'S', Orphaned: true, Owner: &Owner{Process: "serve"}},
			{ID: ProcessID{PID: 5, Start: 50}, Used: bytes(50), State: 'X'},
		},
	}
}

func TestFrameOfAGPU(t *testing.T) {
	var f Frames
	frame, index := f.Device(Info{}, frameSample())
	if frame.T != 7*time.Second || frame.Used != detector.Of(600<<20) || frame.Capacity != detector.Of(900<<20) || !frame.Complete {
		t.Errorf("frame %+v", frame)
	}
	want := []detector.Member[ProcessID]{
		{Key: ProcessID{1, 10}, Group: "ml/a", Program: "train.py", Used: detector.Of(100 << 20), SM: detector.Of(0.5), CPU: detector.Of(2), State: detector.StateUnkillable},
		{Key: ProcessID{2, 20}, Group: "slurm/9", Used: detector.Of(200 << 20), Started: 3 * time.Second, State: detector.StateZombieProcess},
		{Key: ProcessID{3, 30}, Program: "serve", Used: detector.Of(250 << 20), State: detector.StateOrphaned},
		{Key: ProcessID{5, 50}, Used: detector.Of(50 << 20), State: detector.StateGone},
	}
	if len(frame.Members) != len(want) {
		t.Fatalf("%d members", len(frame.Members))
	}
	for i := range want {
		if frame.Members[i] != want[i] || index[i] != i {
			t.Errorf("member %d at %d: %+v, want %+v", i, index[i], frame.Members[i], want[i])
		}
	}
}

func TestFrameSaysWhatIsNotKnown(t *testing.T) {
	for name, c := range map[string]struct {
		info               Info
		change             func(*Sample)
		complete, capacity bool
	}{
		"all is known":              {Info{}, func(*Sample) {}, true, true},
		"coherent memory":           {Info{CoherentMemory: true}, func(*Sample) {}, false, false},
		"the host's memory":         {Info{CoherentMemory: true, UnifiedMemory: true}, func(*Sample) {}, false, true},
		"list not complete":         {Info{}, func(s *Sample) { s.ProcessesComplete = false }, false, true},
		"memory of one not known":   {Info{}, func(s *Sample) { s.Processes[1].Used = Opt[uint64]{} }, false, true},
		"total not known":           {Info{}, func(s *Sample) { s.Memory.Total = Opt[uint64]{} }, true, false},
		"reserved beyond the total": {Info{}, func(s *Sample) { s.Memory.Reserved = Some(uint64(1 << 60)) }, true, false},
	} {
		var f Frames
		s := frameSample()
		c.change(s)
		if frame, _ := f.Device(c.info, s); frame.Complete != c.complete || frame.Capacity.OK != c.capacity {
			t.Errorf("%s: complete %t, capacity %v", name, frame.Complete, frame.Capacity)
		}
	}
}

func TestFramesOfGPUInstances(t *testing.T) {
	s := frameSample()
	s.Instances = []Instance{{ID: 1, Memory: Memory{Total: Some(uint64(50)), Used: Some(uint64(40))}}, {ID: 2}}
	var f Frames
	if frame, _ := f.Device(Info{}, s); len(frame.Members) != 0 || frame.Capacity.OK || frame.Complete || !frame.Used.OK {
		t.Errorf("the GPU as a whole: %+v", frame)
	}
	frame, index := f.Instance(Info{}, s, &s.Instances[0])
	if len(frame.Members) != 1 || index[0] != 1 || frame.Members[0].Key.PID != 2 || frame.Capacity != detector.Of(50) || frame.Used != detector.Of(40) {
		t.Errorf("instance 1: %+v at %v", frame, index)
	}
	if frame, index = f.Instance(Info{}, s, &s.Instances[1]); len(frame.Members) != 1 || index[0] != 2 || frame.Used.OK {
		t.Errorf("instance 2: %+v at %v", frame, index)
	}
}

// TestFramesTellAllocators has the detector see what the allocator in a process holds, if it tells.
func TestFramesTellAllocators(t *testing.T) {
	s := Sample{T: time.Hour, Processes: []Process{
		{ID: ProcessID{PID: 1, Start: 1}, Used: Some(uint64(9)), Allocator: &Allocator{Allocated: Some(uint64(7)), Reserved: Some(uint64(8))}},
		{ID: ProcessID{PID: 2, Start: 1}, Used: Some(uint64(9)), Allocator: &Allocator{Allocated: Some(uint64(6))}},
		{ID: ProcessID{PID: 3, Start: 1}, Used: Some(uint64(9))},
	}}
	var frames Frames
	f, _ := frames.Device(Info{}, &s)
	for i, want := range [][2]detector.Value{{detector.Of(7), detector.Of(8)}, {detector.Of(6), {}}, {}} {
		if m := f.Members[i]; m.Allocated != want[0] || m.Reserved != want[1] {
			t.Errorf("process %d: %v of %v, want %v", m.Key.PID, m.Allocated, m.Reserved, want)
		}
	}
}
