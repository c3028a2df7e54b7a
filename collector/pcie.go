// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import "github.com/gpuleak/gpu_leak_exporter/collector/sampler"

var pcieFamily = family{name: "pcie", enabled: true, metrics: []metric{
	gauges("gpu_pcie_link_generation",
		"PCI Express generation of the link, now (current) or at most (max). An idle GPU lowers it to save power.",
		[]string{"state"},
		func(d *sampler.DeviceState, e *emitter) {
			e.maybe(number(d.Status.PCIe.GenerationCurrent), "current")
			e.maybe(number(d.Status.PCIe.GenerationMax), "max")
		}),
	gauges("gpu_pcie_link_width",
		"PCI Express lanes of the link, now (current) or at most (max).",
		[]string{"state"},
		func(d *sampler.DeviceState, e *emitter) {
			e.maybe(number(d.Status.PCIe.WidthCurrent), "current")
			e.maybe(number(d.Status.PCIe.WidthMax), "max")
		}),
	counter("gpu_pcie_replays_total",
		"Packets that had to be sent again over PCI Express. A steady rise points to a bad slot, riser or cable.",
		func(d *sampler.DeviceState) optional { return number(d.Status.PCIe.Replays) }),
	counters("gpu_pcie_bytes_total",
		"Bytes that the GPU has received or transmitted over PCI Express since the driver was loaded. Absent where the driver does not count.",
		[]string{"direction"},
		func(d *sampler.DeviceState, e *emitter) {
			e.maybe(number(d.Status.PCIe.ReceivedBytes), "receive")
			e.maybe(number(d.Status.PCIe.TransmittedBytes), "transmit")
		}),
}}
