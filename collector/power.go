// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import "github.com/gpuleak/gpu_leak_exporter/collector/sampler"

var powerFamily = family{name: "power", enabled: true, metrics: []metric{
	gauge("gpu_power_watts",
		"Power that the GPU and its circuits draw, in watts.",
		func(d *sampler.DeviceState) optional { return number(d.Status.Power.Watts) }),
	gauges("gpu_power_limit_watts",
		"Power limit in watts: enforced (what holds now), management (what was set), default, min and max (what can be set).",
		[]string{"limit"},
		func(d *sampler.DeviceState, e *emitter) { named(e, d.Status.Power.Limits) }),
	counter("gpu_energy_joules_total",
		"Energy in joules that the GPU has used since the driver was loaded.",
		func(d *sampler.DeviceState) optional { return number(d.Status.Power.Joules) }),
	gauge("gpu_performance_state",
		"Performance state (P-state) of the GPU, from 0 (fastest) to 15 (slowest).",
		func(d *sampler.DeviceState) optional { return number(d.Status.Power.PerformanceState) }),
}}
