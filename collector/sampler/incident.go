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

// held is the incident of processes that have ended, until it is known how. Its first processes are the first of these.
type held struct {
	*incident.Incident
	ended []*departed
	full  []*memory // in which they ended
}

// tell keeps an incident on a memory as it was at the last sample that had it, or else as it is now. about are the processes that it
// befell.
func (l *loop) tell(i *incident.Incident, m *memory, now Domain, about ...processKey) {
	of := cmp.Or(m.last, now)
	if of.Device == nil {
		return
	}
	i.GPU, i.UUID, i.Memory, i.Capacity = l.info.IndexLabel(), l.info.UUID, of.Name(), of.Memory.Capacity()
	i.Finding = l.findingOn(&of, m)
	to := cmp.Or(m.finding.Seen, of.Judgement.T) // nothing is found on the whole of a GPU in MIG mode
	users := l.users(&of, about)
	h := held{Incident: i}
	for _, p := range users {
		key := keyOf(&p.Process)
		if e := l.processes.entry(key); !e.listed && slices.Contains(about, key) {
			to = max(to, e.seen)
			h.ended = append(h.ended, e.departed)
		}
	}
	from := (to - incident.Span).Truncate(incident.Step)
	i.Time, i.Start, i.Step = l.wall(to), l.wall(from), incident.Step.Seconds()
	i.Course, i.Used = m.history.hour.course(from, to)
	i.Ended, i.Others = len(h.ended), max(0, len(users)-incident.MaxProcesses)
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
	if i.Kind != incident.OutOfMemory && i.Kind != incident.Limit {
		l.sampler.cfg.Incidents.Add(i)
		return
	}
	for _, m := range l.memories {
		if slices.ContainsFunc(m.died, func(key processKey) bool { return slices.Contains(about, key) }) {
			h.full = append(h.full, m)
		}
	}
	l.held = append(l.held, h)
	l.settle(false)
}

// settle keeps the incidents for which no other exit code will come, or all that are held. Each memory that was full counts the largest of
// those that crashed. If all processes of one ended well, it is no incident.
func (l *loop) settle(all bool) {
	all = all || len(l.held) > incident.Most
	l.held = slices.DeleteFunc(l.held, func(h held) bool {
		var crashed []finding.End // the largest is the first one: it counts
		for n, d := range h.ended {
			code, final := d.exitCode()
			if !final && !all {
				return false
			}
			if n < len(h.Processes) {
				h.Processes[n].ExitCode = code
			}
			if !endedWell(code) {
				crashed = append(crashed, d.End)
			}
		}
		for _, m := range h.full {
			m.crashed = append(m.crashed, crashed...)
		}
		if len(crashed) > 0 {
			l.sampler.cfg.Incidents.Add(h.Incident)
		}
		return true
	})
}

// findingOn returns what was said of a memory at the last sample.
func (l *loop) findingOn(of *Domain, m *memory) incident.Finding {
	f := incident.Finding{By: "nothing", Reason: finding.Withheld(&of.Judgement.Device)}
	severity, at, since := m.finding.Foreseen()
	if since != 0 {
		f.Since = new(l.wall(since))
	}
	if at != 0 {
		f.By, f.At = severity.String(), new(l.wall(at))
	}
	if said := of.Messages(); len(said) > 0 {
		f.Text = said[0].Text()
	}
	return f
}

// users returns the processes on a memory: those that it befell, which may be too young for series, and then the others, both the largest
// first.
func (l *loop) users(of *Domain, about []processKey) []ProcessState {
	befell := func(p ProcessState) bool { return slices.Contains(about, keyOf(&p.Process)) }
	list := slices.DeleteFunc(slices.Clone(of.Device.Processes), func(p ProcessState) bool {
		return of.MemoryKey != wholeGPU && !of.Has(&p.Process)
	})
	for _, key := range about {
		if !slices.ContainsFunc(list, func(p ProcessState) bool { return keyOf(&p.Process) == key }) {
			used := gpu.Some(l.processes.entry(key).used)
			list = append(list, ProcessState{Process: gpu.Process{ID: key.id, Instance: key.instance, Used: used}})
		}
	}
	slices.SortStableFunc(list, func(a, b ProcessState) int {
		return cmp.Or(-compareBool(befell(a), befell(b)), cmp.Compare(b.Used.V, a.Used.V))
	})
	return list
}

// tellXIDs keeps incidents of the XID errors since the last sample.
func (l *loop) tellXIDs() {
	for len(l.xids) > 0 {
		l.tell(&incident.Incident{Kind: incident.XID, XID: <-l.xids}, l.whole, Domain{})
	}
}

// tellRefusals keeps an incident of each process whose framework was refused memory since the last sample.
func (l *loop) tellRefusals(sample *gpu.Sample) {
	for key, e := range l.processes.entries {
		r := l.sampler.cfg.Allocators.RefusedOn(l.info.UUID, sample, &gpu.Process{ID: key.id, Instance: key.instance})
		if m := l.memory(MemoryKey{Instance: key.instance}); m != nil && r != nil && r != e.refusal {
			e.refusal = r
			l.tell(&incident.Incident{Kind: incident.Refused, Asked: gpu.Some(r.Asked)}, m, Domain{}, key)
		}
	}
}
