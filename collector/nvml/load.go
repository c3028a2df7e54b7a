// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

var clockDomains = [...]named[nvml.ClockType]{
	{"graphics", nvml.CLOCK_GRAPHICS},
	{"sm", nvml.CLOCK_SM},
	{"memory", nvml.CLOCK_MEM},
	{"video", nvml.CLOCK_VIDEO},
}

// highestClocks keeps the highest clock of each domain, in MHz, for one generation: it is a property of the hardware, and an
// H200 takes five milliseconds to tell the four.
type highestClocks struct {
	generation uint64
	mhz        [len(clockDomains)]gpu.Opt[uint32]
}

// clocks returns the clock domains that the GPU has. NVML counts in MHz.
func (r *reading) clocks() []gpu.Clock {
	const mega = 1e6
	kept := &r.device.highest
	if kept.generation != r.handle.generation {
		*kept = highestClocks{generation: r.handle.generation}
	}
	var clocks []gpu.Clock
	for i, d := range clockDomains {
		current := get(r, "nvmlDeviceGetClockInfo", func() (uint32, nvml.Return) {
			return r.handle.GetClockInfo(d.id)
		}, nvml.ERROR_INVALID_ARGUMENT)
		if !kept.mhz[i].OK {
			kept.mhz[i] = get(r, "nvmlDeviceGetMaxClockInfo", func() (uint32, nvml.Return) {
				return r.handle.GetMaxClockInfo(d.id)
			}, nvml.ERROR_INVALID_ARGUMENT)
		}
		c := gpu.Clock{Name: d.name, Current: number32(current, mega, 1), Max: number32(kept.mhz[i], mega, 1)}
		if c.Current.OK || c.Max.OK {
			clocks = append(clocks, c)
		}
	}
	return clocks
}

// power returns draw, limits and energy. NVML counts in mW and mJ.
func (r *reading) power() gpu.Power {
	const milli = 1000
	var p gpu.Power
	limit := func(name string, mW gpu.Opt[uint32]) { appendNamed(&p.Limits, name, number32(mW, 1, milli)) }
	p.Watts = number32(get(r, "nvmlDeviceGetPowerUsage", r.handle.GetPowerUsage), 1, milli)
	limit("enforced", get(r, "nvmlDeviceGetEnforcedPowerLimit", r.handle.GetEnforcedPowerLimit))
	limit("management", get(r, "nvmlDeviceGetPowerManagementLimit", r.handle.GetPowerManagementLimit))
	limit("default", get(r, "nvmlDeviceGetPowerManagementDefaultLimit", r.handle.GetPowerManagementDefaultLimit))
	bounds := get(r, "nvmlDeviceGetPowerManagementLimitConstraints", func() ([2]uint32, nvml.Return) {
		low, high, ret := r.handle.GetPowerManagementLimitConstraints()
		return [2]uint32{low, high}, ret
	})
	limit("min", gpu.Some(bounds.V[0]).If(bounds.OK))
	limit("max", gpu.Some(bounds.V[1]).If(bounds.OK))
	energy := count(get(r, "nvmlDeviceGetTotalEnergyConsumption", r.handle.GetTotalEnergyConsumption))
	p.Joules = gpu.Some(float64(energy.V) / milli).If(energy.OK)
	state := get(r, "nvmlDeviceGetPerformanceState", r.handle.GetPerformanceState)
	p.PerformanceState = gpu.Some(int(state.V)).If(state.OK && state.V <= nvml.PSTATE_15) // 32: unknown
	return p
}

// utilization returns how busy the engines of the GPU are.
func (r *reading) utilization() gpu.Utilization {
	var u gpu.Utilization
	v := get(r, "nvmlDeviceGetUtilizationRates", r.handle.GetUtilizationRates)
	u.GPU, u.MemoryController = percent(gpu.Some(v.V.Gpu).If(v.OK)), percent(gpu.Some(v.V.Memory).If(v.OK))
	u.Encoder = r.engine("nvmlDeviceGetEncoderUtilization", r.handle.GetEncoderUtilization)
	u.Decoder = r.engine("nvmlDeviceGetDecoderUtilization", r.handle.GetDecoderUtilization)
	u.JPEG = r.engine("nvmlDeviceGetJpgUtilization", r.handle.GetJpgUtilization)
	u.OFA = r.engine("nvmlDeviceGetOfaUtilization", r.handle.GetOfaUtilization)
	return u
}

// engine asks for the utilisation of one engine, without its sampling period.
func (r *reading) engine(name string, f func() (uint32, uint32, nvml.Return)) gpu.Opt[float64] {
	return percent(get(r, name, func() (uint32, nvml.Return) {
		v, _, ret := f()
		return v, ret
	}))
}
