// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// frameSample is a GPU with a process on each of two GPU instances and one that
// stands on none. What the allocator in a process holds, two of them tell.
func frameSample() *gpu.Sample {
	bytes := func(v uint64) gpu.Opt[uint64] { return gpu.Some(v << 20) }
	return &gpu.Sample{
		T:              7 * time.Second,
		Memory:         gpu.Memory{Total: bytes(1000), Reserved: bytes(100), Used: bytes(600), Free: bytes(300)},
		ProcessesKnown: true, ProcessesComplete: true,
		Processes: []gpu.Process{
			{ID: gpu.ProcessID{PID: 1, Start: 10}, Used: bytes(100), SM: gpu.Some(0.5), CPU: gpu.Some(2 * time.Second), State: "D", Owner: &gpu.Owner{Process: "train.py", Namespace: "ml", Pod: "a"}, Allocator: &gpu.Allocator{Allocated: bytes(70), Reserved: bytes(80), InactiveSplit: bytes(5)}},
			{ID: gpu.ProcessID{PID: 2, Start: 20}, Used: bytes(200), Instance: gpu.Some(uint32(1)), State: "Z", Started: gpu.Some(3 * time.Second), Owner: &gpu.Owner{SlurmJob: "9"}},
			{ID: gpu.ProcessID{PID: 3, Start: 30}, Used: bytes(250), Instance: gpu.Some(uint32(2)), State: "S", Orphaned: true, Owner: &gpu.Owner{Process: "serve"}, Allocator: &gpu.Allocator{Allocated: bytes(60)}},
			{ID: gpu.ProcessID{PID: 5, Start: 50}, Used: bytes(50), State: "X"},
		},
	}
}

// TestFrameOfAGPU has all that the detector sees, and nothing of what is not told.
func TestFrameOfAGPU(t *testing.T) {
	var f Frames
	frame, index := f.Device(gpu.Info{}, frameSample())
	if frame.T != 7*time.Second || frame.Used != detector.Of(600<<20) || frame.Capacity != detector.Of(900<<20) || !frame.Complete {
		t.Errorf("frame %+v", frame)
	}
	want := []detector.Member[gpu.ProcessID]{
		{Key: gpu.ProcessID{PID: 1, Start: 10}, Group: "ml/a", Program: "train.py", Used: detector.Of(100 << 20), SM: detector.Of(0.5), CPU: detector.Of(2), State: detector.StateUnkillable, Allocated: detector.Of(70 << 20), Reserved: detector.Of(80 << 20), Split: detector.Of(5 << 20)},
		{Key: gpu.ProcessID{PID: 2, Start: 20}, Group: "slurm/9", Used: detector.Of(200 << 20), Started: 3 * time.Second, State: detector.StateZombieProcess},
		{Key: gpu.ProcessID{PID: 3, Start: 30}, Program: "serve", Used: detector.Of(250 << 20), State: detector.StateOrphaned, Allocated: detector.Of(60 << 20)},
		{Key: gpu.ProcessID{PID: 5, Start: 50}, Used: detector.Of(50 << 20), State: detector.StateGone},
	}
	testkit.Equal(t, frame.Members, want, "members")
	testkit.Equal(t, index, []int{0, 1, 2, 3}, "index")
}

func TestFrameSaysWhatIsNotKnown(t *testing.T) {
	for name, c := range map[string]struct {
		info               gpu.Info
		change             func(*gpu.Sample)
		complete, capacity bool
	}{
		"all is known":              {gpu.Info{}, func(*gpu.Sample) {}, true, true},
		"coherent memory":           {gpu.Info{CoherentMemory: true}, func(*gpu.Sample) {}, false, false},
		"the host's memory":         {gpu.Info{CoherentMemory: true, UnifiedMemory: true}, func(*gpu.Sample) {}, false, true},
		"list not complete":         {gpu.Info{}, func(s *gpu.Sample) { s.ProcessesComplete = false }, false, true},
		"memory of one not known":   {gpu.Info{}, func(s *gpu.Sample) { s.Processes[1].Used = gpu.Opt[uint64]{} }, false, true},
		"total not known":           {gpu.Info{}, func(s *gpu.Sample) { s.Memory.Total = gpu.Opt[uint64]{} }, true, false},
		"reserved beyond the total": {gpu.Info{}, func(s *gpu.Sample) { s.Memory.Reserved = gpu.Some(uint64(1 << 60)) }, true, false},
	} {
		var f Frames
		s := frameSample()
		c.change(s)
		if frame, _ := f.Device(c.info, s); frame.Complete != c.complete || frame.Capacity.OK != c.capacity {
			t.Errorf("%s: complete %t, capacity %v", name, frame.Complete, frame.Capacity)
		}
	}
}

