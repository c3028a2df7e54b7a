// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const (
	// mostLimited bounds how many limits of a GPU are judged: as many as a GPU can be shared by. As many again are remembered.
	mostLimited = 64
	// forgetLimit is how long a limit without a process is remembered. A program in it may start again.
	forgetLimit = time.Hour
)

// limitedProcess is a process on a GPU.
type limitedProcess struct {
	uuid string
	id   gpu.ProcessID
}

// LimitKey names what a limit bounds: a control group, or one process.
type LimitKey struct {
	Instance gpu.Opt[uint32] `json:"gpu_instance,omitzero"`
	Of       string          `json:"of,omitzero"`      // see gpu.Limit
	ID       gpu.ProcessID   `json:"process,omitzero"` // of a limit on one process
}

// LimitedState is what is known of processes with a limit on their GPU memory. That is a memory of its own: it may be full before
// the GPU is.
type LimitedState struct {
	LimitKey
	// Who has what the processes have in common. The labels that they differ in are empty.
	Who       finding.Who
	Limits    []gpu.Limit // the smallest first
	Memory    gpu.Memory  // Total is the smallest limit
	Judgement detector.Judgement[gpu.ProcessID]
	Curve     *Curve

	members []int // positions in the sample
}

// askLimits fills in the limits of the processes on the GPUs.
func (s *Sampler) askLimits(now *host) (err error) {
	now.limits = map[limitedProcess][]gpu.Limit{}
	for _, l := range s.shared.Load().loops {
		last := l.published.Load()
		if last == nil || !last.Up {
			continue
		}
		for i := range last.Processes {
			id := last.Processes[i].ID
			limits, failed := s.cfg.Owners.Limits(id, &l.info)
			err = cmp.Or(err, failed)
			now.limits[limitedProcess{l.info.UUID, id}] = limits
			if len(bounding(limits, last.Memory)) < len(limits) {
				err = cmp.Or(err, errNoLimit)
			}
		}
	}
	return err
}

// limitsOn returns what knows the limits of processes on a GPU. asked is false of a process that was not there the last time.
func (s *Sampler) limitsOn(uuid string) func(gpu.ProcessID) (limits []gpu.Limit, asked bool) {
	return func(id gpu.ProcessID) (limits []gpu.Limit, asked bool) {
		limits, asked = s.host.Load().limits[limitedProcess{uuid, id}]
		return limits, asked
	}
}

var errNoLimit = errors.New("a limit of 0 or above the memory of the GPU is none")

// bounding returns the limits that bound something on a GPU.
func bounding(limits []gpu.Limit, m gpu.Memory) []gpu.Limit {
	none := func(x gpu.Limit) bool { return x.Bytes == 0 || m.Total.OK && x.Bytes > m.Total.V }
	if !slices.ContainsFunc(limits, none) {
		return limits
	}
	return slices.DeleteFunc(slices.Clone(limits), none)
}

// limitsOf returns what limits of a sample bound, in the order of the processes.
func limitsOf(sample *gpu.Sample) (list []LimitedState) {
	for i := range sample.Processes {
		p := &sample.Processes[i]
		for _, limit := range p.Limits {
			key := LimitKey{Instance: p.Instance, Of: limit.Of}
			if limit.Of == "" {
				key.ID = p.ID
			}
			at := slices.IndexFunc(list, func(x LimitedState) bool { return x.LimitKey == key })
			switch {
			case at < 0 && len(list) == mostLimited:
				continue
			case at < 0:
				list = append(list, LimitedState{LimitKey: key, Who: finding.Of(p.Owner)})
				at = len(list) - 1
			}
			list[at].add(sample.Processes, i, limit)
		}
	}
	for i := range list {
		list[i].sum(sample)
	}
	return list
}

// add adds a limit of a process.
func (x *LimitedState) add(processes []gpu.Process, position int, limit gpu.Limit) {
	p := &processes[position]
	if at := slices.IndexFunc(x.Limits, func(l gpu.Limit) bool { return l.Source == limit.Source }); at < 0 {
		x.Limits = append(x.Limits, limit)
	} else if limit.Bytes < x.Limits[at].Bytes {
		x.Limits[at] = limit
	}
	if at := slices.IndexFunc(x.members, func(i int) bool { return processes[i].ID == p.ID }); at >= 0 {
		x.members[at] = position // listed twice
		return
	}
	x.members = append(x.members, position)
	x.Who = x.Who.Common(finding.Of(p.Owner))
}

