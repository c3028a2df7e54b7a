// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// status fills the part g of s with the reading at t.
func (g *simGPU) status(t time.Duration, group gpu.Group, s *gpu.Status) {
	switch group {
	case gpu.GroupMemory:
		s.BAR1 = g.bar1(t)
	case gpu.GroupUtilization:
		s.Utilization = g.utilization(t)
	case gpu.GroupThermal:
		s.Thermal = g.thermal(t)
	case gpu.GroupPower:
		s.Power = g.power(t)
	case gpu.GroupClocks:
		s.Clocks = g.clocks(t)
	case gpu.GroupECC:
		s.ECC = g.ecc(t)
	case gpu.GroupPCIe:
		s.PCIe = g.pcie(t)
	case gpu.GroupNVLink:
		s.NVLinks = g.nvlinks(t)
	}
}

// list returns values by their names, which blanks divide.
func list[T any](names string, values ...T) (all []gpu.Named[T]) {
	for i, name := range strings.Fields(names) {
		all = append(all, gpu.Named[T]{Name: name, V: values[i]})
	}
	return all
}

func (g *simGPU) bar1(t time.Duration) gpu.BAR1 {
	used := uint64(1)
	for _, p := range g.processes {
		if _, ok := p.at(t); ok {
			used += 2
		}
	}
	return gpu.BAR1{Total: gpu.Some(uint64(g.model.pcieBar) * mib), Used: gpu.Some(min(used, uint64(g.model.pcieBar)) * mib)}
}

// utilization is that of the GPU; a driver tells none in MIG mode.
func (g *simGPU) utilization(t time.Duration) gpu.Utilization {
	if len(g.instances) > 0 || g.model.consumer {
		return gpu.Utilization{}
	}
	load := g.load(t)
	var encoder float64
	for _, p := range g.processes {
		if _, ok := p.at(t); ok {
			encoder += p.encoder
		}
	}
	return gpu.Utilization{
		GPU: gpu.Some(percent(load)), MemoryController: gpu.Some(percent(load * 0.6)),
		Encoder: gpu.Some(percent(min(encoder, 1))), Decoder: gpu.Some(0.0), JPEG: gpu.Some(0.0), OFA: gpu.Some(0.0),
	}
}

func (g *simGPU) thermal(t time.Duration) gpu.Thermal {
	celsius := g.celsius(t)
	out := gpu.Thermal{Temperatures: list("gpu memory", celsius, celsius+9)}
	if g.model.consumer {
		out.Temperatures = out.Temperatures[:1]
	}
	const slowdown = 89
	if g.model.margin {
		out.Margin = gpu.Some(slowdown - celsius)
		out.MarginThresholds = list("shutdown slowdown gpu_max", -5.0, 0, 2)
	} else {
		out.Thresholds = list("shutdown slowdown gpu_max", slowdown+5, slowdown, slowdown-2.0)
	}
	for range g.model.fans {
		out.Fans = append(out.Fans, gpu.Some(percent(min(celsius/90, 1))))
	}
	var idle, hot time.Duration
	if len(g.processes) == 0 {
		idle = t + simUptime
	}
	if g.hot(t) {
		hot = t - g.faults.hotAfter
	}
	for _, e := range list("gpu_idle sw_power_cap hw_slowdown sw_thermal_slowdown hw_thermal_slowdown hw_power_brake_slowdown", idle, 0, 0, hot, 0, 0) {
		out.ClockEvents = append(out.ClockEvents, gpu.ClockEvent{Reason: e.Name, Active: gpu.Some(e.V > 0), Seconds: gpu.Some(e.V.Seconds())})
	}
	return out
}

func (g *simGPU) power(t time.Duration) gpu.Power {
	m := g.model
	state := 0
	if g.load(t) == 0 && len(g.processes) == 0 {
		state = 8
	}
	return gpu.Power{
		Watts:            gpu.Some(math.Round(g.watts(t)*1000) / 1000),
		Limits:           list("enforced management default min max", m.maxWatts, m.maxWatts, m.maxWatts, math.Round(m.maxWatts/2), m.maxWatts),
		Joules:           gpu.Some(math.Round(g.joules(t)*1000) / 1000).If(!m.consumer),
		PerformanceState: gpu.Some(state),
	}
}

