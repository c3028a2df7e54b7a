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

// last returns a memory as it was at the last sample, or as it is in this state if that did not have it; nil if it is not there any more.
func (l *loop) last(key MemoryKey, now *DeviceState) *Domain {
	for _, state := range []*DeviceState{l.published.Load(), now} {
		if state == nil || !state.Up {
			continue
		}
		for d := range state.memories() {
			if d.MemoryKey == key && l.memories[key] != nil {
				return &d
			}
		}
	}
	return nil
}

// incident returns an incident on a memory, which last has returned. about are the processes that it befell. One that is not listed
// any more has ended.
func (l *loop) incident(kind incident.Kind, of *Domain, about ...processKey) *incident.Incident {
	m := l.memories[of.MemoryKey]
	i := &incident.Incident{
		Kind: kind, GPU: l.info.IndexLabel(), UUID: l.info.UUID, Memory: of.Name(), Capacity: of.Memory.Capacity(),
		Finding: l.findingOn(of, m), Step: incident.Step.Seconds(),
	}
	to := cmp.Or(m.finding.Seen, of.Judgement.T) // nothing is found on the whole of a GPU in MIG mode
	for _, key := range about {
		e := l.processes.entries[key]
		if e == nil || !e.listed {
			i.Ended++
		}
		if e != nil && !e.listed {
			to = max(to, e.seen)
		}
	}
	from := m.history.hour.since(to)
	i.Time, i.Start, i.Course = l.wall(to), l.wall(from), m.history.hour.course(from, to)
	i.Used = i.Course[len(i.Course)-1]
	i.Processes = l.users(of, about, from, to)
	i.Others = max(0, len(i.Processes)-incident.MaxProcesses)
	i.Processes = i.Processes[:len(i.Processes)-i.Others]
	return i
}

// findingOn returns what was said of a memory at the last sample.
func (l *loop) findingOn(of *Domain, m *memory) incident.Finding {
	f := incident.Finding{By: "nothing"}
	severity, at, since := m.finding.Foreseen()
	if since != 0 {
		f.Since = new(l.wall(since))
	}
	if at != 0 {
		f.By, f.At = severity.String(), new(l.wall(at))
	}
	if v := &of.Judgement.Device; !v.Leak {
		f.Reason = finding.Withheld(v)
	}
	if list := of.Messages(); len(list) > 0 {
		f.Text = list[0].Text()
	}
	return f
}

// users returns the processes on a memory: those that it befell, and then the largest.
func (l *loop) users(of *Domain, about []processKey, from, to time.Duration) []incident.Process {
	list, all := []incident.Process{}, slices.Clip(of.Device.Processes)
	for _, key := range about {
		if !slices.ContainsFunc(all, func(p ProcessState) bool { return keyOf(&p.Process) == key }) { // too young for series
			all = append(all, ProcessState{Process: gpu.Process{ID: key.id, Instance: key.instance}})
		}
	}
	for k := range all {
		p, key := &all[k], keyOf(&all[k].Process)
		e, befell := l.processes.entries[key], slices.Contains(about, key)
		if e == nil || !befell && !of.Has(&p.Process) && of.MemoryKey != wholeGPU {
			continue
		}
		u := incident.Process{
			Who: finding.Of(e.owner), PID: key.id.PID, ContainerID: e.owner.ContainerID, Ended: befell && !e.listed,
			Allocator: p.Allocator, Lines: p.LeakSites(), Course: e.history.hour.course(from, to),
		}
		if u.Used = u.Course[len(u.Course)-1]; u.Ended {
			u.Used = gpu.Some(e.used).If(e.used > 0) // it may have ended before others
		}
		list = append(list, u)
	}
	befell := func(p incident.Process) bool {
		return slices.ContainsFunc(about, func(key processKey) bool { return key.id.PID == p.PID })
	}
	slices.SortStableFunc(list, func(a, b incident.Process) int {
		return cmp.Or(-compareBool(befell(a), befell(b)), -cmp.Compare(a.Used.V, b.Used.V))
	})
	return list
}

// tellDeaths keeps an incident if processes have died in a memory while it was full.
func (l *loop) tellDeaths(in *Domain, state *DeviceState, died []processKey) {
	if len(died) == 0 {
		return
	}
	kind := incident.OutOfMemory
	if in.IsLimit() {
		kind = incident.Limit
	}
	l.sampler.cfg.Incidents.Add(l.incident(kind, l.last(in.MemoryKey, state), died...))
}

// tellLast keeps an incident on the whole GPU, as it was at the last sample. code is that of an XID error, or 0.
func (l *loop) tellLast(kind incident.Kind, code uint64) {
	if of := l.last(wholeGPU, nil); of != nil {
		i := l.incident(kind, of)
		i.XID = code
		l.sampler.cfg.Incidents.Add(i)
	}
}

// tellXIDs keeps incidents of the XID errors since the last sample.
func (l *loop) tellXIDs() {
	for len(l.xids) > 0 {
		l.tellLast(incident.XID, <-l.xids)
	}
}

// tellRefusals keeps an incident of each process whose framework was refused memory since the last sample, with the lines that held
// most then.
func (l *loop) tellRefusals(sample *gpu.Sample, state *DeviceState) {
	for key, e := range l.processes.entries {
		r := l.sampler.cfg.Allocators.RefusedOn(l.info.UUID, sample, &gpu.Process{ID: key.id, Instance: key.instance})
		if r == nil || r == e.refusal {
			continue
		}
		e.refusal = r
		of := l.last(MemoryKey{Instance: key.instance}, state)
		if of == nil {
			continue
		}
		i := l.incident(incident.Refused, of, key)
		i.Asked = gpu.Some(r.Asked)
		it := &i.Processes[0]
		it.Lines = nil // of its growth
		for k := range r.Lines {
			it.Lines = append(it.Lines, incident.Line{Line: r.Lines[k].Line, Bytes: r.Lines[k].Live})
		}
		l.sampler.cfg.Incidents.Add(i)
	}
}
