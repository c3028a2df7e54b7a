// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"cmp"
	"math"
	"time"
)

// compareProcesses orders processes as Sample.Processes has them.
func compareProcesses(a, b Process) int {
	return cmp.Or(
		cmp.Compare(a.Instance.V, b.Instance.V),
		cmp.Compare(a.ID.PID, b.ID.PID),
		cmp.Compare(a.ID.Start, b.ID.Start),
	)
}

// status fills the part g of s with what a reading at t finds.
func (g *simGPU) status(t time.Duration, group Group, s *Status) {
	switch group {
	case GroupMemory:
		s.BAR1 = g.bar1(t)
	case GroupUtilization:
		s.Utilization = g.utilization(t)
	case GroupThermal:
		s.Thermal = g.thermal(t)
	case GroupPower:
		s.Power = g.power(t)
	case GroupClocks:
		s.Clocks = g.clocks(t)
	case GroupECC:
		s.ECC = g.ecc(t)
	case GroupPCIe:
		s.PCIe = g.pcie(t)
	case GroupNVLink:
		s.NVLinks = g.nvlinks(t)
	}
}

func (g *simGPU) bar1(t time.Duration) BAR1 {
	used := uint64(1)
	for _, p := range g.processes {
		if _, ok := p.at(t); ok {
			used += 2
		}
	}
	return BAR1{Total: Some(uint64(g.model.pcieBar) * mib), Used: Some(min(used, uint64(g.model.pcieBar)) * mib)}
}

// utilization is that of the GPU; a driver tells none in MIG mode.
func (g *simGPU) utilization(t time.Duration) Utilization {
	if len(g.instances) > 0 || g.model.consumer {
		return Utilization{}
	}
	load := g.load(t)
	var encoder float64
	for _, p := range g.processes {
		if _, ok := p.at(t); ok {
			encoder += p.encoder
		}
	}
	return Utilization{
		GPU: Some(percent(load)), MemoryController: Some(percent(load * 0.6)),
		Encoder: Some(percent(min(encoder, 1))), Decoder: Some(0.0), JPEG: Some(0.0), OFA: Some(0.0),
	}
}

func (g *simGPU) thermal(t time.Duration) Thermal {
	celsius := g.celsius(t)
	out := Thermal{Temperatures: []Named[float64]{{"gpu", celsius}}}
	if !g.model.consumer {
		out.Temperatures = append(out.Temperatures, Named[float64]{"memory", celsius + 9})
	}
	const slowdown = 89
	if g.model.margin {
		out.Margin = Some(slowdown - celsius)
		out.MarginThresholds = []Named[float64]{{"shutdown", -5}, {"slowdown", 0}, {"gpu_max", 2}}
	} else {
		out.Thresholds = []Named[float64]{{"shutdown", slowdown + 5}, {"slowdown", slowdown}, {"gpu_max", slowdown - 2}}
	}
	for range g.model.fans {
		out.Fans = append(out.Fans, Some(percent(min(celsius/90, 1))))
	}
	var idle, hot time.Duration
	if len(g.processes) == 0 {
		idle = t + simUptime
	}
	if g.hot(t) {
		hot = t - g.faults.hotAfter
	}
	out.ClockEvents = []ClockEvent{
		{Reason: "gpu_idle", Active: Some(idle > 0), Seconds: Some(idle.Seconds())},
		{Reason: "sw_power_cap", Active: Some(false), Seconds: Some(0.0)},
		{Reason: "hw_slowdown", Active: Some(false), Seconds: Some(0.0)},
		{Reason: "sw_thermal_slowdown", Active: Some(g.hot(t)), Seconds: Some(hot.Seconds())},
		{Reason: "hw_thermal_slowdown", Active: Some(false), Seconds: Some(0.0)},
		{Reason: "hw_power_brake_slowdown", Active: Some(false), Seconds: Some(0.0)},
	}
	return out
}

