// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strconv"

	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

var memoryFamily = family{name: "memory", enabled: true, metrics: []metric{
	gauge("gpu_memory_total_bytes",
		"Frame buffer of the GPU in bytes: used + free + reserved. Where gpu_info has memory=\"unified\": memory of the host.",
		func(d *sampler.DeviceState) optional { return number(d.Memory.Total) }),
	gauge("gpu_memory_used_bytes",
		"Frame buffer in use in bytes: total - free - reserved. Where the driver does not tell what it reserves, that is included. "+
			"Unified memory: what the host has not available, whichever program uses it.",
		func(d *sampler.DeviceState) optional { return number(d.Memory.Used) }),
	gauge("gpu_memory_free_bytes",
		"Frame buffer that can still be allocated, in bytes. Unified memory: what the host has available (MemAvailable).",
		func(d *sampler.DeviceState) optional { return number(d.Memory.Free) }),
	gauge("gpu_memory_reserved_bytes",
		"Frame buffer that the driver keeps for itself, in bytes. Absent where the driver does not tell.",
		func(d *sampler.DeviceState) optional { return number(d.Memory.Reserved) }),
	gauge("gpu_memory_used_peak_bytes",
		"Highest sample of gpu_memory_used_bytes in the last 60 seconds, in bytes: shows a spike between two scrapes.",
		func(d *sampler.DeviceState) optional { return number(d.UsedPeak) }),
	gauge("gpu_memory_unattributed_bytes",
		"Used memory that no process on the GPU accounts for, in bytes: gpu_memory_used_bytes - the memory of all processes. "+
			"Absent where not every process and its memory can be seen, and on coherent memory.",
		func(d *sampler.DeviceState) optional { return number(d.Unattributed) }),
	gauge("gpu_bar1_memory_total_bytes",
		"Size in bytes of BAR1, the window through which the host and peers reach the frame buffer.",
		func(d *sampler.DeviceState) optional { return number(d.Status.BAR1.Total) }),
	gauge("gpu_bar1_memory_used_bytes",
		"Part of BAR1 that is mapped, in bytes.",
		func(d *sampler.DeviceState) optional { return number(d.Status.BAR1.Used) }),
}}

var migFamily = family{name: "mig", enabled: true, metrics: []metric{
	gauge("gpu_mig_enabled",
		"Whether (1 or 0) the GPU is in MIG mode, divided into GPU instances. Absent where it has no MIG.",
		func(d *sampler.DeviceState) optional { return truth(d.MIGEnabled) }),
	gauges("gpu_mig_info",
		"Always 1; names each MIG device, which is a compute instance of a GPU instance. Those of one GPU instance share its memory.",
		[]string{"compute_instance", "mig_uuid"},
		func(in *sampler.MemoryState, e *emitter) {
			for _, dev := range in.Devices {
				e.emit(1, strconv.FormatUint(uint64(dev.ComputeInstance), 10), dev.UUID)
			}
		}),
	gauge("gpu_mig_memory_total_bytes",
		"Memory of the GPU instance in bytes: used + free + reserved.",
		func(in *sampler.MemoryState) optional { return number(in.Memory.Total) }),
	gauge("gpu_mig_memory_used_bytes",
		"Memory of the GPU instance in use, in bytes: total - free - reserved. Where the driver does not tell what it reserves, that is included.",
		func(in *sampler.MemoryState) optional { return number(in.Memory.Used) }),
	gauge("gpu_mig_memory_free_bytes",
		"Memory of the GPU instance that can still be allocated, in bytes.",
		func(in *sampler.MemoryState) optional { return number(in.Memory.Free) }),
	gauge("gpu_mig_memory_reserved_bytes",
		"Memory of the GPU instance that the driver keeps for itself, in bytes. Absent where the driver does not tell.",
		func(in *sampler.MemoryState) optional { return number(in.Memory.Reserved) }),
}}
