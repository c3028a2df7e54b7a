// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Frames turns samples into what the detector sees of them. It is the only
// feeder, so that a recording is judged exactly as its GPU was. The zero Frames
// is ready for use by one goroutine; what it returns is valid until its next use.
type Frames struct {
	frame detector.Frame[ProcessID]
	index []int
	// model is that of the GPU, and profile that of the instance.
	model, profile string
}

// Device returns the frame of the GPU as a whole, and for each member its
// position in s.Processes. On a GPU in MIG mode it has no members and no
// capacity: there the instances run out of memory, not the GPU.
func (f *Frames) Device(info Info, s *Sample) (frame *detector.Frame[ProcessID], index []int) {
	f.begin(s, s.Memory, info)
	if len(s.Instances) > 0 {
		f.frame.Capacity, f.frame.Complete = detector.Value{}, false
		return &f.frame, f.index
	}
	for i := range s.Processes {
		f.add(&s.Processes[i], i)
	}
	return &f.frame, f.index
}

// Instance returns the same for a GPU instance of a GPU in MIG mode.
func (f *Frames) Instance(info Info, s *Sample, in *Instance) (frame *detector.Frame[ProcessID], index []int) {
	f.begin(s, in.Memory, info)
	f.profile = in.Profile
	for i := range s.Processes {
		if p := &s.Processes[i]; p.Instance == Some(in.ID) {
			f.add(p, i)
		}
	}
	return &f.frame, f.index
}

// begin starts a frame without members. On coherent memory freed pages stay
// allocated: nothing can be said about what nobody owns, nor about a capacity. Of the host's
// memory it is known what can be had again, so that it has a capacity; but others use it, too.
func (f *Frames) begin(s *Sample, m Memory, info Info) {
	coherent := info.CoherentMemory
	f.index, f.model, f.profile = f.index[:0], info.Name, ""
	f.frame = detector.Frame[ProcessID]{
		T: s.T, Used: bytesValue(m.Used), Members: f.frame.Members[:0],
		Complete: s.ProcessesComplete && !coherent,
	}
	if !coherent || info.UnifiedMemory {
		f.frame.Capacity = bytesValue(m.Capacity())
	}
}

func (f *Frames) add(p *Process, index int) {
	a := p.Allocator.told()
	f.index = append(f.index, index)
	f.frame.Members = append(f.frame.Members, detector.Member[ProcessID]{
		Key: p.ID, Group: p.Owner.Group(), Program: p.Owner.program(), Runs: p.Owner.RunsOn(f.model, f.profile), Used: bytesValue(p.Used), Started: max(p.Started.V, 0),
		Allocated: bytesValue(a.Allocated), Reserved: bytesValue(a.Reserved), Split: bytesValue(a.InactiveSplit),
		SM: detector.Value(p.SM), CPU: secondsValue(p.CPU), State: p.procState(),
	})
	if !p.Used.OK {
		f.frame.Complete = false
	}
}

// program returns the name of what the process runs; "" if it is not known.
func (o *Owner) program() string {
	if o == nil {
		return ""
	}
	return o.Process
}

// told returns what the allocator tells; nothing without one.
func (a *Allocator) told() Allocator {
	if a == nil {
		return Allocator{}
	}
	return *a
}

// procState translates the kernel's letter.
func (p *Process) procState() detector.ProcState {
	switch {
	case p.State == 0:
		return detector.StateUnknown
	case p.State == 'Z':
		return detector.StateZombieProcess
	case p.State == 'X':
		return detector.StateGone
	case p.State == 'D':
		return detector.StateUnkillable
	case p.Orphaned:
		return detector.StateOrphaned
	}
	return detector.StateAlive
}

func bytesValue(o Opt[uint64]) detector.Value {
	return detector.Value{V: float64(o.V), OK: o.OK}
}

func secondsValue(o Opt[time.Duration]) detector.Value {
	return detector.Value{V: o.V.Seconds(), OK: o.OK}
}
