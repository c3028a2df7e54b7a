// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// Healthy use whose memory grows for hours, up to a bound.
var growingFamilies = []Family{
	{Name: "cache_to_its_bound", About: "A cache with eviction of the least recently used fills until its bound.", build: func(w *world) { w.serveFilling(w.filling(), w.chance(0.5), w.backend()) }},
	{Name: "sorted_batches", About: "Inputs sorted by length, shortest first: the memory grows for an epoch (group_by_length and bucketing samplers).", build: healthyTraining(func(w *world, c *training) {
		epoch := w.hours()
		shape := w.u(0.7, 3)
		c.scale = func(p *proc) float64 {
			at := float64((w.now-p.started)%epoch) / float64(epoch)
			return w.life.Longest * (0.1 + 0.9*math.Pow(at, shape))
		}
		emptied := w.chance(0.5)
		c.evalEvery = epoch
		c.onEval = func(p *proc) {
			if emptied {
				p.cache.EmptyCache()
			}
		}
	})},
	{Name: "curriculum", About: "The length of the inputs is raised in stages, as in DeepSpeed's curriculum learning.", build: healthyTraining(func(w *world, c *training) {
		stages, over := float64(w.n(4, 60)), w.hours()
		from := w.u(0.1, 0.4)
		c.scale = func(p *proc) float64 {
			at := min(1, float64(w.now-p.started)/float64(over))
			return w.life.Longest * (from + (1-from)*math.Floor(at*stages)/stages)
		}
	})},
	{Name: "index_build", About: "An index of vectors is filled until all data is in.", build: func(w *world) {
		c := &store{lists: w.n(1, 64), traffic: w.traffic(0.2, 10), most: scaled(w.share(0.2, 0.5), w.life.Data)}
		c.traffic.swing, c.traffic.noise = 0, 0.1
		c.chunk = uint64(float64(c.most)/(c.traffic.mean*w.hours().Seconds())) + alloc.KiB
		w.serve(c.run, alloc.Options{Kind: pick(w, alloc.Plain, alloc.Caching)})
	}},
	{Name: "prefix_cache_warming", About: "A cache of KV blocks outside of a preallocated pool warms with the traffic.", build: func(w *world) {
		f := w.filling()
		f.part = uint64(w.n(1, 32)) * 256 * alloc.KiB // blocks of 16 tokens
		f.part = max(f.part, f.most/20000)
		w.serveFilling(f, true, alloc.Options{})
	}},
	{Name: "graphs_to_a_bound", About: "CUDA graphs are recorded for each shape of a finite set.", build: func(w *world) {
		c := w.serving()
		c.weights = c.weights * 2 / 3
		g := graphs{seen: map[int]bool{}, most: w.n(20, 400)}
		g.size = w.share(0.1, 0.5) / uint64(g.most)
		gap := w.hours() / time.Duration(2*g.most) // the last shapes are rare
		c.onBegin = func(*proc) { clear(g.seen) }
		c.onRequests = func(p *proc, _ int) {
			for range min(20, poisson(w.r, w.tick().Seconds()/gap.Seconds())) {
				g.capture(p, w.u(0.001, 1))
			}
		}
		w.serve(c.run, alloc.Options{})
	}},
	{Name: "replay_buffer_to_its_bound", About: "A replay buffer fills, and then drops the oldest.", build: healthyTraining(func(w *world, c *training) { c.filling(w, w.filling(), false) })},
	{Name: "adapters_to_a_bound", About: "Adapters are loaded as they are asked for, up to a number (vLLM's max_loras).", build: func(w *world) {
		f := w.filling()
		f.part = f.most / uint64(w.n(4, 40))
		w.serveFilling(f, w.chance(0.7), w.torch())
	}},
	{Name: "progressive_unfreezing", About: "Layers are unfrozen one after the other, each with gradients and states.", build: healthyTraining(func(w *world, c *training) {
		layers, over := w.n(4, 24), w.hours()
		more := (c.states + c.acts/3) / uint64(layers)
		c.states, c.acts = c.states/5, c.acts*2/3
		done := 0
		c.onBegin = func(*proc) { done = 0 }
		c.onStep = func(p *proc, _ int) {
			if done < layers && w.now-p.started > over*time.Duration(done+1)/time.Duration(layers) {
				done++
				p.keep(more, more/12+alloc.KiB)
			}
		}
	})},
	{Name: "longest_input_yet", About: "Rare long inputs raise what the allocator has reserved, more and more rarely.", build: healthyTraining(func(w *world, c *training) {
		c.batch = w.n(1, 4)
		c.lengths = lognormal(w.u(0.01, 0.05), w.u(0.6, 0.9))
		c.acts = w.share(0.4, 0.6)
		c.evalEvery = 0
		c.options = alloc.Options{Expandable: w.chance(0.3)}
	})},
	{Name: "dynamic_embeddings", About: "A table on the GPU gets a row for each new key, up to its capacity.", build: healthyTraining(func(w *world, c *training) { c.filling(w, w.filling(), true) })},
	{Name: "people_arriving", About: "In the morning one kernel after the other is started; in the evening they are ended.", build: func(w *world) {
		n := w.n(5, 12)
		for range n {
			c := w.notebook(0.2/float64(n), 0.5/float64(n))
			comes := time.Duration(w.u(7, 14) * float64(time.Hour))
			begin := func() {
				j := w.start(w.kernel(c), 0)
				w.in(w.span(4*time.Hour, 10*time.Hour), j.kill)
			}
			arrive := func() time.Duration {
				d := comes + w.span(time.Minute, time.Hour) - w.clock()%(24*time.Hour)
				if d <= 2*time.Hour { // not twice a day
					d += 24 * time.Hour
				}
				return d
			}
			w.every(arrive, begin)
		}
	}},
}