// TestFramesOfParts has the frames of GPU instances, and of a limit, which holds on coherent memory, too.
func TestFramesOfParts(t *testing.T) {
	s := frameSample()
	s.Instances = []gpu.Instance{{ID: 1, Memory: gpu.Memory{Total: gpu.Some(uint64(50)), Used: gpu.Some(uint64(40))}}, {ID: 2}}
	var f Frames
	if frame, _ := f.Device(gpu.Info{}, s); len(frame.Members) != 0 || frame.Capacity.OK || frame.Complete || !frame.Used.OK {
		t.Errorf("the GPU as a whole: %+v", frame)
	}
	on := func(id uint32) func(*gpu.Process) bool {
		return func(p *gpu.Process) bool { return p.Instance == gpu.Some(id) }
	}
	frame, index := f.Part(gpu.Info{}, s, s.Instances[0].Memory, "", on(1))
	if len(frame.Members) != 1 || index[0] != 1 || frame.Members[0].Key.PID != 2 || frame.Capacity != detector.Of(50) || frame.Used != detector.Of(40) {
		t.Errorf("instance 1: %+v at %v", frame, index)
	}
	if frame, index = f.Part(gpu.Info{}, s, s.Instances[1].Memory, "", on(2)); len(frame.Members) != 1 || index[0] != 2 || frame.Used.OK {
		t.Errorf("instance 2: %+v at %v", frame, index)
	}
	for profile, is := range map[string]bool{"1g": false, LimitProfile: true} {
		if frame, _ = f.Part(gpu.Info{CoherentMemory: true}, s, s.Instances[0].Memory, profile, on(1)); frame.Complete != is || frame.Capacity.OK != is {
			t.Errorf("coherent, %s: %+v", profile, frame)
		}
	}
}

// Each part, the secret, the model and the profile make another program; the same make the same.
func TestPrograms(t *testing.T) {
	seen := map[detector.Program]int{}
	for i, c := range []struct {
		secret         string
		program        gpu.Program
		model, profile string
	}{
		{"", gpu.Program{Name: "a"}, "", ""},
		{"s", gpu.Program{Name: "a"}, "", ""},
		{"", gpu.Program{Name: "b"}, "", ""},
		{"", gpu.Program{Name: "a", Image: "b"}, "", ""},
		{"", gpu.Program{Name: "a", Arguments: "b"}, "", ""},
		{"", gpu.Program{Name: "ab"}, "", ""},
		{"", gpu.Program{Name: "a"}, "T4", ""},
		{"", gpu.Program{Name: "a"}, "A100", ""},
		{"", gpu.Program{Name: "a"}, "A100", "1g.10gb"},
		{"", gpu.Program{Name: "a"}, "A100", "2g.20gb"},
	} {
		o := &gpu.Owner{Runs: c.program.Hash([]byte(c.secret))}
		runs := RunsOn(o, c.model, c.profile)
		if other, taken := seen[runs]; taken || runs == 0 {
			t.Errorf("program %d is %d, as program %d", i, runs, other)
		}
		seen[runs] = i
		testkit.Equal(t, c.program.Hash([]byte(c.secret)), o.Runs, "program %d has another name each time", i)
	}
	testkit.Equal(t, (&gpu.Program{Image: "b"}).Hash(nil), 0, "of no name")
	testkit.Equal(t, RunsOn(nil, "T4", ""), 0, "of nobody")
}
