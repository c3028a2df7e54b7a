// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// Each implements History. The GPUs take turns in the order of time: what a program gave back on one counts on the others,
// and only later.
func (e *exported) Each(ctx context.Context, take func(*Memory, *gpu.Sample) error) error {
	var next []*exportedTurn
	for _, g := range e.order {
		if g.own.used.series != nil && len(g.own.used.series.points) > 0 {
			next = append(next, turnOf(g))
		}
	}
	slices.SortStableFunc(next, func(a, b *exportedTurn) int { return cmp.Compare(a.points[0].t, b.points[0].t) })
	for len(next) > 0 {
		turn := next[0]
		next = next[1:]
		if err := cmp.Or(ctx.Err(), e.take(turn, take)); err != nil {
			return err
		}
		if turn.points = turn.points[1:]; len(turn.points) > 0 {
			at, _ := slices.BinarySearchFunc(next, turn.points[0].t+1, func(o *exportedTurn, t time.Duration) int { return cmp.Compare(o.points[0].t, t) })
			next = slices.Insert(next, at, turn)
		}
	}
	return e.scalars.Each(ctx, take)
}

// exportedTurn is how far the samples of a GPU are handed over.
type exportedTurn struct {
	gpu            *exportedGPU
	points         []scalarPoint // of its used memory, that are left
	instances      []*exportedInstance
	waiting, alive []*exportedProcess
	before         time.Duration // of the last sample
}

func turnOf(g *exportedGPU) *exportedTurn {
	return &exportedTurn{
		gpu: g, points: g.own.used.series.points, before: math.MinInt64,
		instances: slices.SortedFunc(maps.Values(g.instances), func(a, b *exportedInstance) int { return cmp.Compare(a.id, b.id) }),
		waiting: slices.SortedFunc(maps.Values(g.processes), func(a, b *exportedProcess) int {
			return cmp.Or(cmp.Compare(a.used.first(), b.used.first()), cmp.Compare(a.instance.V, b.instance.V), cmp.Compare(a.id.PID, b.id.PID))
		}),
	}
}

// take hands over the next sample of a GPU. The series of one scrape have one time.
func (e *exported) take(x *exportedTurn, take func(*Memory, *gpu.Sample) error) (err error) {
	g, t := x.gpu, x.points[0].t
	s := gpu.Sample{Time: Wall(t), T: t}
	if s.Memory, err = e.memoryAt(&g.own, t); err != nil {
		return err
	}
	if s.Instances, err = e.instancesAt(x.instances, t); err != nil {
		return err
	}
	for len(x.waiting) > 0 && x.waiting[0].used.first() <= t {
		x.alive, x.waiting = append(x.alive, x.waiting[0]), x.waiting[1:]
	}
	x.alive = slices.DeleteFunc(x.alive, func(p *exportedProcess) bool { return p.used.ended(x.before) })
	if s.Processes, err = e.processesAt(x.alive, t); err != nil {
		return err
	}
	s.ProcessesKnown = len(g.processes) > 0
	s.ProcessesComplete = g.complete(&s)
	x.before = t
	return take(g.memory, &s)
}

// complete reports whether the sample has all processes: then the exporter found the same
// memory that no process accounts for. Those that are young, or too many, have no series.
func (g *exportedGPU) complete(s *gpu.Sample) bool {
	unowned, ok := g.unowned.exactly(s.T)
	sum := SumOf(s.Processes)
	return ok && s.Memory.Used.OK && sum.OK && unowned == float64(s.Memory.Used.V-min(sum.V, s.Memory.Used.V))
}

// memoryAt returns the amounts at t. What does not change may be from the last time that it was read.
func (e *exported) memoryAt(m *exportedMemory, t time.Duration) (found gpu.Memory, err error) {
	if found.Used, err = m.used.amountExactly(e.scalars, t); err != nil {
		return found, err
	}
	if found.Total, _, err = m.total.latest(e.scalars, t); err != nil {
		return found, err
	}
	found.Reserved, _, err = m.reserved.latest(e.scalars, t)
	return found, err
}

// instancesAt returns those that are there at t, or could only not be read then: that is no other
// layout.
func (e *exported) instancesAt(list []*exportedInstance, t time.Duration) (found []gpu.Instance, err error) {
	for _, in := range list {
		m, err := e.memoryAt(&in.exportedMemory, t)
		if err != nil {
			return nil, err
		}
		if m.Used.OK || in.used.first() <= t && !in.used.ended(t) {
			found = append(found, gpu.Instance{ID: in.id, Profile: in.profile, Memory: m})
		}
	}
	return found, nil
}

// processesAt returns those that are there at t, ordered as in any sample.
func (e *exported) processesAt(list []*exportedProcess, t time.Duration) ([]gpu.Process, error) {
	var found []gpu.Process
	for _, p := range list {
		used, err := p.used.amountExactly(e.scalars, t)
		if err != nil {
			return nil, err
		}
		if used.OK {
			found = append(found, p.at(t, used))
		}
	}
	slices.SortStableFunc(found, func(a, b gpu.Process) int {
		return cmp.Or(cmp.Compare(a.Instance.V, b.Instance.V), cmp.Compare(a.ID.PID, b.ID.PID), cmp.Compare(a.ID.Start, b.ID.Start))
	})
	return found, nil
}

// at returns the process at t.
func (p *exportedProcess) at(t time.Duration, used gpu.Opt[uint64]) gpu.Process {
	found := gpu.Process{Instance: p.instance, Used: used, Owner: p.owner}
	if start, ok := p.start.until(t); ok && start >= 0 && start < latestStart {
		started := time.Duration(start * float64(time.Second))
		found.Started = gpu.Some(started)
		// Another process has started since this one was seen last. A start that moves by less is a
		// clock that was set.
		if p.id.Start == 0 || started > p.seen {
			p.id.Start = uint64(max(started, 1))
		}
	}
	found.ID, found.SM = p.id, p.busy(t)
	p.seen = t
	return found
}

// busy returns the utilisation since the process was seen last. The exporter tells that of its own
// last sample: where that is none, but the process has computed since, it is not known.
func (p *exportedProcess) busy(t time.Duration) gpu.Opt[float64] {
	sm, ok := p.sm.exactly(t)
	if !ok {
		return gpu.Opt[float64]{}
	}
	// A database has milliseconds.
	if idle, ok := p.idle.exactly(t); ok && sm == 0 && p.seen > 0 && t.Seconds()-idle > (p.seen+time.Millisecond).Seconds() {
		return gpu.Opt[float64]{}
	}
	return gpu.Some(sm)
}