// sum adds up the memory of the processes. What is charged beyond that, such as to others in a group above, is not theirs to use.
func (x *LimitedState) sum(sample *gpu.Sample) {
	slices.SortStableFunc(x.Limits, func(a, b gpu.Limit) int { return cmp.Compare(a.Bytes, b.Bytes) })
	used := gpu.Some(uint64(0))
	for _, i := range x.members {
		p := sample.Processes[i].Used
		used = gpu.Some(used.V + p.V).If(used.OK && p.OK)
	}
	limit := &x.Limits[0]
	x.Memory = gpu.Memory{Total: gpu.Some(limit.Bytes), Used: used}
	if limit.Charged.OK && used.OK {
		x.Memory.Reserved = gpu.Some(min(limit.Bytes, limit.Charged.V-min(used.V, limit.Charged.V)))
	}
}

// has reports whether a limit bounds a process.
func (x *LimitKey) has(p *gpu.Process) bool {
	return x.Instance == p.Instance && slices.ContainsFunc(p.Limits, func(l gpu.Limit) bool {
		return l.Of == x.Of && (l.Of != "" || x.ID == p.ID)
	})
}

// judgeLimited runs the detector over the processes with a limit.
func (l *loop) judgeLimited(sample *gpu.Sample, state *DeviceState) {
	list := limitsOf(sample)
	for i := range list {
		l.judgeLimit(&list[i], sample, state)
	}
	maps.DeleteFunc(l.limited, func(_ LimitKey, m *memory) bool {
		m.seen = min(cmp.Or(m.seen, sample.T), sample.T) // it may be from the state file, or the clock went back
		return sample.T-m.seen >= forgetLimit
	})
	empty := l.vacated(list, sample)
	for i := range empty {
		l.judgeLimit(&empty[i], sample, state)
	}
}

// judgeLimit judges the processes with one limit. The verdict on a process is that on the memory that ends first.
func (l *loop) judgeLimit(x *LimitedState, sample *gpu.Sample, state *DeviceState) {
	m := l.memoryOf(x, sample)
	frame, index := l.frames.Limited(l.info, sample, x.Memory, x.members)
	if l.observe(m, frame) {
		j := m.domain.Judgement()
		for i := range j.Members {
			l.processes.limited(sample, index[i], &j.Members[i])
		}
		l.exitedLimit(x, m)
		x.Judgement = alone(j)
	}
	if len(x.members) > 0 || len(m.died)+len(m.finding.Ends) > 0 {
		state.Limited = append(state.Limited, *x)
		state.addLimits(x)
	}
}

// exitedLimit notes the processes that this frame has shown to be gone from a full limit.
func (l *loop) exitedLimit(x *LimitedState, m *memory) {
	for _, gone := range m.domain.Exited() {
		key := processKey{gone.Key, x.Instance}
		if e := l.processes.entries[key]; gone.NearCapacity && (e == nil || !e.listed) { // else only its limit is gone
			m.died = append(m.died, key)
		}
	}
}

// vacated returns the limits whose last process has just ended, and those in which processes ended again and again: the next one
// may end, too. After the limit of one process there is no next one.
func (l *loop) vacated(list []LimitedState, sample *gpu.Sample) (empty []LimitedState) {
	if !sample.ProcessesComplete {
		return nil
	}
	for key, m := range l.limited {
		ends := m.last != nil && (len(m.last.members) > 0 || len(m.finding.Ends) > 0)
		if key.Of == "" || !ends || slices.ContainsFunc(list, func(x LimitedState) bool { return x.LimitKey == key }) {
			continue
		}
		x := LimitedState{LimitKey: key, Who: m.last.Who, Limits: m.last.Limits}
		x.sum(sample)
		x.Memory.Reserved = gpu.Opt[uint64]{} // what was charged is old
		empty = append(empty, x)
	}
	slices.SortFunc(empty, func(a, b LimitedState) int { return cmp.Compare(a.Of, b.Of) })
	return empty
}

// memoryOf returns what is known of processes with a limit.
func (l *loop) memoryOf(x *LimitedState, sample *gpu.Sample) *memory {
	m := l.limited[x.LimitKey]
	if m == nil {
		if len(l.limited) >= 2*mostLimited {
			l.forgetLimited(sample.T)
		}
		m = l.newMemory(x.Instance, "", &x.Who)
		l.limited[x.LimitKey] = m
	}
	if x.Who.Namespace != m.labels.Namespace || x.Who.Pod != m.labels.Pod || x.Who.SlurmJob != m.labels.SlurmJob {
		*m.labels = x.Who
		m.domain.Reconfigure()
	}
	if m.last != nil && len(m.last.members) > 0 && m.last.Limits[0] == x.Limits[0] {
		x.Memory.Reserved = m.last.Memory.Reserved // what is charged was read at an earlier sample
	}
	m.last = &LimitedState{Who: x.Who, Limits: x.Limits, Memory: x.Memory, members: x.members}
	if len(x.members) > 0 {
		m.seen = sample.T
	}
	return m
}

