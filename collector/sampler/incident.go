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

// tell keeps an incident on a memory, as it was at the last sample. died are the processes that have ended since. more adds what only
// its kind has; it may be nil.
func (l *loop) tell(kind incident.Kind, of *Domain, died []processKey, more func(*incident.Incident)) {
	m := l.memories[of.MemoryKey]
	if l.sampler.cfg.Incidents == nil || m == nil {
		return
	}
	wall := func(t time.Duration) time.Time { return time.Unix(0, int64(t+l.ahead)).UTC() }
	last := cmp.Or(m.finding.Seen, of.Judgement.T) // nothing is found on the whole of a GPU in MIG mode
	to := last
	for _, key := range died {
		if e := l.processes.entries[key]; e != nil {
			to = max(to, e.seen)
		}
	}
	from := max(min(m.hour.Since(), to.Truncate(incident.Step)), (to - incident.Span).Truncate(incident.Step)) // its use may not be known at all, or not any more
	i := &incident.Incident{
		Kind: kind, Time: wall(to), GPU: l.info.IndexLabel(), UUID: l.info.UUID, Memory: of.Name(),
		Capacity: of.Memory.Capacity(), Used: of.Memory.Used,
		Start: wall(from), Step: incident.Step.Seconds(), Course: m.hour.Course(from, to),
	}
	if n := len(i.Course); n > 0 && (to > last || !i.Used.OK) {
		i.Used = i.Course[n-1]
	}
	i.Finding = findingOn(l.before(of), m, wall)
	i.Processes, i.Others = l.users(of, died, from, to)
	i.Ended = len(died)
	if more != nil {
		more(i)
	}
	l.sampler.cfg.Incidents.Add(i)
}

// tellDeaths keeps an incident if processes died with this frame, while the memory was full.
func (l *loop) tellDeaths(now *Domain, died []processKey) {
	if len(died) == 0 {
		return
	}
	full := *now.MemoryState
	full.Memory.Used = gpu.Opt[uint64]{} // it is that after their end
	kind := incident.OutOfMemory
	if now.IsLimit() {
		kind = incident.Limit
	}
	l.tell(kind, l.before(&Domain{&full, now.Device}), died, nil)
}

// before returns a memory as it was at the last sample, or as it is now if that did not have it.
func (l *loop) before(now *Domain) *Domain {
	if last := l.published.Load(); last != nil && last.Up {
		for d := range last.memories() {
			if d.MemoryKey == now.MemoryKey {
				return &d
			}
		}
	}
	return now
}

// findingOn returns what was said of a memory at the last sample.
func findingOn(of *Domain, m *memory, wall func(time.Duration) time.Time) (f incident.Finding) {
	moment := func(t time.Duration) *time.Time {
		if t == 0 {
			return nil
		}
		at := wall(t)
		return &at
	}
	severity, at, since := m.finding.Foreseen()
	f.By, f.At, f.Since = "nothing", moment(at), moment(since)
	if at != 0 {
		f.By = severity.String()
	}
	if v := &of.Judgement.Device; !v.Leak {
		f.Reason = finding.Withheld(v)
	}
	if list := of.Messages(); len(list) > 0 {
		f.Text = list[0].Text()
	}
	return f
}

// users returns the processes on a memory, those that have ended and then the largest, and how many more there are.
func (l *loop) users(of *Domain, died []processKey, from, to time.Duration) (list []incident.Process, more int) {
	list = []incident.Process{}
	add := func(p *gpu.Process, e *processEntry, lines []incident.Line) {
		u := incident.Process{
			Who: finding.Of(e.owner), PID: p.ID.PID, ContainerID: e.owner.ContainerID, Ended: slices.Contains(died, keyOf(p)),
			Used: p.Used, Allocator: p.Allocator, Lines: lines, Course: e.hour.Course(from, to),
		}
		if u.Ended { // there may be samples since that of p; those of the others may be later than the end
			u.Used = gpu.Some(e.used).If(e.used > 0)
		}
		list = append(list, u)
	}
	for i := range of.Device.Processes {
		p := &of.Device.Processes[i]
		if e := l.processes.entries[keyOf(&p.Process)]; e != nil && (of.Has(&p.Process) || of.MemoryKey == wholeGPU) {
			add(&p.Process, e, p.LeakSites())
		}
	}
	for _, key := range died {
		has := func(p ProcessState) bool { return keyOf(&p.Process) == key }
		if e := l.processes.entries[key]; e != nil && !slices.ContainsFunc(of.Device.Processes, has) { // too young for series
			add(&gpu.Process{ID: key.id, Instance: key.instance}, e, nil)
		}
	}
	slices.SortStableFunc(list, func(a, b incident.Process) int {
		return cmp.Or(-compareBool(a.Ended, b.Ended), -cmp.Compare(a.Used.V, b.Used.V))
	})
	more = max(0, len(list)-incident.MaxProcesses)
	return list[:len(list)-more], more
}

// tellLast keeps an incident on the whole GPU, as it was at the last sample.
func (l *loop) tellLast(kind incident.Kind, more func(*incident.Incident)) {
	if last := l.published.Load(); last != nil && last.Up {
		l.tell(kind, &Domain{&last.MemoryState, last}, nil, more)
	}
}

// tellRefusals keeps an incident of each process whose framework was refused memory since the last sample. Most have ended since.
func (l *loop) tellRefusals(sample *gpu.Sample, state *DeviceState) {
	for _, in := range []*DeviceState{state, l.published.Load()} {
		if in == nil || !in.Up {
			continue
		}
		for i := range in.Processes {
			p := &in.Processes[i].Process
			if e := l.processes.entries[keyOf(p)]; e != nil && (in == state || !e.listed) {
				l.tellRefusal(sample, in, p, e)
			}
		}
	}
}

// tellRefusal keeps an incident of a process if it was refused memory, with the lines that held most then.
func (l *loop) tellRefusal(sample *gpu.Sample, in *DeviceState, p *gpu.Process, e *processEntry) {
	r := l.sampler.cfg.Allocators.RefusedOn(l.info.UUID, sample, p)
	if r == nil || r == e.refusal {
		return
	}
	e.refusal = r
	var died []processKey
	if !e.listed {
		died = append(died, keyOf(p))
	}
	list := slices.Collect(in.Domains())
	on := slices.IndexFunc(list, func(d Domain) bool { return !d.IsLimit() && d.Has(p) })
	if on < 0 {
		return
	}
	l.tell(incident.Refused, &list[on], died, func(in *incident.Incident) {
		in.Asked = gpu.Some(r.Asked)
		slices.SortStableFunc(in.Processes, func(a, b incident.Process) int { return -compareBool(a.PID == p.ID.PID, b.PID == p.ID.PID) })
		if first := in.Processes; len(first) > 0 && first[0].PID == p.ID.PID {
			first[0].Lines = nil // of its growth
			for k := range r.Lines {
				first[0].Lines = append(first[0].Lines, incident.Line{Line: r.Lines[k].Line, Bytes: r.Lines[k].Live})
			}
		}
	})
}

// tellXIDs keeps incidents of the XID errors since the last sample.
func (l *loop) tellXIDs() {
	for len(l.xids) > 0 {
		code := <-l.xids
		l.tellLast(incident.XID, func(i *incident.Incident) { i.XID = code })
	}
}
