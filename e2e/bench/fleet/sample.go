// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// listing says what a recording tells of the processes.
type listing uint8

const (
	all         listing = iota
	noList              // the driver tells no processes, as under vGPU
	noMemory            // it lists them without their memory, as under WSL
	foreignPIDs         // the recorder runs in a pid namespace of its own
)

// gap is a time without samples: the node or the recorder was away.
type gap struct{ from, to time.Duration }

// drawListing draws what the recording has. Most nodes have everything.
func (w *world) drawListing() {
	switch x := w.r.Float64(); {
	case x < 0.06:
		w.listing = noList
	case x < 0.10:
		w.listing = noMemory
	case x < 0.14:
		w.listing = foreignPIDs
	}
	w.torn = w.logu(0.0002, 0.02)
	w.noReserved = w.chance(0.05)
	w.noUse = w.chance(0.05)
}

func (w *world) drawGaps() {
	if !w.chance(0.1) {
		return
	}
	for range w.n(1, 3) {
		from := time.Duration(w.u(0.05, 0.95) * float64(w.end))
		w.gaps = append(w.gaps, gap{from, from + w.span(30*time.Second, 20*time.Minute)})
	}
}

func (w *world) inGap(t time.Duration) bool {
	return t > 0 && slices.ContainsFunc(w.gaps, func(g gap) bool { return g.from <= t && t < g.to })
}

// sample simulates until the sample at t and fills it in.
func (w *world) sample(s *gpu.Sample, t time.Duration) {
	late := time.Duration(w.r.ExpFloat64() * float64(3*time.Millisecond))
	torn := w.chance(w.torn)
	if !torn {
		w.advance(t)
	}
	w.memories(s)
	if torn {
		w.advance(t)
	}
	s.T = w.epoch + t + min(late, w.sc.Interval/4)
	w.processes(s)
}

// memories fills in the memory of the GPU and of its instances.
func (w *world) memories(s *gpu.Sample) {
	used, reserved := uint64(0), w.reserved*alloc.MiB
	s.Instances = s.Instances[:0]
	for _, d := range w.domains {
		used += d.dev.Used() // that of the GPU is the sum of its instances
		if d.id.OK {
			s.Instances = append(s.Instances, gpu.Instance{ID: d.id.V, Memory: gpu.Memory{
				Total: gpu.Some(d.dev.Capacity()), Reserved: gpu.Some(uint64(0)), Used: gpu.Some(d.dev.Used()),
			}})
		}
	}
	s.Memory = gpu.Memory{Total: gpu.Some(w.total * alloc.MiB), Reserved: gpu.Some(reserved), Used: gpu.Some(used)}
	if w.noReserved {
		s.Memory.Reserved, s.Memory.Used = gpu.Opt[uint64]{}, gpu.Some(used+reserved)
	}
}

// processes fills in the list.
func (w *world) processes(s *gpu.Sample) {
	s.Processes = s.Processes[:0]
	s.ProcessesKnown = w.listing != noList
	s.ProcessesComplete = w.listing == all
	if !s.ProcessesKnown {
		return
	}
	for _, p := range w.procs {
		s.Processes = append(s.Processes, p.entry())
	}
	slices.SortFunc(s.Processes, func(a, b gpu.Process) int {
		return cmp.Or(cmp.Compare(a.Instance.V, b.Instance.V), cmp.Compare(a.ID.PID, b.ID.PID), cmp.Compare(a.ID.Start, b.ID.Start))
	})
}

// entry returns the process as the recording has it.
func (p *proc) entry() gpu.Process {
	w := p.w
	p.count()
	e := gpu.Process{ID: p.id, Instance: p.j.dom.id, Limits: p.limits()}
	if w.listing != noMemory {
		e.Used = gpu.Some(p.used())
	}
	if !w.domains[0].id.OK && !w.noUse {
		e.SM = gpu.Some(w.ratio(p.sm))
		w.ratio(p.sm * 0.6) // of the memory controller, which no rule reads
	}
	if w.listing == foreignPIDs {
		return e
	}
	e.Started, e.CPU = gpu.Some(w.epoch+p.started), gpu.Some(p.cpu.Truncate(10*time.Millisecond))
	e.Allocator = p.probe()
	e.Owner, e.Orphaned, e.State = p.j.owner, p.orphaned, "S"
	if p.cores > 0.5 {
		w.unused(1) // whether it runs just then
	}
	return e
}

// ratio returns a utilisation as the driver tells it, in whole percent.
func (w *world) ratio(v float64) float64 {
	if v <= 0 {
		return 0
	}
	return math.Round(100*min(1, max(0.01, v*(1+0.1*w.r.NormFloat64())))) / 100
}

// probeInterval is how often a probe tells.
const probeInterval = 5 * time.Second

// probe returns what the allocator of a framework tells; nil of a program without one.
func (p *proc) probe() *gpu.Allocator {
	if p.j.options.Kind == alloc.Plain {
		return nil
	}
	if p.told == nil || p.w.now-p.toldAt >= probeInterval {
		p.told, p.toldAt = &gpu.Allocator{Allocated: gpu.Some(p.cache.Allocated()), Reserved: gpu.Some(p.cache.Reserved())}, p.w.now
	}
	return p.told
}
