// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// mostLimited bounds how many limits of a GPU are judged: as many as a GPU can be shared by. As many again are remembered, because a
// program may start again.
const mostLimited = 64

// limits returns the limits of a sample, and those that are vacant: their processes have ended, and the next program in them may die, too.
func (l *loop) limits(sample *gpu.Sample) []MemoryState {
	list := limitsOf(sample)
	if len(list) == 0 && len(l.memories) == 1+l.instances.V {
		return nil // as almost always
	}
	vacant := map[MemoryKey]*memory{}
	full := len(l.memories) > 2*mostLimited
	for key, m := range l.memories {
		switch {
		case !key.IsLimit() || slices.ContainsFunc(list, func(x MemoryState) bool { return x.MemoryKey == key }):
		case full && m.finding.Loop.Since == 0:
			delete(l.memories, key)
		default:
			vacant[key] = m
		}
	}
	for i := range list {
		x := &list[i]
		m := l.memories[x.MemoryKey]
		if m == nil {
			m = l.inherited(x, vacant)
			l.memories[x.MemoryKey] = m
		}
		if len(m.Limits) > 0 && x.Limits[0] == m.Limits[0] {
			x.Memory.Reserved = m.Memory.Reserved // what is charged was read at an earlier sample
		}
		renamed := x.Who != m.Who
		if m.MemoryState = *x; renamed {
			m.domain.Reconfigure()
		}
	}
	if !sample.ProcessesComplete {
		return list
	}
	for _, m := range slices.SortedFunc(maps.Values(vacant), func(a, b *memory) int { return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.ID.PID, b.ID.PID)) }) {
		if m.shown() {
			m.Memory = gpu.Memory{Total: m.Memory.Total, Used: nothing}
			list = append(list, m.MemoryState)
		}
	}
	return list
}

// inherited returns what is known of the memory that has a limit from now on: of a process, that of an ended one with the same labels
// and limit. Its next life goes on there.
func (l *loop) inherited(x *MemoryState, vacant map[MemoryKey]*memory) *memory {
	var last *memory
	for key, m := range vacant {
		same := x.Of == "" && key.Of == "" && key.Instance == x.Instance && m.Who == x.Who && m.Memory.Total == x.Memory.Total
		if same && (last == nil || key.ID.PID > last.ID.PID) {
			last = m
		}
	}
	if last == nil {
		return l.newMemory(*x)
	}
	delete(l.memories, last.MemoryKey)
	delete(vacant, last.MemoryKey)
	return last
}

// limitsOf returns what limits of a sample bound, in the order of the processes.
func limitsOf(sample *gpu.Sample) (list []MemoryState) {
	for i := range sample.Processes {
		p := &sample.Processes[i]
		for _, limit := range p.Limits {
			key, who := keyIn(p, &limit), finding.Of(p.Owner)
			at := slices.IndexFunc(list, func(x MemoryState) bool { return x.MemoryKey == key })
			switch {
			case at >= 0:
				x := &list[at]
				x.Limits, x.Who = append(x.Limits, limit), x.Who.Common(who)
			case len(list) < mostLimited:
				list = append(list, MemoryState{MemoryKey: key, Profile: finding.LimitProfile, Who: who, Limits: []gpu.Limit{limit}})
			}
		}
	}
	for i := range list {
		list[i].sum(sample)
	}
	return list
}

// keyIn names what a limit of a process bounds.
func keyIn(p *gpu.Process, limit *gpu.Limit) MemoryKey {
	key := MemoryKey{Instance: p.Instance, Of: limit.Of}
	if limit.Of == "" {
		key.ID = p.ID
	}
	return key
}

// Has reports whether a process uses the memory.
func (k *MemoryKey) Has(p *gpu.Process) bool {
	return k.Instance == p.Instance && (!k.IsLimit() || slices.ContainsFunc(p.Limits, func(l gpu.Limit) bool { return keyIn(p, &l) == *k }))
}

// sum adds up the memory of the processes. What is charged beyond that, such as to others in a group above, is not theirs to use.
func (x *MemoryState) sum(sample *gpu.Sample) {
	slices.SortStableFunc(x.Limits, func(a, b gpu.Limit) int {
		return cmp.Or(cmp.Compare(a.Bytes, b.Bytes), cmp.Compare(a.Source, b.Source))
	})
	x.Limits = slices.CompactFunc(x.Limits, func(a, b gpu.Limit) bool { return a.Source == b.Source && a.Bytes == b.Bytes })
	used := nothing
	for i := range sample.Processes {
		if p := &sample.Processes[i]; x.Has(p) {
			used = gpu.Some(used.V + p.Used.V).If(used.OK && p.Used.OK)
		}
	}
	limit := &x.Limits[0]
	x.Memory = gpu.Memory{Total: gpu.Some(limit.Bytes), Used: used}
	if limit.Charged.OK && used.OK {
		x.Memory.Reserved = gpu.Some(min(limit.Bytes, limit.Charged.V-min(used.V, limit.Charged.V)))
	}
}

