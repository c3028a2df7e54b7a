// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import "github.com/gpuleak/gpu_leak_exporter/collector/sampler"

// incidentMetrics count what has ended: the exporter's own record of what it foretold.
var incidentMetrics = []metric{
	counters("gpu_incidents_total",
		"Incidents since the exporter started: oom (a process ended while the memory was full), limit (the same at the limit of its container), "+
			"allocator (a probe saw an out-of-memory), gpu_lost, xid (an XID error that ends programs).",
		[]string{"kind"},
		func(s *sampler.State, e *emitter) {
			for c, n := range s.Incidents.Counts {
				if c.By == "" {
					e.emit(float64(n), string(c.Kind))
				}
			}
		}),
	counters("gpu_incidents_foreseen_total",
		"Incidents of the kinds that growth can foretell, by the most urgent alert that was there before: page, ticket or nothing.",
		[]string{"kind", "by"},
		func(s *sampler.State, e *emitter) {
			for c, n := range s.Incidents.Counts {
				if c.By != "" {
					e.emit(float64(n), string(c.Kind), c.By)
				}
			}
		}),
}
