// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// simModel is a product.
type simModel struct {
	name, architecture, vbios string
	total, reserved           uint64 // bytes; reserved 0: the driver does not tell
	idleWatts, maxWatts       float64
	smHertz, memoryHertz      float64
	// margin says that thermal limits are given as margins (Ada and later).
	margin           bool
	ecc, consumer    bool // consumer: no utilisation, ECC and PCIe counters
	fans, links      int
	pcieGen, pcieBar int // generation, and the size of BAR1 in MiB
	mig              bool
}

// The products. Used memory comes in pages of 2 MiB, and total − reserved is a multiple of them, too.
var (
	simH100 = simModel{
		name: "NVIDIA H100 80GB HBM3", architecture: "hopper", vbios: "96.00.99.00.01",
		total: 81559 * mib, reserved: 551 * mib, idleWatts: 71, maxWatts: 700, smHertz: 1.98e9, memoryHertz: 2.619e9,
		margin: true, ecc: true, links: 18, pcieGen: 5, pcieBar: 131072, mig: true,
	}
	simA100 = simModel{
		name: "NVIDIA A100-SXM4-80GB", architecture: "ampere", vbios: "92.00.45.00.05",
		total: 81920 * mib, reserved: 554 * mib, idleWatts: 58, maxWatts: 400, smHertz: 1.41e9, memoryHertz: 1.593e9,
		ecc: true, links: 12, pcieGen: 4, pcieBar: 131072, mig: true,
	}
	simT4 = simModel{
		name: "Tesla T4", architecture: "turing", vbios: "90.04.96.00.02",
		total: 15360 * mib, reserved: 450 * mib, idleWatts: 10, maxWatts: 70, smHertz: 1.59e9, memoryHertz: 5.001e9,
		ecc: true, pcieGen: 3, pcieBar: 256,
	}
	simGTX = simModel{
		name: "NVIDIA GeForce GTX 1080 Ti", architecture: "pascal", vbios: "86.02.39.00.22",
		total: 11264 * mib, idleWatts: 12, maxWatts: 250, smHertz: 1.911e9, memoryHertz: 5.505e9,
		consumer: true, fans: 1, pcieGen: 3, pcieBar: 256,
	}
)

// capacity returns the most that can be used, in bytes.
func (m *simModel) capacity() float64 { return float64(m.total - m.reserved) }

// simUptime is how long before the start of a scenario the driver was loaded.
const simUptime = 72 * time.Hour

// simBaseline is the driver's own use of a GPU, in bytes.
const simBaseline = 4 * mib

// simFaults are the faults of a GPU. Times are simulated, since the start.
type simFaults struct {
	hangAfter, lostAfter time.Duration // calls never return, or find the GPU lost
	failEvery            time.Duration // one reading in each such time fails
	failGroup            gpu.Group     // this group always fails
	hotAfter             time.Duration // the clocks are slowed down by heat
	eccAfter             time.Duration // memory errors, and a row to remap
}

// failsAt reports whether the reading at t is one that fails.
func (f simFaults) failsAt(t, interval time.Duration) bool {
	return f.failEvery > 0 && t >= f.failEvery && t%f.failEvery < interval
}

// simGPU is the script of one GPU.
type simGPU struct {
	info      gpu.Info
	model     *simModel
	seed      uint64
	processes []*simProcess
	instances []gpu.Instance // without Used and Free; set: the GPU is in MIG mode
	faults    simFaults
}

// sample returns the reading at the simulated time t.
func (g *simGPU) sample(start time.Time, t time.Duration) gpu.Sample {
	s := gpu.Sample{
		Time: start.Add(t), T: time.Duration(start.UnixNano()) + t,
		ProcessesKnown: true, ProcessesComplete: true,
	}
	s.MIGEnabled = gpu.Some(len(g.instances) > 0).If(g.model.mig)
	var used uint64
	inside := make(map[uint32]uint64, len(g.instances))
	for _, p := range g.processes {
		run, ok := p.at(t)
		if !ok {
			used += p.kept(t)
			inside[p.instance.V] += p.kept(t)
			continue
		}
		out := p.process(start, t, run)
		bytes := p.used(run)
		used += bytes
		inside[p.instance.V] += bytes
		s.Processes = append(s.Processes, out)
		s.ProcessesComplete = s.ProcessesComplete && out.Used.OK
	}
	slices.SortFunc(s.Processes, gpu.CompareProcesses)
	s.Memory = memoryOf(g.model.total, g.model.reserved, used+simBaseline)
	for _, in := range g.instances {
		in.Memory = memoryOf(in.Memory.Total.V, in.Memory.Reserved.V, inside[in.ID])
		s.Instances = append(s.Instances, in)
	}
	return s
}

// memoryOf returns the memory with used bytes in use; reserved 0 means that the driver does not tell it.
func memoryOf(total, reserved, used uint64) gpu.Memory {
	return gpu.Memory{Total: gpu.Some(total), Used: gpu.Some(used), Free: gpu.Some(total - reserved - used), Reserved: gpu.Some(reserved).If(reserved > 0)}
}

// load returns the ratio of busy multiprocessors at t, at most 1.
func (g *simGPU) load(t time.Duration) float64 {
	var busy float64
	for _, p := range g.processes {
		if run, ok := p.at(t); ok {
			busy += p.busy(run, p.sm)
		}
	}
	return min(busy, 1)
}

// watts returns the draw at t: a share by load.
func (g *simGPU) watts(t time.Duration) float64 {
	watts := g.model.idleWatts
	for _, p := range g.processes {
		if _, ok := p.at(t); ok {
			watts += p.sm * g.wattsPerLoad()
		}
	}
	return watts
}

// joules is the energy since the driver was loaded, as if each process had lived all the time.
func (g *simGPU) joules(t time.Duration) float64 {
	watts := g.model.idleWatts
	for _, p := range g.processes {
		watts += p.sm * g.wattsPerLoad()
	}
	return watts * (t + simUptime).Seconds()
}

// wattsPerLoad shares the power among the processes: their mean loads may add up to more than a GPU has.
func (g *simGPU) wattsPerLoad() float64 {
	var all float64
	for _, p := range g.processes {
		all += p.sm
	}
	return 0.9 * (g.model.maxWatts - g.model.idleWatts) / max(all, 1)
}

// celsius returns the temperature at t in whole degrees.
func (g *simGPU) celsius(t time.Duration) float64 {
	if g.hot(t) {
		return 89
	}
	m := g.model
	return math.Round(31 + 40*(g.watts(t)-m.idleWatts)/(m.maxWatts-m.idleWatts) + 2*math.Sin(t.Minutes())) // with a slow wave
}

// hot reports whether heat slows the clocks down at t.
func (g *simGPU) hot(t time.Duration) bool { return g.faults.hotAfter > 0 && t >= g.faults.hotAfter }
