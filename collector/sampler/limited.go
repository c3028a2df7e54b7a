// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// mostLimited bounds the limits of a GPU that are judged: twice as many as a GPU can be shared by, because a pod may have one, too.
const mostLimited = 128

// aProcess begins the name of a process that has a limit of its own.
const aProcess = "process:"

// nothing is what a limit without a process holds.
var nothing = gpu.Some(uint64(0))

// limits returns the memories of limits. A limit has one while a process is within it, and until nothing of it is told any more.
func (l *loop) limits(sample *gpu.Sample) (list []MemoryState) {
	for i := range sample.Processes {
		for _, limit := range sample.Processes[i].Limits {
			l.bound(sample, &sample.Processes[i], limit.Of)
		}
	}
	for key, m := range l.memories {
		who := m.Who
		if key.IsLimit() && m.sum(sample) {
			list = append(list, m.MemoryState)
			m.Who = who // layOut compares it
		}
	}
	slices.SortFunc(list, func(a, b MemoryState) int { // a control group before those in it
		return cmp.Or(cmp.Compare(a.Instance.V, b.Instance.V), cmp.Compare(a.Of, b.Of))
	})
	return list
}

// bound gives a limit of a process a memory. That on a process alone takes the one of an ended process with the same labels, the last one,
// of which it is the next life.
func (l *loop) bound(sample *gpu.Sample, p *gpu.Process, of string) {
	key := MemoryKey{p.Instance, of}
	if l.memories[key] != nil {
		return
	}
	var last *memory
	for _, m := range l.memories {
		same := strings.HasPrefix(of, aProcess) && strings.HasPrefix(m.Of, aProcess) && m.Instance == p.Instance && m.Who == finding.Of(p.Owner)
		lives := func(p gpu.Process) bool { return m.Has(&p) || m.domain.Knows(p.ID) }
		if same && !slices.ContainsFunc(sample.Processes, lives) && (last == nil || cmp.Or(cmp.Compare(m.finding.Seen, last.finding.Seen), cmp.Compare(m.Of, last.Of)) > 0) {
			last = m
		}
	}
	switch {
	case last != nil:
		delete(l.memories, last.MemoryKey)
	case len(l.memories) > mostLimited:
		return
	default:
		last = l.newMemory(MemoryState{Profile: finding.LimitProfile})
	}
	last.MemoryKey = key
	l.memories[key] = last
}

// Has reports whether a process uses the memory.
func (k *MemoryKey) Has(p *gpu.Process) bool {
	return k.Instance == p.Instance && (!k.IsLimit() || slices.ContainsFunc(p.Limits, func(l gpu.Limit) bool { return l.Of == k.Of }))
}

// sum adds up the processes within a limit, and reports whether they are known: an incomplete list may lack them, and their limit may be
// missing for a moment. What is charged beyond their memory, such as to others in a group above, is not theirs to use. It is known for
// the moment at which it was read.
func (m *memory) sum(sample *gpu.Sample) (known bool) {
	var limits []gpu.Limit // each of the processes has the same
	used := nothing
	for i := range sample.Processes {
		p := &sample.Processes[i]
		if !m.Has(p) {
			continue
		}
		if limits == nil {
			m.Who = finding.Of(p.Owner)
		}
		limits = slices.DeleteFunc(slices.Clone(p.Limits), func(l gpu.Limit) bool { return l.Of != m.Of })
		m.Who, used = m.Who.Common(finding.Of(p.Owner)), gpu.Some(used.V+p.Used.V).If(used.OK && p.Used.OK)
	}
	if limits == nil {
		known = sample.ProcessesComplete && !slices.ContainsFunc(sample.Processes, func(p gpu.Process) bool { return m.domain.Knows(p.ID) })
		m.Memory.Used = nothing.If(known)
		return known
	}
	least := slices.MinFunc(limits, func(a, b gpu.Limit) int { return cmp.Compare(a.Bytes, b.Bytes) })
	if !slices.Contains(m.Limits, least) {
		m.Memory.Reserved = gpu.Some(least.Charged.V - min(used.V, least.Charged.V)).If(least.Charged.OK && used.OK)
	}
	m.Limits, m.Memory.Total, m.Memory.Used = limits, gpu.Some(least.Bytes), used
	return true
}

