// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// power returns draw, limits and energy. NVML counts in mW and mJ.
func (r *reading) power() gpu.Power {
	const milli = 1000
	var p gpu.Power
	p.Watts = number32(get(r, "nvmlDeviceGetPowerUsage", r.handle.GetPowerUsage), 1, milli)
	enforced := get(r, "nvmlDeviceGetEnforcedPowerLimit", r.handle.GetEnforcedPowerLimit)
	management := get(r, "nvmlDeviceGetPowerManagementLimit", r.handle.GetPowerManagementLimit)
	usual := get(r, "nvmlDeviceGetPowerManagementDefaultLimit", r.handle.GetPowerManagementDefaultLimit)
	bounds := get(r, "nvmlDeviceGetPowerManagementLimitConstraints", func() ([2]uint32, nvml.Return) {
		low, high, ret := r.handle.GetPowerManagementLimitConstraints()
		return [2]uint32{low, high}, ret
	})
	appendNamed(&p.Limits, "enforced", number32(enforced, 1, milli))
	appendNamed(&p.Limits, "management", number32(management, 1, milli))
	appendNamed(&p.Limits, "default", number32(usual, 1, milli))
	appendNamed(&p.Limits, "min", number32(gpu.Opt[uint32]{V: bounds.V[0], OK: bounds.OK}, 1, milli))
	appendNamed(&p.Limits, "max", number32(gpu.Opt[uint32]{V: bounds.V[1], OK: bounds.OK}, 1, milli))
	energy := count(get(r, "nvmlDeviceGetTotalEnergyConsumption", r.handle.GetTotalEnergyConsumption))
	if energy.OK {
		p.Joules = gpu.Some(float64(energy.V) / milli)
	}
	state := get(r, "nvmlDeviceGetPerformanceState", r.handle.GetPerformanceState)
	if state.OK && state.V <= nvml.PSTATE_15 { // 32: unknown
		p.PerformanceState = gpu.Some(int(state.V))
	}
	return p
}
