// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// nvlinkErrors are the error counters of a link.
var nvlinkErrors = [...]named[nvml.NvLinkErrorCounter]{
	{"replay", nvml.NVLINK_ERROR_DL_REPLAY},
	{"recovery", nvml.NVLINK_ERROR_DL_RECOVERY},
	{"crc_flit", nvml.NVLINK_ERROR_DL_CRC_FLIT},
	{"crc_data", nvml.NVLINK_ERROR_DL_CRC_DATA},
}

// nvlinks returns the links that the GPU has.
func (r *reading) nvlinks() []gpu.NVLink {
	const none = nvml.ERROR_INVALID_ARGUMENT
	most := r.fields(fieldID{nvml.FI_DEV_NVLINK_LINK_COUNT})[0].count()
	if !most.OK || most.V > nvml.NVLINK_MAX_LINKS {
		most.V = nvml.NVLINK_MAX_LINKS
	}
	var links []gpu.NVLink
	for i := range int(most.V) {
		up := get(r, "nvmlDeviceGetNvLinkState", func() (bool, nvml.Return) {
			state, ret := r.handle.GetNvLinkState(i)
			return state == nvml.FEATURE_ENABLED, ret
		}, none)
		if !up.OK {
			continue
		}
		l := gpu.NVLink{Link: i, Up: up}
		for _, e := range nvlinkErrors {
			n := get(r, "nvmlDeviceGetNvLinkErrorCounter", func() (uint64, nvml.Return) {
				return r.handle.GetNvLinkErrorCounter(i, e.id)
			}, none)
			appendNamed(&l.Errors, e.name, count(n))
		}
		links = append(links, l)
	}
	r.nvlinkBytes(links)
	return links
}

// nvlinkBytes adds the traffic of each link: of the fifth generation in bytes, of earlier ones in KiB.
func (r *reading) nvlinkBytes(links []gpu.NVLink) {
	if len(links) == 0 {
		return
	}
	ids := [...]uint32{
		nvml.FI_DEV_NVLINK_COUNT_XMIT_BYTES, nvml.FI_DEV_NVLINK_COUNT_RCV_BYTES,
		nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX,
	}
	var fields []fieldID
	for _, l := range links {
		for _, id := range ids {
			fields = append(fields, fieldID{id, uint32(l.Link)})
		}
	}
	values := r.fields(fields...)
	for i := range links {
		v := values[i*len(ids):]
		links[i].TransmittedBytes, links[i].ReceivedBytes = v[0].count(), v[1].count()
		if !links[i].TransmittedBytes.OK && !links[i].ReceivedBytes.OK {
			links[i].TransmittedBytes, links[i].ReceivedBytes = kib(v[2].count()), kib(v[3].count())
		}
	}
}

func kib(n gpu.Opt[uint64]) gpu.Opt[uint64] {
	return gpu.Some(n.V << 10).If(n.OK && n.V < 1<<54)
}

// pcie returns the link to the host. Its traffic comes from counters: nvmlDeviceGetPcieThroughput blocks for 20 ms, and sees
// only those.
func (r *reading) pcie() gpu.PCIe {
	var p gpu.PCIe
	p.GenerationCurrent = r.small("nvmlDeviceGetCurrPcieLinkGeneration", r.handle.GetCurrPcieLinkGeneration)
	p.GenerationMax = r.small("nvmlDeviceGetMaxPcieLinkGeneration", r.handle.GetMaxPcieLinkGeneration)
	p.WidthCurrent = r.small("nvmlDeviceGetCurrPcieLinkWidth", r.handle.GetCurrPcieLinkWidth)
	p.WidthMax = r.small("nvmlDeviceGetMaxPcieLinkWidth", r.handle.GetMaxPcieLinkWidth)
	replays := get(r, "nvmlDeviceGetPcieReplayCounter", r.handle.GetPcieReplayCounter)
	p.Replays = count32(replays.V).If(replays.OK)
	f := r.fields(fieldID{nvml.FI_DEV_PCIE_COUNT_TX_BYTES}, fieldID{nvml.FI_DEV_PCIE_COUNT_RX_BYTES})
	// Of 32 bits a fast link wraps several times a second: no rate could be had.
	if f[0].wide() && f[1].wide() {
		p.TransmittedBytes, p.ReceivedBytes = f[0].count(), f[1].count()
	}
	return p
}

// small makes a call for an unsigned 32-bit number that go-nvml returns as int.
func (r *reading) small(name string, f func() (int, nvml.Return)) gpu.Opt[int] {
	v := get(r, name, f)
	return v.If(uint32(v.V) != notAvailable32)
}
