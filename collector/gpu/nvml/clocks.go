// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// clocks returns the clock domains that the GPU has. NVML counts in MHz.
func (r *reading) clocks() []gpu.Clock {
	domains := [...]struct {
		name string
		id   nvml.ClockType
	}{
		{"graphics", nvml.CLOCK_GRAPHICS},
		{"sm", nvml.CLOCK_SM},
		{"memory", nvml.CLOCK_MEM},
		{"video", nvml.CLOCK_VIDEO},
	}
	const mega = 1e6
	var clocks []gpu.Clock
	for _, d := range domains {
		current := get(r, "nvmlDeviceGetClockInfo", func() (uint32, nvml.Return) {
			return r.handle.GetClockInfo(d.id)
		}, nvml.ERROR_INVALID_ARGUMENT)
		highest := get(r, "nvmlDeviceGetMaxClockInfo", func() (uint32, nvml.Return) {
			return r.handle.GetMaxClockInfo(d.id)
		}, nvml.ERROR_INVALID_ARGUMENT)
		c := gpu.Clock{Name: d.name, Current: number32(current, mega, 1), Max: number32(highest, mega, 1)}
		if c.Current.OK || c.Max.OK {
			clocks = append(clocks, c)
		}
	}
	return clocks
}