// over reports whether a limit can be forgotten: no process is within it, and none has died at it within the hour, whose next life would go
// on there; it takes a minute to know whether it ended well. Where that stays unknown, as on coherent memory or if nobody tells the limit
// any more, it takes an hour.
func (m *memory) over(t time.Duration) bool {
	left := m.Memory.Used == nothing && len(m.finding.Ends)+len(m.dead) == 0
	return m.IsLimit() && (left || !m.Memory.Used.OK && t-m.finding.Seen > time.Hour)
}

// addLimit gives a pod or job the limit on all that it holds. That is there with one process, too. said are the processes within it.
func (d *DeviceState) addLimit(x *MemoryState, said []finding.Part) {
	who := x.Who.AsWhole()
	if strings.HasPrefix(x.Of, aProcess) || !who.Whole || x.Memory.Used.V == 0 {
		return
	}
	at := slices.IndexFunc(d.Workloads, func(w WorkloadState) bool { return w.Instance == x.Instance && w.Who == who })
	if at < 0 {
		at = len(d.Workloads)
		d.Workloads = append(d.Workloads, WorkloadState{Instance: x.Instance, Who: who, Used: x.Memory.Used.V, Verdict: x.Judgement.Device})
	}
	w := &d.Workloads[at]
	w.Verdict = earlier(w.Verdict, x.Judgement.Device)
	for i := range said { // one alone has no verdict as a workload of the GPU
		w.Verdict = earlier(w.Verdict, *said[i].Verdict)
	}
	if w.Used == x.Memory.Used.V { // else it bounds a part
		w.Limits = append(w.Limits, x.Limits...)
	}
}

// earlier returns the verdict whose end comes first. A leak stays one while a limit that is new has no more than a forecast.
func earlier(a, b detector.Verdict) detector.Verdict {
	end, other := a.SecondsToOOM, b.SecondsToOOM
	if !b.Judged || !other.OK || end.OK && end.V <= other.V || a.Leak && !b.Leak {
		return a
	}
	return b
}

// firstEnd leaves each leak to the memory that it fills first. So there is one page: nothing is said of the GPU if the program meets its
// limit before. What is no growth is told of a limit.
func (d *DeviceState) firstEnd(last *DeviceState) {
	list := d.Findings
	slices.SortStableFunc(list, func(a, b FindingState) int {
		waitsA, leftA := a.turn(last)
		waitsB, leftB := b.turn(last)
		return cmp.Or(compareBool(waitsA, waitsB), cmp.Compare(leftA, leftB), -compareBool(a.IsLimit(), b.IsLimit()))
	})
	for i := range list {
		other := &list[i]
		for k := range list[:i] {
			first := &list[k]
			if first.MemoryKey == other.MemoryKey || first.Instance != other.Instance || !d.covers(first, other) && !d.covers(other, first) {
				continue
			}
			small, large := first, other
			if !small.IsLimit() {
				small, large = large, small
			}
			large.NearlyFull, large.CrashLoop = large.NearlyFull && !small.NearlyFull, large.CrashLoop && !small.CrashLoop
			if first.Grows() && other.Grows() {
				// If it is a leak there, so it is here.
				first.Leaking, first.LeakDue = cmp.Or(first.Leaking, other.Leaking), first.LeakDue || other.LeakDue
				other.EndGrowth()
			}
		}
	}
	d.Findings = slices.DeleteFunc(list, func(f FindingState) bool { return f.Finding == finding.Finding{Who: f.Who} })
}

// covers reports whether a finding is about the culprit of another one: it names the same, or its whole pod or job, or its limit is on it.
func (d *DeviceState) covers(f, other *FindingState) bool {
	return f.Who == other.Who || f.Who == other.AsWhole() || f.IsLimit() && slices.ContainsFunc(d.Processes, func(p ProcessState) bool {
		return f.Has(&p.Process) && finding.Of(p.Owner) == other.Who
	})
}

// turn returns by what growth is told of one of two memories: whether its first alert still waits, and the time left in seconds. That
// is shorter for what was told last, because an alert with other labels is another alert.
func (f *FindingState) turn(last *DeviceState) (waits bool, left float64) {
	left = *cmp.Or(f.OOM.Finite(), new(math.Inf(1)))
	if last != nil && slices.ContainsFunc(last.Findings, func(g FindingState) bool { return g.Grows() && g.MemoryKey == f.MemoryKey && g.Who == f.Who }) {
		return false, left / incumbent
	}
	return !f.OOMDue, left
}
