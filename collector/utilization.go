// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import "github.com/gpuleak/gpu_leak_exporter/collector/sampler"

var utilizationFamily = family{name: "utilization", enabled: true, metrics: []metric{
	gauge("gpu_utilization_ratio",
		"Share (0 to 1) of the driver's last sampling period in which a kernel ran on the GPU. Absent in MIG mode.",
		func(d *sampler.DeviceState) optional { return number(d.Status.Utilization.GPU) }),
	gauge("gpu_memory_controller_utilization_ratio",
		"Share (0 to 1) of the driver's last sampling period in which GPU memory was read or written. Absent in MIG mode.",
		func(d *sampler.DeviceState) optional { return number(d.Status.Utilization.MemoryController) }),
	gauge("gpu_encoder_utilization_ratio",
		"Share (0 to 1) of the driver's last sampling period in which the video encoder was busy. Absent in MIG mode.",
		func(d *sampler.DeviceState) optional { return number(d.Status.Utilization.Encoder) }),
	gauge("gpu_decoder_utilization_ratio",
		"Share (0 to 1) of the driver's last sampling period in which the video decoder was busy. Absent in MIG mode.",
		func(d *sampler.DeviceState) optional { return number(d.Status.Utilization.Decoder) }),
	gauge("gpu_jpeg_utilization_ratio",
		"Share (0 to 1) of the driver's last sampling period in which the JPEG decoder was busy. Absent in MIG mode.",
		func(d *sampler.DeviceState) optional { return number(d.Status.Utilization.JPEG) }),
	gauge("gpu_ofa_utilization_ratio",
		"Share (0 to 1) of the driver's last sampling period in which the optical flow accelerator was busy. Absent in MIG mode.",
		func(d *sampler.DeviceState) optional { return number(d.Status.Utilization.OFA) }),
}}
