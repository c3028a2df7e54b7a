// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// limitHealthy are programs that rest at their limit, or near it.
var limitHealthy = []Family{
	{Name: "vllm", About: "A server of a language model fills 90 to 97 % of its limit with its KV cache, after it has measured what a batch needs (vLLM's gpu_memory_utilization).", build: func(w *world) {
		w.preallocating()
	}},
	{Name: "vllm_restarts", About: "The same, and each new version of it takes the place of the old one in the container.", build: func(w *world) {
		j, every := w.preallocating(), w.span(time.Hour, 12*time.Hour)
		w.every(func() time.Duration { return w.around(every) }, func() { j.reset(w.span(5*time.Second, 2*time.Minute)) })
	}},
	{Name: "lazy_graphs", About: "A server preallocates 85 to 90 %, and records a CUDA graph for each shape when it comes first.", build: func(w *world) {
		c := w.serving()
		g := graphs{seen: map[int]bool{}, most: w.n(8, 35)}
		g.size = w.share(0.06, 0.12) / uint64(g.most)
		c.preallocates(w, w.u(0.85, 0.90))
		begin := c.onBegin
		c.onBegin = func(p *proc) { clear(g.seen); begin(p) }
		c.onRequests = func(p *proc, _ int) { g.capture(p, w.u(0.01, 1)) }
		w.serve(c.run, c.options)
	}},
	{Name: "triton", About: "A server loads one model after the other, each with its arena, until 90 to 97 % are taken; now and then it loads one anew.", build: func(w *world) {
		most, n, ctx := w.u(0.90, 0.97), w.n(3, 9), w.contextSize()
		size := (w.share(most, most) - ctx - 128*alloc.MiB) / uint64(n)
		apart, reload := w.span(5*time.Second, 3*time.Minute), w.span(time.Hour, 24*time.Hour)
		run := func(p *proc) step {
			models, next := make([][]*alloc.Block, 0, n), w.now+w.around(reload)
			p.lib(64 * alloc.MiB)
			return func() time.Duration {
				p.rest()
				switch i := w.n(0, n-1); {
				case len(models) < n:
					p.busy(0.05, 1)
					models = append(models, p.keep(size, size/9+alloc.KiB))
					return w.around(apart)
				case w.now >= next:
					next = w.now + w.around(reload)
					p.drop(models[i])
					models[i] = p.keep(size, size/9+alloc.KiB)
				}
				p.busy(w.u(0.1, 0.9), 1)
				p.work(uint64(w.n(1, 16)) * alloc.MiB)
				return w.tick()
			}
		}
		w.neighbours()
		j := w.serviceJob(run, alloc.Options{Kind: alloc.Plain})
		j.context = ctx
		w.start(j, w.soon())
	}},
	{Name: "jax_fraction", About: "A program in JAX preallocates its fraction of the limit (XLA_PYTHON_CLIENT_MEM_FRACTION).", build: func(w *world) {
		c, ctx := w.training(), w.contextSize()
		most := w.u(0.90, 0.98)
		c.acts /= 2
		c.options = alloc.Options{Kind: alloc.BFC, Preallocate: w.share(most, most) - ctx - 128*alloc.MiB}
		j := c.job(w)
		j.context = ctx
		w.neighbours()
		w.start(j, w.soon())
	}},
	{Name: "tensorflow_grows", About: "A training in TensorFlow takes regions that double, up to its limit of 90 to 97 %.", build: func(w *world) {
		c, ctx := w.training(), w.contextSize()
		most := w.u(0.90, 0.97)
		c.variable(w).acts = w.share(0.6, 0.7) - c.weights - min(c.states, w.share(0.2, 0.2))
		c.options = alloc.Options{Kind: alloc.BFC, Limit: w.share(most, most) - ctx - 128*alloc.MiB}
		j := c.job(w)
		j.context = ctx
		w.neighbours()
		w.start(j, w.soon())
	}},
	{Name: "cache_fills_and_is_freed", About: "A training of variable length whose caching allocator fills up to the limit, and gives its cache back where an allocation fails.", build: func(w *world) {
		w.fullCache(0.98, alloc.Options{})
	}},
	{Name: "cache_is_collected", About: "The same with garbage_collection_threshold and a memory fraction.", build: func(w *world) {
		w.fullCache(0.86, alloc.Options{Limit: w.share(0.90, 0.94), GCThreshold: w.u(0.7, 0.95)})
	}},
	{Name: "cache_is_emptied", About: "The same, and each evaluation ends with torch.cuda.empty_cache.", build: func(w *world) {
		c := w.fullCache(0.98, alloc.Options{Expandable: w.chance(0.3)})
		c.evalEvery, c.onEval = w.span(5*time.Minute, 2*time.Hour), func(p *proc) { p.cache.EmptyCache() }
	}},
	{Name: "day_and_night", About: "A server of conversations that fill some 80 to 95 % of its limit at the busiest hour.", build: func(w *world) {
		c, ctx := w.chat(), w.contextSize()
		c.most = w.n(100, 300)
		c.weights = w.share(0.3, 0.6)
		parts := uint64(c.most) * 15 / 4 // that they have together
		c.state = (w.share(0.82, 0.88) - c.weights - c.weights/20 - ctx) / parts * 8
		w.end = max(w.end, 24*time.Hour)
		c.traffic.swing = w.u(0.6, 0.95)
		c.traffic.mean = w.u(0.6, 1) * float64(c.most) / c.lasts.Seconds()
		w.neighbours()
		j := w.serviceJob(c.run, alloc.Options{Kind: pick(w, alloc.Plain, alloc.Caching)})
		j.context = ctx
		w.start(j, w.soon())
	}},
	{Name: "workers", About: "Several workers in a pod that preallocate 90 to 96 % together, and end after some hundred tasks.", build: func(w *world) {
		n, ctx, owner, life := w.n(2, 5), w.contextSize()/2, w.owner("gunicorn"), w.span(30*time.Minute, 12*time.Hour)
		c := w.serving().shrink(uint64(n))
		c.preallocates(w, w.u(0.90, 0.96)/float64(n))
		w.neighbours()
		for range n {
			j := w.start(&job{main: c.run, owner: owner, options: c.options, context: ctx, restart: kubelet}, w.soon())
			w.every(func() time.Duration { return w.around(life) }, func() { j.reset(w.span(time.Second, 10*time.Second)) })
		}
	}},
	{Name: "model_cache", About: "A server loads models as they are asked for, and drops the one that nobody has asked for longest where 90 to 97 % are taken.", build: func(w *world) {
		full, ctx, models := w.u(0.90, 0.97), w.contextSize(), w.n(8, 20)
		var sizes []uint64
		for range models {
			sizes = append(sizes, w.share(0.04, 0.2))
		}
		run := func(p *proc) step {
			type loaded struct {
				model  int
				blocks []*alloc.Block
			}
			var list []loaded // the one that was asked for longest ago first
			return func() time.Duration {
				p.rest()
				i, at := int(float64(models)*w.u(0, 1)*w.u(0, 1)), -1
				for k := range list {
					if list[k].model == i {
						at = k
					}
				}
				if at >= 0 {
					list = append(append(list[:at:at], list[at+1:]...), list[at])
				} else {
					for len(list) > 0 && p.used()+sizes[i]+128*alloc.MiB > w.share(full, full) {
						p.drop(list[0].blocks)
						list = list[1:]
					}
					list = append(list, loaded{i, p.keep(sizes[i], sizes[i]/16+alloc.KiB)})
				}
				p.busy(w.u(0.1, 0.9), 1)
				p.work(uint64(w.n(1, 16)) * alloc.MiB)
				return w.around(30 * time.Second)
			}
		}
		w.neighbours()
		j := w.serviceJob(run, alloc.Options{Kind: alloc.Plain})
		j.context = ctx
		w.start(j, w.soon())
	}},
}

