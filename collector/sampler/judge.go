// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// wholeGPU is the GPU's own memory.
var wholeGPU MemoryKey

// memory is what the loop has learnt of one memory.
type memory struct {
	MemoryState // of a limit, at the last sample that told of it; else, and from the state file, only what names it
	domain      *detector.Domain[gpu.ProcessID]
	finding     finding.Memory
	last        Domain       // at the last sample, or at this one if that did not have it
	died        []processKey // since the last verdict, within a minute after it was full, the largest first
	dead        []*departed  // until it is known how they ended, in order, and the largest of one sample first
	history     history
	curve       *Curve // of history, as it was made last
}

// learn shows the detector and the curves a sample that is not the last one. Nobody will see a verdict on it. It returns the memories,
// until the next sample.
func (l *loop) learn(sample *gpu.Sample) *DeviceState {
	if len(sample.Processes) > 0 {
		l.processes.note(sample)
	}
	if sample.Memory.Used.OK {
		l.peak.Add(sample.T, peakSpan, sample.Memory.Used.V)
	}
	state := &l.learnt
	state.Info, state.Memory, state.Instances = l.info, sample.Memory, state.Instances[:0]
	l.layOut(sample, state)
	for d := range state.memories() {
		m := l.memories[d.MemoryKey]
		frame, _ := l.frame(&d, sample)
		l.observe(m, frame)
	}
	l.remember(sample, state)
	return state
}

// layOut gives the state the memories that a sample has.
func (l *loop) layOut(sample *gpu.Sample, state *DeviceState) {
	l.repartition(sample)
	for i := range sample.Instances {
		state.Instances = append(state.Instances, InstanceOf(&sample.Instances[i]))
	}
	state.Who, state.Limited = finding.Of(sample.Owner), l.limits(sample)
	for d := range state.memories() {
		if m := l.memories[d.MemoryKey]; m.Who != d.Who {
			m.Who, l.resolve = d.Who, new(Resolver) // its series have other labels
		}
	}
	l.reconfigure()
}

// frame returns what the detector sees of a memory, and for each member its position in the sample.
func (l *loop) frame(d *Domain, sample *gpu.Sample) (frame *detector.Frame[gpu.ProcessID], index []int) {
	if d.MemoryKey == wholeGPU {
		return l.frames.Device(l.info, sample)
	}
	return l.frames.Part(l.info, sample, d.Memory, d.Profile, d.Has)
}

// unattributed returns the used memory that no process holds; absent where that is not known. If a process of the list cannot
// be looked up, the list may be that of another namespace.
func unattributed(info gpu.Info, sample *gpu.Sample) gpu.Opt[uint64] {
	if !sample.Memory.Used.OK || !sample.ProcessesComplete || info.CoherentMemory {
		return gpu.Opt[uint64]{}
	}
	var sum uint64
	for i := range sample.Processes {
		if p := &sample.Processes[i]; !p.Used.OK || p.ID.Start == 0 {
			return gpu.Opt[uint64]{}
		}
		sum += sample.Processes[i].Used.V
	}
	// The driver tells the lists a moment after the memory. A process may have grown in between: the difference is not negative.
	return gpu.Some(sample.Memory.Used.V - min(sum, sample.Memory.Used.V))
}

// judge runs the detector over the memories of the GPU.
func (l *loop) judge(sample *gpu.Sample, state *DeviceState) {
	l.layOut(sample, state)
	for d := range state.memories() {
		m := l.memories[d.MemoryKey]
		m.last = cmp.Or(m.last, d)
		frame, index := l.frame(&d, sample)
		if l.observe(m, frame) {
			l.take(&d, sample, index, state)
		}
	}
	if len(sample.Instances) > 0 {
		// Instances run out of memory, not the GPU: the whole has statistics and no verdict.
		j := &state.Judgement
		j.Device = detector.Verdict{Windows: j.Device.Windows, SpikesTotal: j.Device.SpikesTotal, Trough: j.Device.Trough}
	}
}

// repartition follows the MIG layout. A new layout makes all old histories invalid, also one that was made while no exporter ran.
func (l *loop) repartition(sample *gpu.Sample) {
	before := l.instances
	l.instances = gpu.Some(len(sample.Instances))
	same := before.V == l.instances.V
	for i := range sample.Instances {
		m := l.memories[MemoryKey{Instance: gpu.Some(sample.Instances[i].ID)}]
		same = same && m != nil && m.Profile == sample.Instances[i].Profile
	}
	if same {
		return
	}
	l.whole.finding = finding.Memory{}
	if before.OK {
		l.whole.domain.Reset(detector.ReasonRepartition)
		level.Info(l.logger).Log("msg", "MIG layout changed", "instances", len(sample.Instances))
	}
	clear(l.memories)
	l.memories[wholeGPU] = l.whole
	for i := range sample.Instances {
		key := MemoryKey{Instance: gpu.Some(sample.Instances[i].ID)}
		l.memories[key] = l.newMemory(MemoryState{MemoryKey: key, Profile: sample.Instances[i].Profile})
	}
}

