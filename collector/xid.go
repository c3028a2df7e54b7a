// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strconv"

	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

var xidFamily = family{name: "xid", enabled: true, metrics: []metric{
	counters("gpu_xid_errors_total",
		"XID errors of the GPU since the exporter started, by code of NVIDIA's XID catalogue. The severe ones are there with 0 while the GPU's events are watched.",
		[]string{"xid"},
		func(d *sampler.DeviceState, e *emitter) {
			for i := range d.XIDs {
				e.emit(float64(d.XIDs[i].Count), strconv.FormatUint(d.XIDs[i].Code, 10))
			}
		}).evenDown(),
	gauges("gpu_xid_last_timestamp_seconds",
		"When this XID error was last reported, in seconds since the Unix epoch. Absent if it never was.",
		[]string{"xid"},
		func(d *sampler.DeviceState, e *emitter) {
			for i := range d.XIDs {
				e.maybe(timestamp(d.XIDs[i].Last), strconv.FormatUint(d.XIDs[i].Code, 10))
			}
		}).evenDown(),
}}
