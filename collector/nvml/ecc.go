// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// eccTypes, eccCounters and eccLocations are what errors are counted by.
var (
	eccTypes = [...]struct {
		name string
		id   nvml.MemoryErrorType
	}{
		{"corrected", nvml.MEMORY_ERROR_TYPE_CORRECTED},
		{"uncorrected", nvml.MEMORY_ERROR_TYPE_UNCORRECTED},
	}
	eccCounters = [...]struct {
		name string
		id   nvml.EccCounterType
	}{
		{"volatile", nvml.VOLATILE_ECC},
		{"aggregate", nvml.AGGREGATE_ECC},
	}
	eccLocations = [...]struct {
		name string
		id   nvml.MemoryLocation
	}{
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

// remappedRows adds the rows of memory that were replaced by spare ones, since
// Ampere and not under MIG.
func (r *reading) remappedRows(e *gpu.ECC) {
	type rows struct {
		corrected, uncorrected int
		pending, failed        bool
	}
	v := get(r, "nvmlDeviceGetRemappedRows", func() (rows, nvml.Return) {
		c, u, pending, failed, ret := r.handle.GetRemappedRows()
		return rows{c, u, pending, failed}, ret
	})
	if !v.OK {
		return
	}
	appendNamed(&e.RemappedRows, "corrected", count32(v.V.corrected))
	appendNamed(&e.RemappedRows, "uncorrected", count32(v.V.uncorrected))
	e.RemapPending, e.RemapFailed = gpu.Some(v.V.pending), gpu.Some(v.V.failed)
}

// retiredPages adds the pages of memory that are not used any more, before Ampere,
// and what the driver wants to be done.
func (r *reading) retiredPages(e *gpu.ECC) {
	appendNamed(&e.RetiredPages, "single_bit", r.retired(nvml.PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS))
	appendNamed(&e.RetiredPages, "double_bit", r.retired(nvml.PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR))
	e.RetiredPagesPending = get(r, "nvmlDeviceGetRetiredPagesPendingStatus", func() (bool, nvml.Return) {
		pending, ret := r.handle.GetRetiredPagesPendingStatus()
		return pending == nvml.FEATURE_ENABLED, ret
	})
	if action := r.fields(fieldID{id: nvml.FI_DEV_GET_GPU_RECOVERY_ACTION})[0].count(); action.OK {
		e.RecoveryAction = gpu.Some(int(action.V))
	}
}