// nothing is what a vacant limit holds.
var nothing = gpu.Some(uint64(0))

// shown reports whether a limit is in the state: something is used, its last process has just ended, or processes in it ended again and
// again. One of the state file waits for its next process.
func (m *memory) shown() bool {
	return len(m.Limits) > 0 && (m.Memory.Used != nothing || m.domain.Lost() || len(m.died)+len(m.finding.Ends) > 0)
}

// addLimits gives a pod or job the limits on all that it holds. That is there with one process, too.
func (d *DeviceState) addLimits() {
	for i := range d.Limited {
		x := &d.Limited[i]
		who := x.Who.AsWhole()
		if x.Of == "" || !who.Whole || x.Memory.Used.V == 0 {
			continue
		}
		at := slices.IndexFunc(d.Workloads, func(w WorkloadState) bool { return w.Instance == x.Instance && w.Who == who })
		if at < 0 {
			at = len(d.Workloads)
			d.Workloads = append(d.Workloads, WorkloadState{Instance: x.Instance, Who: who, Used: x.Memory.Used.V, Verdict: x.Judgement.Device})
		}
		w := &d.Workloads[at]
		w.Verdict = earlier(w.Verdict, x.Judgement.Device)
		if w.Used == x.Memory.Used.V { // else it bounds a part
			w.Limits = append(w.Limits, x.Limits...)
		}
	}
}

// earlier returns the verdict whose end comes first. A leak stays one while a limit that is new has no more than a forecast.
func earlier(a, b detector.Verdict) detector.Verdict {
	if a.Leak && !b.Leak {
		return a
	}
	if b.Judged && b.SecondsToOOM.OK && !(a.SecondsToOOM.OK && a.SecondsToOOM.V < b.SecondsToOOM.V) {
		return b
	}
	return a
}

// firstEnd leaves each leak to the memory that it fills first. So there is one page: nothing is said of the GPU if the program meets its
// limit before.
func firstEnd(state, last *DeviceState) {
	list := state.Findings
	for i := range list {
		for k := range list {
			first, other := &list[i], &list[k]
			if !first.IsLimit() || i == k || other.IsLimit() && i < k || first.Instance != other.Instance || !state.bound(first, &other.Who) {
				continue
			}
			// What is not growth is told of the smaller memory.
			other.NearlyFull, other.CrashLoop = other.NearlyFull && !first.NearlyFull, other.CrashLoop && !first.CrashLoop
			if !first.Grows() || !other.Grows() {
				continue
			}
			if other.left(first, last) < first.left(other, last) {
				first, other = other, first
			}
			// If it is a leak there, so it is here.
			first.Leaking, first.LeakDue = cmp.Or(first.Leaking, other.Leaking), first.LeakDue || other.LeakDue
			other.EndGrowth()
		}
	}
	state.Findings = slices.DeleteFunc(list, func(f FindingState) bool { return f.Empty() })
}

// bound reports whether the limit of a finding bounds a culprit.
func (d *DeviceState) bound(limit *FindingState, who *finding.Who) bool {
	return limit.Who == *who || slices.ContainsFunc(d.Processes, func(p ProcessState) bool {
		of := finding.Of(p.Owner)
		return limit.Has(&p.Process) && (of == *who || who.Whole && of.With(who))
	})
}

// left returns the time left in seconds, by which growth is told of one of two memories. It is shorter for what was told last: an
// alert with other labels is another alert. It is 0 if that alert is due, and the other one still waits.
func (f *FindingState) left(other *FindingState, last *DeviceState) float64 {
	told := last != nil && slices.ContainsFunc(last.Findings, func(g FindingState) bool {
		return g.Grows() && g.MemoryKey == f.MemoryKey && g.Who == f.Who
	})
	s := f.OOM.Finite()
	switch {
	case told && f.OOMDue && !other.OOMDue:
		return 0
	case s == nil:
		return math.Inf(1)
	case told:
		return *s / incumbent
	}
	return *s
}
