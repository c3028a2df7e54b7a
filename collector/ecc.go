// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import "github.com/gpuleak/gpu_leak_exporter/collector/sampler"

var eccFamily = family{name: "ecc", enabled: true, metrics: []metric{
	gauge("gpu_ecc_enabled",
		"Whether (1 or 0) the GPU's memory is protected by an error-correcting code now.",
		func(d *sampler.DeviceState) optional { return truth(d.Status.ECC.Enabled) }),
	counters("gpu_ecc_errors_total",
		"Memory errors, corrected or uncorrected, by location. volatile counts since the driver was loaded, aggregate over the GPU's life. "+
			"location is total or a part of the GPU, so do not sum over it.",
		[]string{"type", "counter", "location"},
		func(d *sampler.DeviceState, e *emitter) {
			for _, errs := range d.Status.ECC.Errors {
				e.emit(float64(errs.Count), errs.Type, errs.Counter, errs.Location)
			}
		}),
	counters("gpu_remapped_rows_total",
		"Rows of memory that were replaced by spare ones because of corrected or uncorrected errors, over the GPU's life.",
		[]string{"type"},
		func(d *sampler.DeviceState, e *emitter) { named(e, d.Status.ECC.RemappedRows) }),
	gauge("gpu_row_remap_pending",
		"Whether (1 or 0) the GPU must be reset for a remapped row to take effect.",
		func(d *sampler.DeviceState) optional { return truth(d.Status.ECC.RemapPending) }),
	gauge("gpu_row_remap_failed",
		"Whether (1 or 0) a row could not be remapped for want of a spare one. The GPU should be replaced.",
		func(d *sampler.DeviceState) optional { return truth(d.Status.ECC.RemapFailed) }),
	gauges("gpu_retired_pages",
		"Pages of memory that are no longer used because of single_bit or double_bit errors, over the GPU's life (before Ampere).",
		[]string{"cause"},
		func(d *sampler.DeviceState, e *emitter) { named(e, d.Status.ECC.RetiredPages) }),
	gauge("gpu_retired_pages_pending",
		"Whether (1 or 0) pages are retired only after the next restart of the driver.",
		func(d *sampler.DeviceState) optional { return truth(d.Status.ECC.RetiredPagesPending) }),
	gauge("gpu_recovery_action",
		"What the driver asks for to recover the GPU: 0 nothing, 1 reset the GPU, 2 reboot the machine, 3 drain peer-to-peer traffic, 4 drain and reset, 5 recover the IMEX domain, 6 reset the PCIe bus, 7 reboot the machine.",
		func(d *sampler.DeviceState) optional { return number(d.Status.ECC.RecoveryAction) }),
}}