// observe adds a frame to a memory, and reports whether it could. If the clock went back, the memory starts anew.
func (l *loop) observe(m *memory, frame *detector.Frame[gpu.ProcessID]) bool {
	err := m.domain.Observe(frame)
	if err == nil {
		return true
	}
	level.Warn(l.logger).Log("msg", "the clock of the source went back; judging starts anew", "err", err)
	m.domain.Reset(detector.ReasonClockStep)
	m.finding = finding.Memory{}
	return m.domain.Observe(frame) == nil
}

// take copies the judgement on a memory into the state, without what belongs to its domain.
func (l *loop) take(d *Domain, sample *gpu.Sample, index []int, state *DeviceState) {
	j := l.memories[d.MemoryKey].domain.Judgement()
	for i := range j.Members {
		l.processes.judged(sample, index[i], &j.Members[i], d.IsLimit())
	}
	slices.SortStableFunc(j.Exited, func(a, b detector.Exit[gpu.ProcessID]) int { return cmp.Compare(b.Used.V, a.Used.V) })
	for i := range j.Exited {
		l.ended(&j.Exited[i], d)
	}
	d.Judgement = *j
	d.Judgement.Members, d.Judgement.Groups, d.Judgement.Exited, d.Judgement.Unreleased = nil, nil, nil, nil
	if d.IsLimit() {
		return // the rest is told of the GPU
	}
	for i := range j.Groups {
		g := &j.Groups[i]
		state.Workloads = append(state.Workloads, WorkloadState{Instance: d.Instance, Who: l.processes.whoIs(g.Group), Used: uint64(g.Used), Verdict: g.Verdict})
	}
	for _, u := range j.Unreleased {
		state.Unreleased = append(state.Unreleased, EndState{
			Instance: d.Instance, ID: u.Key, Owner: l.processes.entry(processKey{u.Key, d.Instance}).owner, Used: uint64(u.Used), At: u.Since,
		})
	}
	slices.SortFunc(state.Unreleased, func(a, b EndState) int {
		return cmp.Or(cmp.Compare(a.Instance.V, b.Instance.V), cmp.Compare(a.ID.PID, b.ID.PID), cmp.Compare(a.ID.Start, b.ID.Start))
	})
}

// ended notes what follows from the end of a process in a memory.
func (l *loop) ended(x *detector.Exit[gpu.ProcessID], d *Domain) {
	key := processKey{x.Key, d.Instance}
	e, m := l.processes.entries[key], l.memories[d.MemoryKey]
	if e == nil || e.listed {
		return // only its limit is gone
	}
	// The next life may begin in the very frame that misses it.
	end := finding.End{Who: finding.Of(e.owner), Began: e.first, At: cmp.Or(e.seen, m.domain.Judgement().T)}
	gone := &departed{End: end, runs: finding.RunsOn(e.owner, l.info.Name, d.Profile), container: e.owner.ContainerID, noticed: time.Now()}
	l.sampler.ends.add(gone)
	if e.departed == nil || e.departed.End != end { // one memory of it is enough
		e.departed = gone
	}
	if !x.NearCapacity {
		return
	}
	m.died, m.dead = append(m.died, key), append(m.dead, e.departed)
	if !d.IsLimit() { // that is told of the GPU
		l.exits++
	}
}

// knows reports whether the detector can still name a process in one of its memories.
func (l *loop) knows(key processKey) bool {
	for _, m := range l.memories {
		if m.Instance == key.instance && m.domain.Knows(key.id) {
			return true
		}
	}
	return false
}

// crashed returns the ends of those that did not end well, the earliest first, as far as that is known: of two ends the later one would
// count alone, and of those in one sample the first one counts.
func (m *memory) crashed() (list []finding.End) {
	for len(m.dead) > 0 {
		code, final := m.dead[0].exitCode()
		if !final {
			break
		}
		if !endedWell(code) {
			list = append(list, m.dead[0].End)
		}
		m.dead = m.dead[1:]
	}
	return list
}

// find decides what alerts say of each memory of the GPU.
func (l *loop) find(state *DeviceState) {
	var told []processKey // that have ended in one memory: another one, such as the limit of their pod, may be full with it
	for d := range state.Domains() {
		if d.Judgement.T == 0 {
			continue // nothing is known of it this time
		}
		m, s := l.memories[d.MemoryKey], d.Sample()
		m.died = slices.DeleteFunc(m.died, func(key processKey) bool { return slices.Contains(told, key) })
		told = append(told, m.died...)
		kind := incident.OutOfMemory
		if d.IsLimit() {
			kind = incident.Limit
			state.addLimit(d.MemoryState, s.Processes)
		}
		if len(m.died) > 0 {
			l.tell(&incident.Incident{Kind: kind}, m, m.died...)
		}
		s.Ends, m.died = m.crashed(), nil
		s.FillsWithin = l.sampler.cfg.Detector.FillsWithin
		for _, f := range m.finding.Judge(s) {
			if d.IsLimit() {
				f.Zombie = detector.Value{} // it is told of the GPU
			}
			state.Findings = append(state.Findings, FindingState{MemoryKey: d.MemoryKey, Finding: f})
		}
	}
	state.firstEnd(l.published.Load())
}
