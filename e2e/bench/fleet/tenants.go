// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// notebook is a person at a Jupyter kernel: cells bind variables, bind them anew, and compute; in between the person reads, eats
// and sleeps.
type notebook struct {
	size   uint64        // bytes of all variables together, about
	think  time.Duration // between two cells at work
	day    *traffic      // when the person works
	breaks float64       // probability that a cell is the last for hours
	onCell func(p *proc)
}

// notebook draws a person who needs up to that part of the memory.
func (w *world) notebook(lo, hi float64) *notebook {
	return &notebook{
		size: w.share(lo, hi), think: w.span(15*time.Second, 5*time.Minute), day: w.traffic(1, 1.0001),
		breaks: w.u(0.01, 0.1),
	}
}

// run is the program.
func (c *notebook) run(p *proc) step {
	w := p.w
	var variables [8]*alloc.Block
	return func() time.Duration {
		p.rest()
		if w.chance(c.breaks) {
			p.busy(0, 0.005)
			return w.span(20*time.Minute, time.Duration(16/c.day.day(w)*float64(time.Hour)))
		}
		for range w.n(1, 3) {
			i := w.r.IntN(len(variables))
			next := p.alloc(uint64(float64(c.size)/16*w.logu(0.1, 1.9)) + alloc.KiB)
			p.cache.Free(variables[i]) // a name holds its old value until the new one is there
			variables[i] = next
		}
		p.work(uint64(float64(c.size) * w.logu(0.01, 0.4)))
		p.busy(w.u(0.1, 0.95), 1)
		if c.onCell != nil {
			c.onCell(p)
		}
		took := w.span(time.Second, time.Minute)
		if w.chance(0.3) {
			took = w.span(time.Minute, 20*time.Minute)
		}
		wait, next := w.wait(c.think), p.j.step
		p.j.step = func() time.Duration { // the person thinks
			p.rest()
			p.busy(0, 0.01)
			p.j.step = next
			return wait
		}
		return took
	}
}

// kernel returns the job of a notebook. People restart kernels, after errors too, and hubs end those that are idle.
func (w *world) kernel(c *notebook) *job {
	j := &job{main: c.run, owner: w.owner("ipykernel_launcher"), catches: func(p *proc) { p.cache.EmptyCache() }}
	if w.style == kubernetes {
		j.owner.Namespace, j.owner.Pod = "jupyter", "jupyter-"+w.user()+"-"+w.hex(3)
	}
	return j
}

// burst is a program that computes for a time and ends: a batch, a cron job, a worker. It loads, and works on parts of differing
// size that have so many bytes at their peak.
func burst(size uint64, lasts time.Duration, sm float64) program {
	return func(p *proc) step {
		w := p.w
		over := w.now + lasts
		return p.load(size/3, min(lasts/10, time.Minute), func() time.Duration {
			p.rest()
			if w.now >= over {
				return exit
			}
			p.busy(sm, 1)
			p.work(uint64(float64(size) / 3 * w.u(0.2, 1)))
			p.work(uint64(float64(size) / 3 * w.u(0.2, 1)))
			return max(w.sc.Interval, time.Second)
		})
	}
}

// bursts starts such jobs again and again, next apart, each of another size.
func (w *world) bursts(o *gpu.Owner, size uint64, lasts time.Duration, next func() time.Duration) {
	options := alloc.Options{Kind: pick(w, alloc.Caching, alloc.Caching, alloc.Plain)}
	w.every(next, func() {
		if d := w.domains[0].dev; d.Capacity()-d.Used() < size {
			return // the queue waits for room
		}
		main := burst(uint64(float64(size)*w.u(0.3, 1)), w.around(lasts), w.u(0.2, 0.95))
		w.recreated()
		w.start(&job{main: main, owner: o, options: options}, 0)
	})
}

// regular returns the time to the next of jobs that are started by the clock.
func regular(w *world, every time.Duration) func() time.Duration {
	return func() time.Duration { return every - w.clock()%every + w.span(time.Second, 10*time.Second) }
}

// deploys replaces a service again and again: the new one starts, and the old one ends when that is ready. version makes the job
// of a version (0 first).
func (w *world) deploys(every time.Duration, version func(n int) *job) {
	n := 0
	current := w.start(version(0), 0)
	w.every(func() time.Duration { return w.around(every) }, func() {
		n++
		old := current
		current = w.start(version(n), 0)
		w.in(w.span(20*time.Second, 5*time.Minute), old.kill)
	})
}

// neighbours adds healthy programs of others to a third of the scenarios. They take little, so that those of the family have what
// they were drawn for.
func (w *world) neighbours() {
	if w.domains[0].limit != nil {
		w.besides()
		return
	}
	if !w.chance(0.35) {
		return
	}
	switch w.n(0, 4) {
	case 0:
		w.start(w.kernel(w.notebook(0.01, 0.06)), w.span(time.Minute, 8*time.Hour))
	case 1:
		c := w.serving()
		c.weights, c.request = w.share(0.01, 0.05), w.share(0.01, 0.04)/uint64(c.most)
		w.start(w.serviceJob(c.run, alloc.Options{}), 0)
	case 2:
		every := pick(w, 15*time.Minute, time.Hour, 4*time.Hour)
		w.bursts(w.owner("nightly.py"), w.share(0.02, 0.07), every/8, regular(w, every))
	case 3:
		w.start(&job{main: idle, owner: w.owner("python3"), context: w.contextSize()}, w.span(time.Second, 10*time.Hour))
	case 4:
		w.start(&job{main: idle, owner: w.owner("dcgm-exporter"), context: uint64(w.n(4, 40)) * alloc.MiB}, 0)
	}
}

// idle is a program that has made its context and does nothing.
func idle(p *proc) step {
	p.busy(0, 0.001)
	return func() time.Duration { return forever }
}

// store is a database of vectors whose index is on the GPU. It appends chunk by chunk, and copies a list that has become too
// short into one of twice the length.
type store struct {
	chunk   uint64 // bytes of one append
	lists   int
	traffic *traffic // appends
	most    uint64   // bytes until the data is all there; 0 is no end
	onAdd   func(p *proc, n int)
}

// list is one of the lists of an inverted index.
type list struct {
	b    *alloc.Block
	used uint64
}

// run is the program.
func (c *store) run(p *proc) step {
	w := p.w
	lists := make([]list, c.lists)
	total := uint64(0)
	return func() time.Duration {
		d := max(w.sc.Interval, 5*time.Second)
		p.rest()
		n := poisson(w.r, c.traffic.rate(w)*d.Seconds())
		for range min(n, 32) {
			if c.most > 0 && total >= c.most {
				break
			}
			total += lists[w.r.IntN(len(lists))].add(p, c.chunk*uint64(max(1, n/32)))
		}
		if c.onAdd != nil && n > 0 {
			c.onAdd(p, n)
		}
		p.busy(min(1, 0.1+float64(n)/50), 0.5)
		p.work(w.share(0.001, 0.01)) // searches
		return d
	}
}

// add appends bytes to the list, and returns how many it has got longer.
func (l *list) add(p *proc, bytes uint64) uint64 {
	if l.b == nil || l.used+bytes > l.b.Size() {
		longer := p.alloc(max(2*l.used, l.used+bytes))
		if longer == nil {
			return 0
		}
		p.cache.Free(l.b)
		l.b = longer
	}
	l.used += bytes
	return bytes
}
