// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

const findingHelp = " The other labels are those of the culprit, empty where it is not known."

// findingMetrics are the series for alerts. There is nothing of a memory that there is nothing to say of.
var findingMetrics = []metric{
	gauges("gpu_predicted_oom_seconds", "Seconds until the memory is full, and what foretells it: leak or filling. There once a page has lasted for 3 minutes, or a leak that is none for 30."+findingHelp,
		[]string{"evidence"}, func(f *sampler.FindingState, e *emitter) {
			if f.OOMDue {
				e.maybe(value(f.OOM), f.Evidence.String())
			}
		}),
	gauge("gpu_leaking_bytes_per_second", "Growth of the memory that is never given back, in bytes per second, once that has lasted for 30 minutes. scope is workload where a pod or job leaks as a whole, and none of its processes does. Absent where nothing leaks."+findingHelp,
		func(f *sampler.FindingState) optional {
			if !f.LeakDue {
				return optional{}
			}
			return value(f.Leaking)
		}),
	gauges("gpu_memory_held_bytes", "Memory in bytes that has been held by nobody for 15 minutes: zombie (its processes live, and never use it again) or unreleased (it stayed after they ended)."+findingHelp,
		[]string{"state"}, func(f *sampler.FindingState, e *emitter) {
			e.maybe(value(f.Zombie), "zombie")
			e.maybe(value(f.Unreleased), "unreleased")
		}),
	gauges("gpu_memory_state", "1 while the memory is nearly_full (95 % in use for 10 minutes, without a forecast, and not held on purpose), or in a crash_loop (processes ended three times in an hour while it was full)."+findingHelp,
		[]string{"state"}, func(f *sampler.FindingState, e *emitter) {
			if f.NearlyFull {
				e.emit(1, "nearly_full")
			}
			if f.CrashLoop {
				e.emit(1, "crash_loop")
			}
		}),
}
