// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
)

// wall returns the wall clock at a time on the source's clock.
func (l *loop) wall(t time.Duration) time.Time { return time.Unix(0, int64(t+l.ahead)).UTC() }

// tell keeps an incident on a memory as it was last. about are the processes that it befell.
func (l *loop) tell(i *incident.Incident, m *memory, about ...processKey) {
	of := m.last
	if of.Device == nil {
		return
	}
	i.GPU, i.UUID, i.Memory, i.Capacity = l.info.IndexLabel(), l.info.UUID, of.Name(), of.Memory.Capacity()
	i.Finding = l.findingOn(m)
	to := cmp.Or(m.finding.Seen, of.Judgement.T) // nothing is found on the whole of a GPU in MIG mode
	h := held{Incident: i, store: l.sampler.cfg.Incidents}
	for _, key := range about {
		if e := l.processes.entry(key); !e.listed {
			to = max(to, e.seen)
			h.deaths = append(h.deaths, e.departed)
		}
	}
	from := (to - incident.Span).Truncate(incident.Step)
	i.Time, i.Start, i.Step = l.wall(to), l.wall(from), incident.Step.Seconds()
	i.Course, i.Used = m.history.hour.course(from, to)
	users := l.users(&of, about)
	i.Ended, i.Others = len(h.deaths), max(0, len(users)-incident.MaxProcesses)
	i.Processes = []incident.Process{}
	for n, p := range users[:len(users)-i.Others] {
		e := l.processes.entry(keyOf(&p.Process))
		u := incident.Process{Who: finding.Of(e.owner), PID: p.ID.PID, Ended: n < i.Ended, Allocator: p.Allocator, Lines: p.LeakSites()}
		if n == 0 && i.Kind == incident.Refused {
			u.Lines = e.refusal.Lines // not those of its growth
		}
		u.Course, u.Used = e.history.hour.course(from, to)
		i.Processes = append(i.Processes, u)
	}
	if i.Kind == incident.OutOfMemory || i.Kind == incident.Limit {
		l.sampler.ends.hold(h)
		return
	}
	h.store.Add(i)
}

// findingOn returns what was said of a memory at the last sample.
func (l *loop) findingOn(m *memory) incident.Finding {
	f := incident.Finding{By: "nothing", Reason: finding.Withheld(&m.last.Judgement.Device)}
	severity, at, since := m.finding.Foreseen()
	if since != 0 {
		f.Since = new(l.wall(since))
	}
	if at != 0 {
		f.By, f.At = severity.String(), new(l.wall(at))
	}
	if said := m.last.Messages(); len(said) > 0 {
		f.Text = said[0].Text()
	}
	return f
}

// users returns the processes on a memory: those that it befell, which may be too young for series, and then the others, the largest first.
func (l *loop) users(of *Domain, about []processKey) (list []ProcessState) {
	for _, key := range about {
		list = append(list, ProcessState{Process: gpu.Process{ID: key.id, Instance: key.instance, Used: gpu.Some(l.processes.entry(key).used)}})
	}
	for _, p := range of.Device.Processes {
		if at := slices.Index(about, keyOf(&p.Process)); at >= 0 {
			list[at] = p
		} else if of.MemoryKey == wholeGPU || of.Has(&p.Process) {
			list = append(list, p)
		}
	}
	slices.SortStableFunc(list[len(about):], func(a, b ProcessState) int { return cmp.Compare(b.Used.V, a.Used.V) })
	return list
}

// tellXIDs keeps incidents of the XID errors since the last sample.
func (l *loop) tellXIDs() {
	for len(l.xids) > 0 {
		l.tell(&incident.Incident{Kind: incident.XID, XID: <-l.xids}, l.whole)
	}
}

// tellRefusals keeps an incident of each process whose framework was refused memory since the last sample. It is told of the GPU or
// instance, and of no limit.
func (l *loop) tellRefusals(sample *gpu.Sample) {
	for key, e := range l.processes.entries {
		m := l.memories[MemoryKey{Instance: key.instance}]
		r := l.sampler.cfg.Allocators.RefusedOn(l.info.UUID, sample, &gpu.Process{ID: key.id, Instance: key.instance})
		if m != nil && r != nil && r != e.refusal {
			e.refusal = r
			l.tell(&incident.Incident{Kind: incident.Refused, Asked: gpu.Some(r.Asked)}, m, key)
		}
	}
}