// fill is a store that takes parts until it is full, and then takes one for another. It is full after about that time.
type fill struct {
	most   uint64 // bytes
	part   uint64
	full   time.Duration
	blocks []*alloc.Block
	owed   float64
}

// hours draws how long something grows: some of it is seen to its end.
func (w *world) hours() time.Duration {
	return max(time.Hour, time.Duration(w.u(0.3, 1.6)*float64(w.end)))
}

// filling draws one.
func (w *world) filling() *fill {
	f := &fill{most: w.share(0.05, 0.35), full: w.hours()}
	f.part = max(f.most/uint64(w.logu(100, 4000)), 16*alloc.KiB)
	return f
}

// take adds what comes in a time in which a share of the usual traffic (1 on average) came. slow says that it gets rarer as the
// store fills.
func (f *fill) take(p *proc, d time.Duration, share float64, slow bool) {
	full := float64(len(f.blocks)) * float64(f.part) / float64(f.most)
	if full >= 1 {
		if len(f.blocks) > 0 && p.w.chance(0.2) { // one for another of its size
			i := p.w.r.IntN(len(f.blocks))
			p.cache.Free(f.blocks[i])
			f.blocks[i] = p.alloc(f.part)
		}
		return
	}
	if slow {
		share *= max(0.02, 1.6*(1-full))
	}
	f.owed += float64(f.most) * share * d.Seconds() / f.full.Seconds()
	for ; f.owed >= float64(f.part) && !p.failed; f.owed -= float64(f.part) {
		f.blocks = append(f.blocks, p.alloc(f.part))
	}
}

func (f *fill) clear(*proc) { f.blocks, f.owed = nil, 0 }

// serveFilling starts a service that fills a store as requests come.
func (w *world) serveFilling(f *fill, slow bool, o alloc.Options) {
	c := w.serving()
	c.weights, c.request = c.weights*2/3, c.request/3
	c.onBegin = f.clear
	c.onRequests = func(p *proc, n int) {
		d := w.tick()
		f.take(p, d, float64(n)/(c.traffic.mean*d.Seconds()), slow)
	}
	w.serve(c.run, o)
}

// filling lets a training fill a store.
func (c *training) filling(w *world, f *fill, slow bool) {
	c.weights, c.acts = c.weights*2/3, c.acts*2/3
	c.onBegin = f.clear
	c.onStep = func(p *proc, n int) { f.take(p, time.Duration(n)*c.each, w.u(0.3, 1.7), slow) }
}
