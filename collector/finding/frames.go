// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"cmp"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Frames turns samples into what the detector sees of them. It is the only
// feeder, so that a recording is judged exactly as its GPU was. The zero Frames
// is ready for use by one goroutine; what it returns is valid until its next use.
type Frames struct {
	frame detector.Frame[gpu.ProcessID]
	index []int
	// model is that of the GPU, and profile that of the instance.
	model, profile string
}

// Device returns the frame of the GPU as a whole, and for each member its
// position in s.Processes. On a GPU in MIG mode it has no members and no
// capacity: there the instances run out of memory, not the GPU.
func (f *Frames) Device(info gpu.Info, s *gpu.Sample) (frame *detector.Frame[gpu.ProcessID], index []int) {
	frame, index = f.Part(info, s, s.Memory, "", func(*gpu.Process) bool { return len(s.Instances) == 0 })
	if len(s.Instances) > 0 {
		frame.Capacity, frame.Complete = detector.Value{}, false
	}
	return frame, index
}

// Part returns the same for a memory of its own and the processes that it has: a GPU instance of that profile in MIG mode, or with
// LimitProfile a limit. On coherent memory freed pages stay allocated: nothing can be said about what nobody owns, nor about a
// capacity. A limit holds there, too, and no list that cannot be read lacks a process that lives. Of the host's memory it is known
// what can be had again, so that it has a capacity; but others use it, too.
func (f *Frames) Part(info gpu.Info, s *gpu.Sample, m gpu.Memory, profile string, has func(*gpu.Process) bool) (frame *detector.Frame[gpu.ProcessID], index []int) {
	limit := profile == LimitProfile
	f.index, f.model, f.profile = f.index[:0], info.Name, profile
	f.frame = detector.Frame[gpu.ProcessID]{
		T: s.T, Used: bytesValue(m.Used), Members: f.frame.Members[:0],
		Complete: limit || s.ProcessesComplete && !info.CoherentMemory,
	}
	if limit || !info.CoherentMemory || info.UnifiedMemory {
		f.frame.Capacity = bytesValue(m.Capacity())
	}
	for i := range s.Processes {
		if p := &s.Processes[i]; has(p) {
			f.add(p, i)
		}
	}
	return &f.frame, f.index
}

func (f *Frames) add(p *gpu.Process, index int) {
	a := cmp.Or(p.Allocator, &gpu.Allocator{})
	f.index = append(f.index, index)
	f.frame.Members = append(f.frame.Members, detector.Member[gpu.ProcessID]{
		Key: p.ID, Group: p.Owner.Group(), Program: Of(p.Owner).Process, Runs: RunsOn(p.Owner, f.model, f.profile), Used: bytesValue(p.Used), Started: max(p.Started.V, 0),
		Allocated: bytesValue(a.Allocated), Reserved: bytesValue(a.Reserved), Split: bytesValue(a.InactiveSplit),
		SM: detector.Value(p.SM), CPU: secondsValue(p.CPU), State: procState(p),
	})
	if !p.Used.OK {
		f.frame.Complete = false
	}
}

// LimitProfile stands for the profile of an instance where processes have a limit.
const LimitProfile = "limit"

// RunsOn returns what the process runs on a GPU of that model, or an instance of that profile. A smaller memory makes another
// program of it: it fills what there is.
func RunsOn(o *gpu.Owner, model, profile string) detector.Program {
	if o == nil {
		return 0
	}
	return detector.Program(o.Runs).On(model).On(profile)
}

// procState translates the kernel's letter.
func procState(p *gpu.Process) detector.ProcState {
	switch {
	case p.State == "":
		return detector.StateUnknown
	case p.State == "Z":
		return detector.StateZombieProcess
	case p.State == "X":
		return detector.StateGone
	case p.State == "D":
		return detector.StateUnkillable
	case p.Orphaned:
		return detector.StateOrphaned
	}
	return detector.StateAlive
}

func bytesValue(o gpu.Opt[uint64]) detector.Value {
	return detector.Value{V: float64(o.V), OK: o.OK}
}

func secondsValue(o gpu.Opt[time.Duration]) detector.Value {
	return detector.Value{V: o.V.Seconds(), OK: o.OK}
}
