// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"slices"

	"github.com/go-kit/log/level"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

type domain = detector.Domain[gpu.ProcessID]

// instanceKey names a GPU instance for as long as the layout stays.
type instanceKey struct {
	id      uint32
	profile string
}

// learn has the detector see a sample of which nobody will see the verdict, because a later one is there. The curves
// have it, too.
func (l *loop) learn(sample *gpu.Sample) {
	l.reconfigure()
	if sample.Memory.Used.OK {
		l.peak.Add(sample.T, peakSpan, sample.Memory.Used.V)
	}
	l.repartition(sample)
	frame, _ := l.frames.Device(l.info, sample)
	l.observe(l.domain, frame)
	l.curves.add(gpu.Opt[instanceKey]{}, sample.T, sample.Memory.Used, &detector.Verdict{})
	for i := range sample.Instances {
		in := &sample.Instances[i]
		key := instanceKey{in.ID, in.Profile}
		frame, _ := l.frames.Instance(l.info, sample, in)
		l.observe(l.instances[key], frame)
		l.curves.add(gpu.Some(key), sample.T, in.Memory.Used, &detector.Verdict{})
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
	if l.observe(l.domain, frame) {
		state.Judgement = l.take(l.domain.Judgement(), sample, index, state, gpu.Opt[uint32]{}, sample.Memory.Capacity())
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
		if d := l.instances[instanceKey{in.ID, in.Profile}]; l.observe(d, frame) {
			is.Judgement = l.take(d.Judgement(), sample, index, state, gpu.Some(in.ID), in.Memory.Capacity())
		}
		state.Instances = append(state.Instances, is)
	}
}

// repartition follows the MIG layout. A new one leaves nothing of the old
// histories valid, be it that it was made while no exporter ran.
func (l *loop) repartition(sample *gpu.Sample) {
	known := l.laidOut
	l.laidOut = true
	same := len(sample.Instances) == len(l.instances)
	for i := range sample.Instances {
		in := &sample.Instances[i]
		same = same && l.instances[instanceKey{in.ID, in.Profile}] != nil
	}
	if same {
		return
	}
	if known {
		l.domain.Reset(detector.ReasonRepartition)
		level.Info(l.logger).Log("msg", "MIG layout changed", "instances", len(sample.Instances))
	}
	clear(l.instances)
	clear(l.findings)
	for i := range sample.Instances {
		in := &sample.Instances[i]
		key := instanceKey{in.ID, in.Profile}
		l.instances[key] = l.tuning.newDomain(gpu.Some(key))
	}
}

// observe adds a frame to a domain, if that can be; a clock that went back starts it anew.
func (l *loop) observe(d *domain, frame *detector.Frame[gpu.ProcessID]) bool {
	err := d.Observe(frame)
	if err == nil {
		return true
	}
	level.Warn(l.logger).Log("msg", "the clock of the source went back; judging starts anew", "err", err)
	d.Reset(detector.ReasonClockStep)
	clear(l.findings)
	return d.Observe(frame) == nil
}

// take copies a judgement, which belongs to the domain, into the state.
func (l *loop) take(j *detector.Judgement[gpu.ProcessID], sample *gpu.Sample, index []int, state *DeviceState, instance gpu.Opt[uint32], capacity gpu.Opt[uint64]) detector.Judgement[gpu.ProcessID] {
	for i := range j.Members {
		l.processes.judged(sample, index[i], &j.Members[i])
	}
	for i := range j.Exited {
		l.rememberEnd(&j.Exited[i], sample.T, capacity, instance)
		if j.Exited[i].NearCapacity {
			l.exits++
			l.died(j.Exited[i].Key, instance, sample.T)
			if last := l.published.Load(); last != nil {
				l.said.logEnd(l.logger, last.state, processKey{j.Exited[i].Key, instance}, sample.Time)
			}
		}
	}
	for i := range j.Groups {
		state.Workloads = append(state.Workloads, workloadState(&j.Groups[i], sample, index, instance))
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
	if !key.instance.OK {
		return l.domain.Knows(key.id)
	}
	for in, d := range l.instances {
		if in.id == key.instance.V {
			return d.Knows(key.id)
		}
	}
	return false
}

// workloadState names a group by the owner of one of its members. Members of a pod
// may be of several jobs: a pod has no job, lest its series change their name.
func workloadState(g *detector.GroupVerdict, sample *gpu.Sample, index []int, instance gpu.Opt[uint32]) WorkloadState {
	w := WorkloadState{Instance: instance, Used: uint64(g.Used), Verdict: g.Verdict}
	for _, i := range index {
		if o := sample.Processes[i].Owner; o.Group() == g.Group {
			if o.Pod == "" {
				w.SlurmJob = o.SlurmJob
				break
			}
			w.Namespace, w.Pod = o.Namespace, o.Pod
			break
		}
	}
	return w
}

// profileOf returns the profile of an instance; "" where there is none.
func (l *loop) profileOf(instance gpu.Opt[uint32]) string {
	for key := range l.instances {
		if instance == gpu.Some(key.id) {
			return key.profile
		}
	}
	return ""
}
