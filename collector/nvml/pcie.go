// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// pcie returns the link to the host. Its traffic comes from counters and not from
// nvmlDeviceGetPcieThroughput, which blocks for 20 ms and tells about those only.
func (r *reading) pcie() gpu.PCIe {
	var p gpu.PCIe
	p.GenerationCurrent = r.small("nvmlDeviceGetCurrPcieLinkGeneration", r.handle.GetCurrPcieLinkGeneration)
	p.GenerationMax = r.small("nvmlDeviceGetMaxPcieLinkGeneration", r.handle.GetMaxPcieLinkGeneration)
	p.WidthCurrent = r.small("nvmlDeviceGetCurrPcieLinkWidth", r.handle.GetCurrPcieLinkWidth)
	p.WidthMax = r.small("nvmlDeviceGetMaxPcieLinkWidth", r.handle.GetMaxPcieLinkWidth)
	if n := get(r, "nvmlDeviceGetPcieReplayCounter", r.handle.GetPcieReplayCounter); n.OK {
		p.Replays = count32(n.V)
	}
	f := r.fields(fieldID{id: nvml.FI_DEV_PCIE_COUNT_TX_BYTES}, fieldID{id: nvml.FI_DEV_PCIE_COUNT_RX_BYTES})
	// Of 32 bits a fast link wraps several times a second: no rate could be had.
	if f[0].wide() && f[1].wide() {
		p.TransmittedBytes, p.ReceivedBytes = f[0].count(), f[1].count()
	}
	return p
}

// small makes a call for an unsigned 32-bit number that go-nvml returns as int.
func (r *reading) small(name string, f func() (int, nvml.Return)) gpu.Opt[int] {
	v := get(r, name, f)
	return gpu.Opt[int]{V: v.V, OK: v.OK && uint32(v.V) != notAvailable32}
}