// preallocates lets each process of a service measure what its largest batch needs, and fill that part (0 to 1) of the limit with its
// KV cache. A little more comes and goes with the requests.
func (c *serving) preallocates(w *world, part float64) {
	full := w.share(part, part)
	c.weights, c.request = scaled(full, w.u(0.2, 0.6)), scaled(full, w.u(0.02, 0.08))/uint64(c.most)
	c.options = alloc.Options{}
	c.onBegin = func(p *proc) {
		p.rest()
		p.works(c.request * uint64(c.most))
		p.rest()
		if cache := full - min(full, p.used()); cache > 64*alloc.MiB {
			p.keep(cache, cache/uint64(w.n(20, 80))+1)
		}
	}
}

// preallocating starts such a server.
func (w *world) preallocating() *job {
	c := w.serving()
	c.preallocates(w, w.u(0.90, 0.97))
	var wobble *alloc.Block
	begin := c.onBegin
	c.onBegin = func(p *proc) { wobble = nil; begin(p) }
	c.onRequests = func(p *proc, _ int) { // of libraries
		p.native.Free(wobble)
		wobble = p.lib(uint64(w.n(1, 24)) * alloc.MiB)
	}
	return w.serve(c.run, c.options)
}

// fullCache starts a training that would fit into the limit if its allocator did not cache: it has up to that part (0 to 1) of it.
func (w *world) fullCache(most float64, o alloc.Options) *training {
	c := w.training().variable(w)
	peak := w.share(most-0.08, most) - 700*alloc.MiB // of its context and libraries
	c.weights, c.states = peak/8, peak/4
	c.acts = peak - c.weights - c.states
	c.evalActs = c.acts / 2
	c.options = o
	w.neighbours()
	w.start(c.job(w), w.soon())
	return c
}
