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

// tell keeps an incident on a memory as it was at the last sample, or as it is now if that did not have it. about are the processes that
// it befell.
func (l *loop) tell(i *incident.Incident, key MemoryKey, now *DeviceState, about ...processKey) {
	of, m := cmp.Or(l.last.memory(key), now.memory(key)), l.memory(key)
	if of == nil || m == nil {
		return
	}
	i.GPU, i.UUID, i.Memory, i.Capacity = l.info.IndexLabel(), l.info.UUID, of.Name(), of.Memory.Capacity()
	i.Finding = l.findingOn(of, m)
	to := cmp.Or(m.finding.Seen, of.Judgement.T) // nothing is found on the whole of a GPU in MIG mode
	codes := exitCodes{}
	for _, key := range about {
		if e := l.processes.entry(key); !e.listed {
			i.Ended++
			to = max(to, e.seen)
			codes[e.owner.ContainerID] = gpu.Opt[int32]{}
		}
	}
	from := (to - incident.Span).Truncate(incident.Step)
	i.Time, i.Start, i.Step = l.wall(to), l.wall(from), incident.Step.Seconds()
	i.Course, i.Used = m.history.hour.course(from, to)
	users := l.users(of, about)
	i.Others = max(0, len(users)-incident.MaxProcesses)
	i.Processes = []incident.Process{}
	var ends []finding.End // the largest is the first one: it counts
	for n, p := range users[:len(users)-i.Others] {
		e := l.processes.entry(keyOf(&p.Process))
		u := incident.Process{
			Who: finding.Of(e.owner), PID: p.ID.PID, ContainerID: e.owner.ContainerID, Ended: n < len(about) && !e.listed,
			Allocator: p.Allocator, Lines: p.LeakSites(),
		}
		if n == 0 && i.Kind == incident.Refused {
			u.Lines = e.refusal.Lines // not those of its growth
		}
		if u.Ended { // the next life may begin in the very frame that misses it
			ends = append(ends, finding.End{Who: u.Who, Began: e.first, At: cmp.Or(e.seen, of.Judgement.T), Container: u.ContainerID})
		}
		u.Course, u.Used = e.history.hour.course(from, to)
		i.Processes = append(i.Processes, u)
	}
	if i.Kind != incident.OutOfMemory && i.Kind != incident.Limit {
		l.sampler.cfg.Incidents.Add(i)
		return
	}
	l.tellDeaths(i, codes, ends, about)
}

// tellDeaths keeps an incident of processes that have ended, and counts it for the crash loop of each memory that was full, once the exit
// codes of their containers are known, unless they ended well.
func (l *loop) tellDeaths(i *incident.Incident, codes exitCodes, ends []finding.End, about []processKey) {
	var full []chan []finding.End
	for _, m := range l.memories {
		if slices.ContainsFunc(m.died, func(key processKey) bool { return slices.Contains(about, key) }) {
			full = append(full, m.crashed)
		}
	}
	l.sampler.ends.hold(held{i, codes, time.Now(), func() {
		l.sampler.cfg.Incidents.Add(i)
		for _, crashed := range full {
			select {
			case crashed <- slices.DeleteFunc(slices.Clone(ends), func(e finding.End) bool { return endedWell(codes[e.Container]) }):
			default: // enough are known
			}
		}
	}})
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
	for _, message := range of.Messages() {
		if f.Text == "" && message.Alert != finding.HeldByNobody { // that is no forecast
			f.Text = message.Text()
		}
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
		l.tell(&incident.Incident{Kind: incident.XID, XID: <-l.xids}, wholeGPU, nil)
	}
}

// tellRefusals keeps an incident of each process whose framework was refused memory since the last sample.
func (l *loop) tellRefusals(sample *gpu.Sample, state *DeviceState) {
	for key, e := range l.processes.entries {
		r := l.sampler.cfg.Allocators.RefusedOn(l.info.UUID, sample, &gpu.Process{ID: key.id, Instance: key.instance})
		if r != nil && r != e.refusal {
			e.refusal = r
			l.tell(&incident.Incident{Kind: incident.Refused, Asked: gpu.Some(r.Asked)}, MemoryKey{Instance: key.instance}, state, key)
		}
	}
}
