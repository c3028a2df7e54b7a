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

// memory is what the loop has learnt of one memory: that of the GPU, or of a GPU instance.
type memory struct {
	profile string // of the instance
	domain  *detector.Domain[gpu.ProcessID]
	finding finding.Memory
	died    []processKey // with this frame, while it was full
	history history
	hour    incident.Hour
	curve   *Curve // of history, as it was made last
	// Of processes with a limit: the labels of which the rules know, and when there was one last.
	labels *finding.Who
	seen   time.Duration
	last   *LimitedState // at the last sample; nil if it is from the state file
}

// wholeGPU is the instance of the GPU's own memory.
var wholeGPU gpu.Opt[uint32]

// learn shows the detector and the curves a sample that is not the last one. Nobody will see a verdict on it.
func (l *loop) learn(sample *gpu.Sample) {
	if len(sample.Processes) > 0 {
		l.processes.note(sample)
	}
	l.reconfigure()
	if sample.Memory.Used.OK {
		l.peak.Add(sample.T, peakSpan, sample.Memory.Used.V)
	}
	l.repartition(sample)
	observe := func(instance gpu.Opt[uint32], frame *detector.Frame[gpu.ProcessID], used, capacity gpu.Opt[uint64]) {
		m := l.memories[instance]
		if l.observe(m, frame) {
			l.exited(sample, instance, capacity)
		}
		m.history.add(sample.T, used, &detector.Verdict{})
		m.hour.Add(sample.T, used)
	}
	frame, _ := l.frames.Device(l.info, sample)
	observe(wholeGPU, frame, sample.Memory.Used, sample.Memory.Capacity())
	for i := range sample.Instances {
		in := &sample.Instances[i]
		frame, _ := l.frames.Instance(l.info, sample, in)
		observe(gpu.Some(in.ID), frame, in.Memory.Used, in.Memory.Capacity())
	}
	for _, x := range limitsOf(sample) {
		m := l.memoryOf(&x, sample)
		frame, _ := l.frames.Limited(l.info, sample, x.Memory, x.members)
		if l.observe(m, frame) {
			l.exitedLimit(&x, m)
		}
		m.history.add(sample.T, x.Memory.Used, &detector.Verdict{})
		m.hour.Add(sample.T, x.Memory.Used)
	}
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

// judge runs the detector over the GPU and its instances.
func (l *loop) judge(sample *gpu.Sample, state *DeviceState) {
	l.repartition(sample)
	frame, index := l.frames.Device(l.info, sample)
	if l.observe(l.memories[wholeGPU], frame) {
		state.Judgement = l.take(sample, index, state, wholeGPU, sample.Memory.Capacity())
	}
	if len(sample.Instances) > 0 {
		// Instances run out of memory, not the GPU: the whole has statistics and no verdict.
		j := &state.Judgement
		j.Device = detector.Verdict{Windows: j.Device.Windows, SpikesTotal: j.Device.SpikesTotal, Trough: j.Device.Trough}
	}
	for i := range sample.Instances {
		in := &sample.Instances[i]
		frame, index := l.frames.Instance(l.info, sample, in)
		is := InstanceState{Instance: *in}
		if l.observe(l.memories[gpu.Some(in.ID)], frame) {
			is.Judgement = l.take(sample, index, state, gpu.Some(in.ID), in.Memory.Capacity())
		}
		state.Instances = append(state.Instances, is)
	}
	l.judgeLimited(sample, state)
}

// repartition follows the MIG layout. A new layout makes all old histories invalid, also one that was made while no exporter ran.
func (l *loop) repartition(sample *gpu.Sample) {
	known := l.laidOut
	l.laidOut = true
	same := len(sample.Instances) == len(l.memories)-1
	for i := range sample.Instances {
		m := l.memories[gpu.Some(sample.Instances[i].ID)]
		same = same && m != nil && m.profile == sample.Instances[i].Profile
	}
	if same {
		return
	}
	whole := l.memories[wholeGPU]
	whole.finding = finding.Memory{}
	if known {
		whole.domain.Reset(detector.ReasonRepartition)
		level.Info(l.logger).Log("msg", "MIG layout changed", "instances", len(sample.Instances))
	}
	clear(l.memories)
	clear(l.limited)
	l.memories[wholeGPU] = whole
	for i := range sample.Instances {
		instance := gpu.Some(sample.Instances[i].ID)
		l.memories[instance] = l.newMemory(instance, sample.Instances[i].Profile, nil)
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

// take copies the judgement on a memory into the state. The original belongs to its domain.
func (l *loop) take(sample *gpu.Sample, index []int, state *DeviceState, instance gpu.Opt[uint32], capacity gpu.Opt[uint64]) detector.Judgement[gpu.ProcessID] {
	j := l.memories[instance].domain.Judgement()
	for i := range j.Members {
		l.processes.judged(sample, index[i], &j.Members[i])
	}
	l.exited(sample, instance, capacity)
	for i := range j.Groups {
		state.Workloads = append(state.Workloads, l.workload(&j.Groups[i], instance))
	}
	for _, u := range j.Unreleased {
		state.Unreleased = append(state.Unreleased, UnreleasedState{
			Instance: instance, ID: u.Key, Owner: l.processes.lastOwner(processKey{u.Key, instance}), Used: uint64(u.Used), Since: u.Since,
		})
	}
	slices.SortFunc(state.Unreleased, func(a, b UnreleasedState) int {
		return cmp.Or(cmp.Compare(a.Instance.V, b.Instance.V), cmp.Compare(a.ID.PID, b.ID.PID), cmp.Compare(a.ID.Start, b.ID.Start))
	})
	return alone(j)
}

// alone returns a judgement without what the domain owns.
func alone(j *detector.Judgement[gpu.ProcessID]) detector.Judgement[gpu.ProcessID] {
	own := *j
	own.Members, own.Groups, own.Exited, own.Unreleased = nil, nil, nil, nil
	return own
}

// exited notes what follows from the ends of processes that this frame has shown.
func (l *loop) exited(sample *gpu.Sample, instance gpu.Opt[uint32], capacity gpu.Opt[uint64]) {
	m := l.memories[instance]
	for _, x := range m.domain.Exited() {
		key := processKey{x.Key, instance}
		if e := l.processes.entries[key]; e != nil && e.seen > 0 {
			l.sampler.ends.add(finding.RunsOn(e.owner, l.info.Name, m.profile), e.owner.ContainerID, e.seen)
		}
		l.rememberEnd(&x, sample.T, capacity, instance)
		if x.NearCapacity {
			l.exits++
			m.died = append(m.died, key)
		}
	}
}

// endOf returns the end of a process that was missed at time t.
func (l *loop) endOf(key processKey, t time.Duration) finding.End {
	end := finding.End{Who: finding.Of(l.processes.lastOwner(key)), At: t}
	if e := l.processes.entries[key]; e != nil && e.seen > 0 {
		end.Began, end.At = e.first, e.seen // the next life may begin in the very frame that misses it
	}
	return end
}

// knows reports whether the detector can still name a process.
func (l *loop) knows(key processKey) bool {
	m := l.memories[key.instance]
	return m != nil && m.domain.Knows(key.id)
}

// workload names a group. A pod has no job: its members may be of several, and its series would change their names.
func (l *loop) workload(g *detector.GroupVerdict, instance gpu.Opt[uint32]) WorkloadState {
	w := WorkloadState{Instance: instance, Used: uint64(g.Used), Verdict: g.Verdict}
	if o := l.processes.ownerOf(g.Group); o.Pod == "" {
		w.SlurmJob = o.SlurmJob
	} else {
		w.Namespace, w.Pod = o.Namespace, o.Pod
	}
	return w
}

// find decides what alerts say of each memory of the GPU.
func (l *loop) find(state *DeviceState) {
	for _, d := range state.Domains() {
		if d.Judgement.T == 0 {
			continue // nothing is known of it this time
		}
		m, s := l.memoryOn(&d), d.Sample()
		for _, key := range m.died {
			s.Ends = append(s.Ends, l.endOf(key, d.Judgement.T))
		}
		l.tellDeaths(&d, m.died)
		s.FillsWithin = l.sampler.cfg.Detector.FillsWithin
		for _, f := range m.finding.Judge(s) {
			if d.Limited != nil {
				f.Zombie = detector.Value{} // it is told of the GPU
			}
			state.Findings = append(state.Findings, FindingState{Instance: d.Instance, Limit: d.limit(), Finding: f})
		}
		m.died = nil
	}
	firstEnd(state, l.published.Load())
}
