// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

var clockDomains = [...]struct {
	name string
	id   nvml.ClockType
}{
	{"graphics", nvml.CLOCK_GRAPHICS},
	{"sm", nvml.CLOCK_SM},
	{"memory", nvml.CLOCK_MEM},
	{"video", nvml.CLOCK_VIDEO},
}

// highestClocks keeps the highest clock of each domain, in MHz, for one initialisation of the library. It is a
// property of the hardware, and to ask an H200 for the four takes five milliseconds.
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
