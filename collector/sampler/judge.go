// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"slices"

	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

type domain = detector.Domain[gpu.ProcessID]

// memory is what is learnt of one memory: that of the GPU, or of a GPU instance for as long as the layout stays.
type memory struct {
	profile string // of the instance
	domain  *domain
	finding finding.Memory
	deaths  []finding.End // of this frame, while it was full
	history history
	curve   *Curve // of history, as it was made last
}

// wholeGPU is the instance of the GPU's own memory.
var wholeGPU gpu.Opt[uint32]

func (l *loop) newMemory(instance gpu.Opt[uint32], profile string) *memory {
	return &memory{profile: profile, domain: l.tuning.newDomain(instance, profile)}
}

// learn has the detector see a sample of which nobody will see the verdict, because a later one is there. The curves
// have it, too.
func (l *loop) learn(sample *gpu.Sample) {
	if len(sample.Processes) > 0 {
		l.processes.note(sample)
	}
	l.reconfigure()
	if sample.Memory.Used.OK {
		l.peak.Add(sample.T, peakSpan, sample.Memory.Used.V)
	}
	l.repartition(sample)
	observe := func(instance gpu.Opt[uint32], frame *detector.Frame[gpu.ProcessID], used gpu.Opt[uint64]) {
		m := l.memories[instance]
		l.observe(m, frame)
		m.history.add(sample.T, used, &detector.Verdict{})
	}
	frame, _ := l.frames.Device(l.info, sample)
	observe(wholeGPU, frame, sample.Memory.Used)
	for i := range sample.Instances {
		in := &sample.Instances[i]
		frame, _ := l.frames.Instance(l.info, sample, in)
		observe(gpu.Some(in.ID), frame, in.Memory.Used)
	}
}

// unattributed is the used memory that no process holds; absent where that cannot be known, as while an entry of the list is
// no process that can be looked up: then the list may be that of another namespace.
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
	// The lists are read a moment after the memory: a process that has grown in
	// between makes the difference negative, not huge.
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
		// The slices run out of memory, not the GPU: of the whole there are statistics and no verdict.
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
}

// repartition follows the MIG layout. A new one leaves nothing of the old
// histories valid, be it that it was made while no exporter ran.
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
	l.memories[wholeGPU] = whole
	for i := range sample.Instances {
		instance := gpu.Some(sample.Instances[i].ID)
		l.memories[instance] = l.newMemory(instance, sample.Instances[i].Profile)
	}
}

// observe adds a frame to a memory, if that can be; a clock that went back starts it anew.
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

// take copies the judgement on a memory, which belongs to its domain, into the state.
func (l *loop) take(sample *gpu.Sample, index []int, state *DeviceState, instance gpu.Opt[uint32], capacity gpu.Opt[uint64]) detector.Judgement[gpu.ProcessID] {
	j := l.memories[instance].domain.Judgement()
	for i := range j.Members {
		l.processes.judged(sample, index[i], &j.Members[i])
	}
	for i := range j.Exited {
		l.rememberEnd(&j.Exited[i], sample.T, capacity, instance)
		if j.Exited[i].NearCapacity {
			l.exits++
			l.died(j.Exited[i].Key, instance, sample.T)
			if last := l.published.Load(); last != nil {
				logEnd(l.logger, last, processKey{j.Exited[i].Key, instance}, sample.Time)
			}
		}
	}
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
	own := *j
	own.Members, own.Groups, own.Exited, own.Unreleased = nil, nil, nil, nil
	return own
}

// knows reports whether the detector can still name a process.
func (l *loop) knows(key processKey) bool {
	m := l.memories[key.instance]
	return m != nil && m.domain.Knows(key.id)
}

// workload names a group. Members of a pod may be of several jobs: a pod has no job, lest its series change their name.
func (l *loop) workload(g *detector.GroupVerdict, instance gpu.Opt[uint32]) WorkloadState {
	w := WorkloadState{Instance: instance, Used: uint64(g.Used), Verdict: g.Verdict}
	if o := l.processes.ownerOf(g.Group); o.Pod == "" {
		w.SlurmJob = o.SlurmJob
	} else {
		w.Namespace, w.Pod = o.Namespace, o.Pod
	}
	return w
}
