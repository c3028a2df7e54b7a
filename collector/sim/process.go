// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

const (
	mib = 1 << 20
	gib = 1 << 30
	// simPage is the step in which memory is handed out to CUDA programs.
	simPage = 2 * mib
	// simTick is the unit of ProcessID.Start.
	simTick = time.Second / gpu.ProcessorTicks
)

// simProcess is the script of one process. With a life it ends and starts again, under a new pid, for ever.
type simProcess struct {
	owner    gpu.Owner // ContainerID is made up for each run of a process in a pod
	id       int       // number of the process in its scenario, from 0
	script   *script
	instance gpu.Opt[uint32]
	typ      gpu.ProcessType // 0 is Compute
	// start is the first start, relative to the scenario's start; often before it.
	start time.Duration
	// life is how long a run lasts, 0 for ever; gap how long until the next one.
	life, gap time.Duration
	// shape is the memory that a run holds.
	shape shape
	// sm is the mean ratio of busy multiprocessors; encoder likewise.
	sm, encoder float64
	// loads is for how long a run computes nothing at first: weights are copied.
	loads time.Duration
	// cores is the processor time that it uses in a second.
	cores    float64
	orphaned bool
	// keeps is the memory in bytes that the driver does not get back after a run, until the next one starts.
	keeps uint64
	// hidden says that the driver does not tell the memory of this process.
	hidden bool

	// last is the owner of the run that was read last: each run has one.
	last    *gpu.Owner
	lastRun uint64
}

// simRun is one run of a process at one moment.
type simRun struct {
	number uint64
	age    time.Duration
}

// at returns the run that is alive at the simulated time t.
func (p *simProcess) at(t time.Duration) (simRun, bool) {
	since := t - p.start
	switch {
	case since < 0:
		return simRun{}, false
	case p.life == 0:
		return simRun{age: since}, true
	}
	period := p.life + p.gap
	run := simRun{number: uint64(since / period), age: since % period}
	return run, run.age < p.life
}

// seed returns the seed of the noise of a run.
func (p *simProcess) seed(run uint64) uint64 { return mix(uint64(p.id)<<32 ^ run) }

// used returns the memory that a run holds in bytes.
func (p *simProcess) used(run simRun) uint64 {
	return uint64(max(p.shape(run.age, p.seed(run.number)), 0)) / simPage * simPage
}

// kept returns the memory that the last run has left behind at t, in bytes.
func (p *simProcess) kept(t time.Duration) uint64 {
	if _, alive := p.at(t); alive || t < p.start {
		return 0
	}
	return p.keeps / simPage * simPage
}

// pid returns the number of a run. Those of a scenario are spread over the range that Linux hands out, and none comes again
// before all have been used.
func (p *simProcess) pid(run uint64) uint32 {
	n := run*uint64(p.script.processes) + uint64(p.id) + 17
	return uint32(n%simPIDs*48271%simPIDs) + 300
}

// simPIDs is a prime, so that pid visits every number, and simPIDs + 300 is below Linux's greatest pid_max of 2^22.
const simPIDs = 4193977

// runs returns Owner.Runs: the same in all runs of a process, and another for each process. It has no secret.
func (p *simProcess) runs() uint64 {
	return (&gpu.Program{Name: p.owner.Process, Arguments: strconv.Itoa(p.id)}).Hash(nil)
}

// ownerOf returns the owner of a run.
func (p *simProcess) ownerOf(run uint64) *gpu.Owner {
	if p.last == nil || p.lastRun != run {
		o := p.owner
		o.Runs = p.runs()
		if o.Pod != "" {
			s := p.seed(run)
			o.ContainerID = fmt.Sprintf("%016x%016x%016x%016x", mix(s+1), mix(s+2), mix(s+3), mix(s+4))
		}
		p.last, p.lastRun = &o, run
	}
	return p.last
}