func (g *simGPU) power(t time.Duration) Power {
	m := g.model
	state := 0
	if g.load(t) == 0 && len(g.processes) == 0 {
		state = 8
	}
	out := Power{
		Watts: Some(math.Round(g.watts(t)*1000) / 1000),
		Limits: []Named[float64]{
			{"enforced", m.maxWatts},
			{"management", m.maxWatts},
			{"default", m.maxWatts},
			{"min", math.Round(m.maxWatts / 2)},
			{"max", m.maxWatts},
		},
		PerformanceState: Some(state),
	}
	if !m.consumer {
		out.Joules = Some(math.Round(g.joules(t)*1000) / 1000)
	}
	return out
}

func (g *simGPU) clocks(t time.Duration) []Clock {
	m := g.model
	sm, memory := m.smHertz, m.memoryHertz
	switch {
	case g.hot(t):
		sm = math.Round(0.6*sm/15e6) * 15e6
	case g.load(t) == 0:
		sm = 345e6
	}
	return []Clock{
		{"graphics", Some(sm), Some(m.smHertz)},
		{"sm", Some(sm), Some(m.smHertz)},
		{"memory", Some(memory), Some(m.memoryHertz)},
		{"video", Some(math.Round(0.9*sm/15e6) * 15e6), Some(math.Round(0.9*m.smHertz/15e6) * 15e6)},
	}
}

// ecc tells errors after faults.eccAfter. A GPU in MIG mode tells no volatile
// counters and no remapped rows.
func (g *simGPU) ecc(t time.Duration) ECC {
	if !g.model.ecc {
		return ECC{}
	}
	var corrected, uncorrected uint64
	bad := g.faults.eccAfter > 0 && t >= g.faults.eccAfter
	if bad {
		corrected, uncorrected = 3+uint64((t-g.faults.eccAfter)/(20*time.Second)), 1
	}
	out := ECC{Enabled: Some(true), RecoveryAction: Some(0)}
	if bad {
		out.RecoveryAction = Some(1)
	}
	counters := []string{"volatile", "aggregate"}
	if len(g.instances) > 0 {
		counters = counters[1:]
	} else {
		rows := uint64(0)
		if bad {
			rows = 1
		}
		out.RemappedRows = []Named[uint64]{{"corrected", 0}, {"uncorrected", rows}}
		out.RemapPending, out.RemapFailed = Some(bad), Some(false)
	}
	for _, c := range counters {
		out.Errors = append(out.Errors,
			ECCErrors{"corrected", c, "dram", corrected}, ECCErrors{"uncorrected", c, "dram", uncorrected},
			ECCErrors{"corrected", c, "sram", 0}, ECCErrors{"uncorrected", c, "sram", 0})
	}
	return out
}

// pcie counts at a rate of its own per GPU; replays are rare.
func (g *simGPU) pcie(t time.Duration) PCIe {
	m := g.model
	out := PCIe{
		GenerationCurrent: Some(m.pcieGen), GenerationMax: Some(m.pcieGen),
		WidthCurrent: Some(16), WidthMax: Some(16),
	}
	if m.consumer {
		return out
	}
	since := uint64((t + simUptime) / time.Millisecond)
	out.Replays = Some(since / uint64(30*time.Hour/time.Millisecond))
	out.ReceivedBytes = Some(since * (20000 + g.seed%9000))
	out.TransmittedBytes = Some(since * (7000 + g.seed%5000))
	return out
}

func (g *simGPU) nvlinks(t time.Duration) []NVLink {
	since := uint64((t + simUptime) / time.Millisecond)
	var out []NVLink
	for i := range g.model.links {
		rate := 100000 + mix(g.seed+uint64(i))%50000 // bytes in a millisecond
		out = append(out, NVLink{
			Link: i, Up: Some(true),
			Errors:        []Named[uint64]{{"replay", 0}, {"recovery", 0}, {"crc_flit", 0}, {"crc_data", 0}},
			ReceivedBytes: Some(since * rate), TransmittedBytes: Some(since * (rate - 1000)),
		})
	}
	return out
}
