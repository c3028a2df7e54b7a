// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// utilization returns how busy the engines of the GPU are.
func (r *reading) utilization() gpu.Utilization {
	var u gpu.Utilization
	if v := get(r, "nvmlDeviceGetUtilizationRates", r.handle.GetUtilizationRates); v.OK {
		u.GPU, u.MemoryController = percent(gpu.Some(v.V.Gpu)), percent(gpu.Some(v.V.Memory))
	}
	u.Encoder = r.engine("nvmlDeviceGetEncoderUtilization", r.handle.GetEncoderUtilization)
	u.Decoder = r.engine("nvmlDeviceGetDecoderUtilization", r.handle.GetDecoderUtilization)
	u.JPEG = r.engine("nvmlDeviceGetJpgUtilization", r.handle.GetJpgUtilization)
	u.OFA = r.engine("nvmlDeviceGetOfaUtilization", r.handle.GetOfaUtilization)
	return u
}

// engine asks for the utilisation of one engine; the driver also tells the
// sampling period.
func (r *reading) engine(name string, f func() (uint32, uint32, nvml.Return)) gpu.Opt[float64] {
	return percent(get(r, name, func() (uint32, nvml.Return) {
		v, _, ret := f()
		return v, ret
	}))
}
