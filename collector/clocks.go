// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import "github.com/gpuleak/gpu_leak_exporter/collector/sampler"

var clocksFamily = family{name: "clocks", enabled: true, metrics: []metric{
	gauges("gpu_clock_hertz",
		"Clock frequency now in hertz, by clock: graphics, sm, memory, video.",
		[]string{"clock"},
		func(d *sampler.DeviceState, e *emitter) {
			for i := range d.Status.Clocks {
				e.maybe(d.Status.Clocks[i].Current, d.Status.Clocks[i].Name)
			}
		}),
	gauges("gpu_clock_max_hertz",
		"Highest clock frequency that the GPU allows in hertz, by clock: graphics, sm, memory, video.",
		[]string{"clock"},
		func(d *sampler.DeviceState, e *emitter) {
			for i := range d.Status.Clocks {
				e.maybe(d.Status.Clocks[i].Max, d.Status.Clocks[i].Name)
			}
		}),
}}
