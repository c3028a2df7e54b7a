// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strconv"

	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

var _ = register(family{name: "mig", enabled: true, metrics: []metric{
	gauge("gpu_mig_enabled",
		"Whether (1 or 0) the GPU is in MIG mode, divided into GPU instances. Absent where it has no MIG.",
		func(d *sampler.DeviceState) optional { return truth(d.MIGEnabled) }),
	gauges("gpu_mig_info",
		"Always 1; names each MIG device, which is a compute instance of a GPU instance. Those of one GPU instance share its memory.",
		[]string{"compute_instance", "mig_uuid"},
		func(in *sampler.InstanceState, e *emitter) {
			for _, dev := range in.Devices {
				e.emit(1, strconv.FormatUint(uint64(dev.ComputeInstance), 10), dev.UUID)
			}
		}),
	gauge("gpu_mig_memory_total_bytes",
		"Memory of the GPU instance in bytes: used + free + reserved.",
		func(in *sampler.InstanceState) optional { return number(in.Memory.Total) }),
	gauge("gpu_mig_memory_used_bytes",
		"Memory of the GPU instance in use, in bytes: total - free - reserved. Where the driver does not tell what it reserves, that is included.",
		func(in *sampler.InstanceState) optional { return number(in.Memory.Used) }),
	gauge("gpu_mig_memory_free_bytes",
		"Memory of the GPU instance that can still be allocated, in bytes.",
		func(in *sampler.InstanceState) optional { return number(in.Memory.Free) }),
	gauge("gpu_mig_memory_reserved_bytes",
		"Memory of the GPU instance that the driver keeps for itself, in bytes. Absent where the driver does not tell.",
		func(in *sampler.InstanceState) optional { return number(in.Memory.Reserved) }),
}})