func (g *simGPU) clocks(t time.Duration) []gpu.Clock {
	m := g.model
	sm, memory := m.smHertz, m.memoryHertz
	switch {
	case g.hot(t):
		sm = math.Round(0.6*sm/15e6) * 15e6
	case g.load(t) == 0:
		sm = 345e6
	}
	return []gpu.Clock{
		{Name: "graphics", Current: gpu.Some(sm), Max: gpu.Some(m.smHertz)},
		{Name: "sm", Current: gpu.Some(sm), Max: gpu.Some(m.smHertz)},
		{Name: "memory", Current: gpu.Some(memory), Max: gpu.Some(m.memoryHertz)},
		{Name: "video", Current: gpu.Some(math.Round(0.9*sm/15e6) * 15e6), Max: gpu.Some(math.Round(0.9*m.smHertz/15e6) * 15e6)},
	}
}

// ecc has errors after faults.eccAfter. A GPU in MIG mode has no volatile counters and no remapped rows.
func (g *simGPU) ecc(t time.Duration) gpu.ECC {
	if !g.model.ecc {
		return gpu.ECC{}
	}
	var corrected, uncorrected uint64
	bad := g.faults.eccAfter > 0 && t >= g.faults.eccAfter
	if bad {
		corrected, uncorrected = 3+uint64((t-g.faults.eccAfter)/(20*time.Second)), 1
	}
	out := gpu.ECC{Enabled: gpu.Some(true), RecoveryAction: gpu.Some(0)}
	if bad {
		out.RecoveryAction = gpu.Some(1)
	}
	counters := []string{"volatile", "aggregate"}
	if len(g.instances) > 0 {
		counters = counters[1:]
	} else {
		rows := uint64(0)
		if bad {
			rows = 1
		}
		out.RemappedRows = list("corrected uncorrected", 0, rows)
		out.RemapPending, out.RemapFailed = gpu.Some(bad), gpu.Some(false)
	}
	for _, c := range counters {
		out.Errors = append(out.Errors,
			gpu.ECCErrors{Type: "corrected", Counter: c, Location: "dram", Count: corrected}, gpu.ECCErrors{Type: "uncorrected", Counter: c, Location: "dram", Count: uncorrected},
			gpu.ECCErrors{Type: "corrected", Counter: c, Location: "sram", Count: 0}, gpu.ECCErrors{Type: "uncorrected", Counter: c, Location: "sram", Count: 0})
	}
	return out
}

// pcie counts at a rate of its own per GPU; replays are rare.
func (g *simGPU) pcie(t time.Duration) gpu.PCIe {
	m := g.model
	out := gpu.PCIe{
		GenerationCurrent: gpu.Some(m.pcieGen), GenerationMax: gpu.Some(m.pcieGen),
		WidthCurrent: gpu.Some(16), WidthMax: gpu.Some(16),
	}
	if m.consumer {
		return out
	}
	since := uint64((t + simUptime) / time.Millisecond)
	out.Replays = gpu.Some(since / uint64(30*time.Hour/time.Millisecond))
	out.ReceivedBytes = gpu.Some(since * (20000 + g.seed%9000))
	out.TransmittedBytes = gpu.Some(since * (7000 + g.seed%5000))
	return out
}

func (g *simGPU) nvlinks(t time.Duration) []gpu.NVLink {
	since := uint64((t + simUptime) / time.Millisecond)
	var out []gpu.NVLink
	for i := range g.model.links {
		rate := 100000 + mix(g.seed+uint64(i))%50000 // bytes in a millisecond
		out = append(out, gpu.NVLink{
			Link: i, Up: gpu.Some(true),
			Errors:        list[uint64]("replay recovery crc_flit crc_data", 0, 0, 0, 0),
			ReceivedBytes: gpu.Some(since * rate), TransmittedBytes: gpu.Some(since * (rate - 1000)),
		})
	}
	return out
}
