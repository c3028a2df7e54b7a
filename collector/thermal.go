// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strconv"

	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

var thermalFamily = family{name: "thermal", enabled: true, metrics: []metric{
	gauges("gpu_temperature_celsius",
		"Temperature in degrees Celsius by sensor: gpu (the die) or memory.",
		[]string{"sensor"},
		func(d *sampler.DeviceState, e *emitter) { named(e, d.Status.Thermal.Temperatures) }),
	gauges("gpu_temperature_threshold_celsius",
		"Temperature in degrees Celsius at which the driver acts: shutdown, slowdown, memory_max, gpu_max, acoustic_*. "+
			"Absent on GPUs that tell margins instead (Ada and later).",
		[]string{"threshold"},
		func(d *sampler.DeviceState, e *emitter) { named(e, d.Status.Thermal.Thresholds) }),
	gauge("gpu_temperature_margin_celsius",
		"Degrees Celsius between the GPU and its slowdown temperature. The GPU slows down at 0.",
		func(d *sampler.DeviceState) optional { return number(d.Status.Thermal.Margin) }),
	gauges("gpu_temperature_margin_threshold_celsius",
		"Value of gpu_temperature_margin_celsius in degrees Celsius at which the driver acts: shutdown, slowdown, memory_max, gpu_max.",
		[]string{"threshold"},
		func(d *sampler.DeviceState, e *emitter) { named(e, d.Status.Thermal.MarginThresholds) }),
	gauges("gpu_fan_speed_ratio",
		"Intended speed of the fan as a ratio of its maximum; it can be over 1. It does not tell whether the fan turns.",
		[]string{"fan"},
		func(d *sampler.DeviceState, e *emitter) {
			for i, fan := range d.Status.Thermal.Fans {
				e.maybe(fan, strconv.Itoa(i))
			}
		}),
	gauges("gpu_clock_event_active",
		"Whether (1 or 0) this reason holds the clocks below their maximum now. "+
			"gpu_idle is one of them and harmless; *_thermal_slowdown, hw_slowdown and hw_power_brake_slowdown are not.",
		[]string{"reason"},
		func(d *sampler.DeviceState, e *emitter) {
			for _, event := range d.Status.Thermal.ClockEvents {
				e.maybe(truth(event.Active), event.Reason)
			}
		}),
	counters("gpu_clock_event_seconds_total",
		"Seconds since the driver was loaded for which this reason has held the clocks below their maximum.",
		[]string{"reason"},
		func(d *sampler.DeviceState, e *emitter) {
			for _, event := range d.Status.Thermal.ClockEvents {
				e.maybe(event.Seconds, event.Reason)
			}
		}),
}}
