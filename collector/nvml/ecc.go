// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// eccTypes, eccCounters and eccLocations name the counters of errors.
var (
	eccTypes = [...]named[nvml.MemoryErrorType]{
		{"corrected", nvml.MEMORY_ERROR_TYPE_CORRECTED},
		{"uncorrected", nvml.MEMORY_ERROR_TYPE_UNCORRECTED},
	}
	eccCounters = [...]named[nvml.EccCounterType]{
		{"volatile", nvml.VOLATILE_ECC},
		{"aggregate", nvml.AGGREGATE_ECC},
	}
	eccLocations = [...]named[nvml.MemoryLocation]{
		{"l1_cache", nvml.MEMORY_LOCATION_L1_CACHE},
		{"l2_cache", nvml.MEMORY_LOCATION_L2_CACHE},
		{"dram", nvml.MEMORY_LOCATION_DRAM},
		{"register_file", nvml.MEMORY_LOCATION_REGISTER_FILE},
		{"texture_memory", nvml.MEMORY_LOCATION_TEXTURE_MEMORY},
		{"texture_shm", nvml.MEMORY_LOCATION_TEXTURE_SHM},
		{"cbu", nvml.MEMORY_LOCATION_CBU},
		{"sram", nvml.MEMORY_LOCATION_SRAM},
	}
)

// ecc returns memory errors and what became of them.
func (r *reading) ecc() gpu.ECC {
	var e gpu.ECC
	e.Enabled = get(r, "nvmlDeviceGetEccMode", func() (bool, nvml.Return) {
		current, _, ret := r.handle.GetEccMode()
		return current == nvml.FEATURE_ENABLED, ret
	})
	if e.Enabled.V { // nvml.h has no counters without it
		e.Errors = r.eccErrors()
	}
	r.remappedRows(&e)
	r.retiredPages(&e)
	return e
}

func (r *reading) eccErrors() []gpu.ECCErrors {
	var errors []gpu.ECCErrors
	add := func(kind, counter, location string, n gpu.Opt[uint64]) {
		if n = count(n); n.OK {
			errors = append(errors, gpu.ECCErrors{Type: kind, Counter: counter, Location: location, Count: n.V})
		}
	}
	for _, t := range eccTypes {
		for _, c := range eccCounters {
			add(t.name, c.name, "total", get(r, "nvmlDeviceGetTotalEccErrors", func() (uint64, nvml.Return) {
				return r.handle.GetTotalEccErrors(t.id, c.id)
			}, nvml.ERROR_INVALID_ARGUMENT))
			for _, l := range eccLocations {
				add(t.name, c.name, l.name, get(r, "nvmlDeviceGetMemoryErrorCounter", func() (uint64, nvml.Return) {
					return r.handle.GetMemoryErrorCounter(t.id, c.id, l.id)
				}, nvml.ERROR_INVALID_ARGUMENT))
			}
		}
	}
	return errors
}

// remappedRows adds the rows of memory that were replaced by spare ones, since Ampere and not under MIG.
func (r *reading) remappedRows(e *gpu.ECC) {
	var corrected, uncorrected int
	var pending, failed bool
	err := r.call("nvmlDeviceGetRemappedRows", func() (ret nvml.Return) {
		corrected, uncorrected, pending, failed, ret = r.handle.GetRemappedRows()
		return ret
	})
	if err != nil {
		return
	}
	appendNamed(&e.RemappedRows, "corrected", count32(corrected))
	appendNamed(&e.RemappedRows, "uncorrected", count32(uncorrected))
	e.RemapPending, e.RemapFailed = gpu.Some(pending), gpu.Some(failed)
}

// retiredPages adds the pages of memory that are not used any more, before Ampere, and the action that the driver wants.
func (r *reading) retiredPages(e *gpu.ECC) {
	appendNamed(&e.RetiredPages, "single_bit", r.retired(nvml.PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS))
	appendNamed(&e.RetiredPages, "double_bit", r.retired(nvml.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR))
	e.RetiredPagesPending = get(r, "nvmlDeviceGetRetiredPagesPendingStatus", func() (bool, nvml.Return) {
		pending, ret := r.handle.GetRetiredPagesPendingStatus()
		return pending == nvml.FEATURE_ENABLED, ret
	})
	action := r.fields(fieldID{nvml.FI_DEV_GET_GPU_RECOVERY_ACTION})[0].count()
	e.RecoveryAction = gpu.Some(int(action.V)).If(action.OK)
}