// process returns the process as a driver and /proc would describe it.
func (p *simProcess) process(start time.Time, t time.Duration, run simRun) gpu.Process {
	started := (time.Duration(start.UnixNano()) + t - run.age).Truncate(simTick)
	out := gpu.Process{
		ID:               gpu.ProcessID{PID: p.pid(run.number), Start: uint64(started / simTick)},
		Type:             cmp.Or(p.typ, gpu.Compute),
		Instance:         p.instance,
		Started:          gpu.Some(started),
		Used:             gpu.Some(p.used(run)).If(!p.hidden),
		SM:               gpu.Some(p.busy(run, p.sm)),
		MemoryController: gpu.Some(percent(p.busy(run, p.sm) * 0.6)),
		Encoder:          gpu.Some(percent(p.encoder)),
		Decoder:          gpu.Some(0.0),
		CPU:              gpu.Some(time.Duration(float64(run.age) * p.cores).Truncate(simTick)),
		State:            "S",
		Orphaned:         p.orphaned,
		Owner:            p.ownerOf(run.number),
	}
	if p.cores >= 0.5 {
		out.State = "R"
	}
	return out
}

// busy returns mean with the noise of the moment, in whole per cent.
func (p *simProcess) busy(run simRun, mean float64) float64 {
	if mean == 0 || run.age < p.loads {
		return 0
	}
	noise := unit(p.seed(run.number), uint64(run.age/time.Second)) - 0.5
	return percent(min(mean*(1+0.2*noise), 1))
}

// percent rounds a ratio to whole per cent, as the driver does.
func percent(ratio float64) float64 { return math.Round(ratio*100) / 100 }

// mix is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): noise without
// a state.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// unit returns the i-th number of the noise of seed, from 0 to below 1.
func unit(seed, i uint64) float64 { return float64(mix(seed+i*0x9e3779b97f4a7c15)>>11) / (1 << 53) }

// A shape is the memory of a run of a process in bytes at an age. seed belongs to the run. Results are rounded down to whole
// pages afterwards.
type shape func(age time.Duration, seed uint64) float64

// sum adds shapes.
func sum(parts ...shape) shape {
	return func(age time.Duration, seed uint64) float64 {
		var total float64
		for i, part := range parts {
			total += part(age, seed+uint64(i))
		}
		return total
	}
}

// flat is a constant: a CUDA context, weights, a preallocated pool.
func flat(bytes float64) shape { return func(time.Duration, uint64) float64 { return bytes } }

// from delays a shape.
func from(at time.Duration, s shape) shape {
	return func(age time.Duration, seed uint64) float64 {
		if age < at {
			return 0
		}
		return s(age-at, seed)
	}
}

// line grows steadily: the plain leak.
func line(perMinute float64) shape {
	return func(age time.Duration, _ uint64) float64 { return age.Minutes() * perMinute }
}

// steps grows by step after each interval: a leak whose block is big.
func steps(step float64, every time.Duration) shape {
	return func(age time.Duration, _ uint64) float64 { return float64(age/every) * step }
}

// load grows to bytes in a straight line and stays: a model that is loaded.
func load(bytes float64, over time.Duration) shape {
	return func(age time.Duration, _ uint64) float64 {
		return bytes * min(float64(age)/float64(over), 1)
	}
}

// warmup grows to bytes in ever rarer steps of 20 MiB, the segment of PyTorch's allocator, and stays: 1 − e^(−age/tau).
func warmup(bytes float64, tau time.Duration) shape {
	const segment = 20 * mib
	return func(age time.Duration, _ uint64) float64 {
		return math.Floor(bytes*-math.Expm1(-float64(age)/float64(tau))/segment) * segment
	}
}

// saw grows to about peak in each period and falls back to nothing: epochs of training that give their cache back. Peaks vary
// by a fifth.
func saw(peak float64, period time.Duration) shape {
	const rising = 0.85 // of the period; the cache is empty in the rest
	return func(age time.Duration, seed uint64) float64 {
		x := float64(age%period) / float64(period)
		if x > rising {
			return 0
		}
		return peak * (0.8 + 0.2*unit(seed, uint64(age/period))) * x / rising
	}
}

// bursts holds bytes for last in every interval: requests of an odd size.
func bursts(bytes float64, every, last time.Duration) shape {
	return func(age time.Duration, seed uint64) float64 {
		at := time.Duration(unit(seed, uint64(age/every)) * float64(every-last))
		if in := age % every; in < at || in >= at+last {
			return 0
		}
		return bytes
	}
}

// outOfMemory returns the age at which a leak has eaten room.
func outOfMemory(room, perMinute float64) time.Duration {
	return time.Duration(room / perMinute * float64(time.Minute))
}
