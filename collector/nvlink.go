// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strconv"

	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

var nvlinkFamily = family{name: "nvlink", enabled: false, metrics: []metric{
	gauges("gpu_nvlink_up",
		"Whether (1 or 0) this NVLink is up.",
		[]string{"link"},
		func(d *sampler.DeviceState, e *emitter) {
			for i := range d.Status.NVLinks {
				e.maybe(truth(d.Status.NVLinks[i].Up), linkOf(d, i))
			}
		}),
	counters("gpu_nvlink_errors_total",
		"Errors of this NVLink by type: replay, recovery, crc_flit, crc_data.",
		[]string{"link", "type"},
		func(d *sampler.DeviceState, e *emitter) {
			for i := range d.Status.NVLinks {
				for _, errs := range d.Status.NVLinks[i].Errors {
					e.emit(float64(errs.V), linkOf(d, i), errs.Name)
				}
			}
		}),
	counters("gpu_nvlink_bytes_total",
		"Bytes that the GPU has received or transmitted over this NVLink.",
		[]string{"link", "direction"},
		func(d *sampler.DeviceState, e *emitter) {
			for i := range d.Status.NVLinks {
				e.maybe(number(d.Status.NVLinks[i].ReceivedBytes), linkOf(d, i), "receive")
				e.maybe(number(d.Status.NVLinks[i].TransmittedBytes), linkOf(d, i), "transmit")
			}
		}),
}}

func linkOf(d *sampler.DeviceState, i int) string { return strconv.Itoa(d.Status.NVLinks[i].Link) }
