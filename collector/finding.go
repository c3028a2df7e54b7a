// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// FindingState is what alerts say of a memory with the same culprit.
type FindingState struct {
	Instance gpu.Opt[uint32]
	finding.Finding
}

func (f *FindingState) scope() string {
	switch {
	case f.Whole:
		return "workload"
	case f.Instance.OK:
		return "mig"
	}
	return "gpu"
}

const findingHelp = " The other labels are those of the culprit, empty where it is not known."

// findingMetrics are the series for alerts. There is nothing of a memory that there is nothing to say of.
var findingMetrics = []metric{
	gauges("gpu_predicted_oom_seconds", "Seconds until the memory is full, and what foretells it: leak or filling. There once a page has lasted for 3 minutes, or a leak that is none for 30."+findingHelp,
		[]string{"evidence"}, func(f *FindingState, e *emitter) { e.maybe(value(f.OOM), f.Evidence.String()) }),
	gauge("gpu_leaking_bytes_per_second", "Growth of the memory that is never given back, in bytes per second, once that has lasted for 30 minutes. scope is workload where a pod or job leaks as a whole, and none of its processes does. Absent where nothing leaks."+findingHelp,
		func(f *FindingState) optional { return value(f.Leaking) }),
	gauges("gpu_memory_held_bytes", "Memory in bytes that has been held by nobody for 15 minutes: zombie (its processes live, and never use it again) or unreleased (it stayed after they ended)."+findingHelp,
		[]string{"state"}, func(f *FindingState, e *emitter) {
			e.maybe(value(f.Zombie), "zombie")
			e.maybe(value(f.Unreleased), "unreleased")
		}),
	gauges("gpu_memory_state", "1 while the memory is nearly_full (95 % in use for 10 minutes, without a forecast, and not held on purpose), or in a crash_loop (processes ended three times in an hour while it was full)."+findingHelp,
		[]string{"state"}, func(f *FindingState, e *emitter) {
			if f.NearlyFull {
				e.emit(1, "nearly_full")
			}
			if f.CrashLoop {
				e.emit(1, "crash_loop")
			}
		}),
}

// find decides what alerts say of each memory of the GPU.
func (l *loop) find(state *DeviceState) {
	if len(state.Instances) == 0 {
		l.findOf(gpu.Opt[instanceKey]{}, state, &finding.Sample{Memory: state.Memory, Judgement: &state.Judgement, Owner: finding.Of(state.Owner)})
	}
	for i := range state.Instances {
		in := &state.Instances[i]
		l.findOf(gpu.Some(instanceKey{in.ID, in.Profile}), state, &finding.Sample{Memory: in.Memory, Judgement: &in.Judgement, Owner: finding.Of(in.Owner)})
	}
	clear(l.deaths)
}

func (l *loop) findOf(key gpu.Opt[instanceKey], state *DeviceState, s *finding.Sample) {
	if s.Judgement.T == 0 {
		return // nothing is known of it this time
	}
	instance := idOf(key)
	for i := range state.Processes {
		if p := &state.Processes[i]; p.Instance == instance {
			s.Processes = append(s.Processes, finding.Part{Who: finding.Of(p.Owner), Used: p.Used.V, Verdict: &p.Verdict})
		}
	}
	for i := range state.Workloads {
		if w := &state.Workloads[i]; w.Instance == instance {
			s.Workloads = append(s.Workloads, finding.Part{Who: finding.Who{Namespace: w.Namespace, Pod: w.Pod, SlurmJob: w.SlurmJob, Whole: true}, Verdict: &w.Verdict})
		}
	}
	for i := range state.Unreleased {
		if u := &state.Unreleased[i]; u.Instance == instance {
			s.Unreleased = append(s.Unreleased, finding.Part{Who: finding.Of(u.Owner), Used: u.Used})
		}
	}
	s.Ends, s.FillsWithin = l.deaths[instance], l.sampler.cfg.Detector.FillsWithin
	m := l.findings[key]
	for _, f := range m.Judge(s) {
		state.Findings = append(state.Findings, FindingState{instance, f})
	}
	l.findings[key] = m
}

// died notes that a process ended while the memory was full.
func (l *loop) died(id gpu.ProcessID, instance gpu.Opt[uint32], at time.Duration) {
	key := processKey{id, instance}
	end := finding.End{Who: finding.Of(l.processes.lastOwner(key)), At: at}
	if e := l.processes.ended[key]; e != nil {
		end.Began, end.At = e.first, e.seen // the next one may be in the very frame that misses it
	}
	l.deaths[instance] = append(l.deaths[instance], end)
}
