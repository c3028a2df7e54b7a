// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import "time"

// pool is a group of workers that are recycled. No worker leaks by itself: each
// has the same memory from its start to its end. What leaks is the group:
// because each worker takes over from the one before a state that grows
// (sessions, an index that is loaded again), or because some workers that were to
// end hang there, with all they have.
type pool struct {
	node    *node
	program program
	group   string
	crew    *crew
	// rate is in MiB/s; lingers is how likely a worker hangs at its end, 0 for a
	// pool whose state grows.
	rate, lingers float64
	life          float64 // seconds
	inherited     []float64
	began         time.Duration
	loss          *loss
	generation    int
}

// workerPool is a leak of the group alone.
func workerPool(n *node) {
	n.bare = false
	n.some()
	o := &pool{node: n, group: n.name("workers"), rate: n.pace(), life: n.About(120, 1500)}
	count := 2 + n.IntN(5)
	size := min(n.take(n.Between(0.15, 0.45))/float64(count), n.About(600, 6000))
	g := n.server(size, n.steadyLoad())
	g.prep, g.loading, g.caching = n.About(0.5, 4), n.About(0.5, 8), false
	g.work.spread = min(g.work.spread, 0.1)
	o.program = g
	if n.Chance(0.4) && o.rate*n.labels.Length.Seconds() > 8*size {
		// As many hang as make up the rate, if that can be.
		o.lingers = min(o.rate*o.life/(size*float64(count)), 0.8)
	}
	o.inherited = make([]float64, count)
	o.open(n.Chance(0.5))
}

// open starts all workers; a leak begins with it. old says that they have run
// since before the story.
func (o *pool) open(old bool) {
	n := o.node
	o.generation++
	o.crew = &crew{name: o.group}
	o.began = n.now
	o.loss = n.leak(nil, 0, 0)
	o.loss.group, o.loss.mend, o.loss.bytes = o.group, o.shut, 0
	o.loss.old, o.loss.fromStart = old, old
	for i := range o.inherited {
		o.inherited[i] = 0
		age := time.Duration(0)
		if old {
			age = span(n.Between(0, o.life)) + time.Second
		}
		o.spawn(i, age)
	}
}

// shut ends all workers, and after a while the pool is opened again.
func (o *pool) shut() {
	n := o.node
	if !o.loss.open {
		return
	}
	o.loss.stop(n)
	o.generation++
	for _, p := range n.processes {
		if p.crew == o.crew {
			n.end(p)
		}
	}
	n.after(span(n.About(5, 600)), func() { o.open(false) })
}

// spawn starts the worker of a slot.
func (o *pool) spawn(slot int, age time.Duration) {
	n := o.node
	g := o.program
	if o.lingers == 0 {
		state := o.rate * (n.now - o.began).Seconds() / float64(len(o.inherited))
		if more := state - o.inherited[slot]; more > 0 {
			o.loss.add(more, n.now)
			o.inherited[slot] = state
		}
		g.weights += o.inherited[slot]
	}
	p := n.launch(g, o.group, age, nil)
	p.crew = o.crew
	generation := o.generation
	p.onEnd = func() {
		if generation != o.generation {
			return
		}
		if p.failed {
			o.shut()
			return
		}
		n.after(span(n.Between(0.1, 3)), func() {
			if generation == o.generation {
				o.spawn(slot, 0)
			}
		})
	}
	p.after(max(o.life*n.Between(0.85, 1.15)-age.Seconds(), 1), func() { o.recycle(p) })
}

// recycle ends a worker, or lets it hang.
func (o *pool) recycle(p *process) {
	n := o.node
	if o.lingers == 0 || !n.Chance(o.lingers) || p.Used == 0 {
		n.end(p)
		return
	}
	again := p.onEnd
	p.onEnd = nil
	p.freeze(Alive, 0)
	o.loss.add(float64(p.Used)/mib, n.now)
	again()
}