// forgetLimited forgets the limit that has been without a process for longest, never one that has a process now.
func (l *loop) forgetLimited(now time.Duration) {
	oldest := slices.MinFunc(slices.Collect(maps.Keys(l.limited)), func(a, b LimitKey) int {
		x, y := l.limited[a].seen, l.limited[b].seen
		return cmp.Or(compareBool(x == now, y == now), cmp.Compare(x, y))
	})
	delete(l.limited, oldest)
}

// addLimits adds the limit on a pod or job to its workload. That is there with one process, too.
func (d *DeviceState) addLimits(x *LimitedState) {
	if x.Of == "" || x.Who.Pod == "" && x.Who.SlurmJob == "" || !x.Memory.Used.OK || len(x.members) == 0 {
		return
	}
	is := func(w WorkloadState) bool {
		return w.Instance == x.Instance && w.Namespace == x.Who.Namespace && w.Pod == x.Who.Pod && (w.Pod != "" || w.SlurmJob == x.Who.SlurmJob)
	}
	at := slices.IndexFunc(d.Workloads, is)
	if at < 0 {
		w := WorkloadState{Instance: x.Instance, Namespace: x.Who.Namespace, Pod: x.Who.Pod, Used: x.Memory.Used.V, Verdict: x.Judgement.Device, single: true}
		if w.Pod == "" {
			w.SlurmJob = x.Who.SlurmJob
		}
		d.Workloads, at = append(d.Workloads, w), len(d.Workloads)
	}
	w := &d.Workloads[at]
	if w.Limits = append(w.Limits, x.Limits...); w.limited {
		w.Limits = nil // parts of it have limits of their own, and it has none as a whole
	}
	w.limited = true
	w.Verdict = earlier(w.Verdict, x.Judgement.Device)
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
			limit, other := &list[i], &list[k]
			if limit.Limit == nil || i == k || other.Limit != nil && i < k || limit.Instance != other.Instance || !state.bound(limit, &other.Who) {
				continue
			}
			// What is not growth is told of the smaller memory.
			other.NearlyFull, other.CrashLoop = other.NearlyFull && !limit.NearlyFull, other.CrashLoop && !limit.CrashLoop
			switch {
			case !limit.Grows() || !other.Grows():
			case limit.before(other, last):
				limit.takeGrowth(other)
			default:
				other.takeGrowth(limit)
			}
		}
	}
	state.Findings = slices.DeleteFunc(list, func(f FindingState) bool { return f.Empty() })
}

// bound reports whether the limit of a finding bounds a culprit.
func (d *DeviceState) bound(limit *FindingState, who *finding.Who) bool {
	return limit.Who == *who || slices.ContainsFunc(d.Processes, func(p ProcessState) bool {
		of := finding.Of(p.Owner)
		return limit.Limit.has(&p.Process) && (of == *who || who.Whole && of.With(who))
	})
}

// before reports whether growth is told of this memory, and not of the other one. What was told last stays if its alert is due and the
// other one still waits, or is hardly earlier: an alert with other labels is another alert.
func (f *FindingState) before(other *FindingState, last *DeviceState) bool {
	mine, theirs := f.left(), other.left()
	switch {
	case f.in(last):
		if f.OOMDue && !other.OOMDue {
			return true
		}
		mine /= incumbent
	case other.in(last):
		if other.OOMDue && !f.OOMDue {
			return false
		}
		theirs /= incumbent
	}
	return mine <= theirs
}

// in reports whether a state tells of growth with the same labels.
func (f *FindingState) in(state *DeviceState) bool {
	return state != nil && slices.ContainsFunc(state.Findings, func(g FindingState) bool {
		return g.Grows() && g.Instance == f.Instance && same(g.Limit, f.Limit) && g.Who == f.Who
	})
}

// left returns the time left in seconds.
func (f *FindingState) left() float64 {
	if s := f.OOM.Finite(); s != nil {
		return *s
	}
	return math.Inf(1)
}

// takeGrowth ends the alerts on growth of another memory with the same culprit. If it is a leak there, so it is here.
func (f *FindingState) takeGrowth(other *FindingState) {
	f.Leaking, f.LeakDue = cmp.Or(f.Leaking, other.Leaking), f.LeakDue || other.LeakDue
	other.EndGrowth()
}
