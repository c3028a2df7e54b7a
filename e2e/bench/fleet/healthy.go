// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// Ordinary healthy use.
var healthyFamilies = []Family{
	{Name: "train_fixed_length", About: "A training with padded inputs, evaluations and checkpoints.", build: healthyTraining(func(*world, *training) {})},
	{Name: "train_variable_length", About: "A training whose batches differ in length, in PyTorch's allocator with its defaults.", build: healthyTraining(func(w *world, c *training) {
		c.variable(w).options = alloc.Options{}
	})},
	{Name: "train_expandable_segments", About: "The same with expandable segments.", build: healthyTraining(func(w *world, c *training) {
		c.variable(w).options = alloc.Options{Expandable: true}
	})},
	{Name: "train_bounded_cache", About: "The same with max_split_size, or garbage collection above a threshold.", build: healthyTraining(func(w *world, c *training) {
		c.variable(w).options = pick(w,
			alloc.Options{MaxSplit: uint64(pick(w, 32, 128, 512)) * alloc.MiB},
			alloc.Options{Limit: w.share(0.8, 1), GCThreshold: w.u(0.6, 0.9)})
	})},
	{Name: "train_compile", About: "A training that torch.compile recompiles for some shapes in its first minutes.", build: healthyTraining(func(w *world, c *training) {
		c.variable(w).compiles = w.n(2, 20)
	})},
	{Name: "train_bfc", About: "A training in TensorFlow or JAX, half of them with preallocated memory.", build: healthyTraining(func(w *world, c *training) {
		if w.chance(0.5) {
			c.variable(w)
		}
		c.acts /= 2 // its regions double
		c.options = w.bfc(0.5)
	})},
	{Name: "train_empty_cache", About: "A training that empties the cache after each evaluation.", build: healthyTraining(func(w *world, c *training) {
		c.variable(w).evalEvery = w.span(3*time.Minute, time.Hour)
		c.onEval = func(p *proc) { p.cache.EmptyCache() }
	})},
	{Name: "collected_cycles", About: "Reference cycles that Python's collector frees minutes later (documentation of the gc module).", build: healthyTraining(func(w *world, c *training) {
		every := w.span(30*time.Second, 90*time.Minute)
		most := float64(w.share(0.02, 0.15))
		garbage := most / every.Seconds() // bytes per second
		var cycles []*alloc.Block
		var next time.Duration
		owed, part := 0.0, max(w.logu(1, 64)*alloc.MiB, most/1000)
		c.onBegin = func(*proc) { cycles, next, owed = nil, w.now+w.around(every), 0 }
		c.onStep = func(p *proc, n int) {
			for owed += garbage * c.each.Seconds() * float64(n); owed >= part; owed -= part {
				cycles = append(cycles, p.alloc(uint64(part)))
			}
			if w.now >= next {
				p.drop(cycles)
				cycles, next = cycles[:0], w.now+w.around(every)
			}
		}
	})},
	{Name: "train_near_capacity", About: "Variable lengths in a memory that is barely large enough; batches that fail are skipped.", build: func(w *world) {
		c := w.training()
		c.options = alloc.Options{}
		c.acts = w.share(0.85, 1.02) - c.weights - c.states
		c.evalActs = c.acts / 2
		c.lengths = lognormal(w.u(0.1, 0.3), w.u(0.3, 0.6))
		j := c.job(w)
		j.catches = func(p *proc) { p.cache.EmptyCache() }
		w.start(j, w.soon())
	}},
	{Name: "ddp_ranks", About: "Several ranks on one GPU.", build: func(w *world) {
		n := w.n(2, 4)
		c := w.training().variable(w).shrink(uint64(n))
		at := w.soon()
		for range n {
			w.start(c.job(w), at+w.span(time.Second, 5*time.Second))
		}
	}},
	{Name: "hyperparameter_sweep", About: "Jobs of one array, one after the other, of any size.", build: func(w *world) {
		w.sequence(w.owner("sweep.py"), func(int) float64 { return w.u(0.1, 0.75) }, w.span(5*time.Minute, 6*time.Hour))
	}},
	{Name: "growing_sweep", About: "A search for the largest batch: each job takes more than the last.", build: func(w *world) {
		from, steps := w.u(0.05, 0.2), w.n(5, 14)
		size := func(i int) float64 { return min(0.8, from+(0.8-from)*float64(i%steps)/float64(steps)) }
		w.sequence(w.owner("tune.py"), size, w.span(5*time.Minute, 3*time.Hour))
	}},
	{Name: "serve_batches", About: "A service with dynamic batches under a day's traffic.", build: func(w *world) { w.serve(w.serving().run, w.torch()) }},
	{Name: "serve_plain", About: "A service that allocates by cudaMalloc for each batch.", build: func(w *world) { w.serve(w.serving().run, alloc.Options{Kind: alloc.Plain}) }},
	{Name: "serve_preallocated", About: "A service that takes 85 to 95 % of the memory for its KV cache at its start, as vLLM does (gpu_memory_utilization).", build: func(w *world) {
		c := w.serving()
		c.weights, c.request = w.share(0.1, 0.4), w.share(0.02, 0.06)/uint64(c.most)
		cache := w.share(0.85, 0.95) - c.weights - c.request*uint64(c.most) - 2*alloc.GiB
		g := graphs{seen: map[int]bool{}, most: w.n(8, 35), size: w.share(0.0003, 0.001)}
		c.onBegin = func(p *proc) {
			p.keep(cache, cache/64+1)
			clear(g.seen)
			for i := range g.most { // graphs of all batch sizes, at the start
				g.capture(p, float64(i+1)/float64(g.most))
			}
		}
		w.start(w.serviceJob(c.run, alloc.Options{}), w.soon())
	}},
	{Name: "serve_conversations", About: "Sessions that hold a KV cache while they last.", build: func(w *world) { w.serve(w.chat().run, w.torch()) }},
	{Name: "serve_autoscaled_models", About: "Models that are loaded when they are asked for and unloaded when they idle.", build: func(w *world) {
		c := w.serving()
		models := make([][]*alloc.Block, w.n(3, 8))
		size := w.share(0.25, 0.5) / uint64(len(models))
		used := make([]time.Duration, len(models))
		idle, asked := w.span(5*time.Minute, 2*time.Hour), w.span(time.Minute, time.Hour)
		c.weights /= 2
		c.onBegin = func(*proc) { clear(models) }
		c.onRequests = func(p *proc, _ int) {
			for i := range models {
				if w.chance(min(1, w.tick().Seconds()/asked.Seconds()/float64(i+1))) {
					used[i] = w.now
					if models[i] == nil {
						models[i] = p.keep(size, size/12+alloc.KiB)
					}
				} else if models[i] != nil && w.now-used[i] > idle {
					p.drop(models[i])
					p.cache.EmptyCache()
					models[i] = nil
				}
			}
		}
		w.serve(c.run, alloc.Options{})
	}},
	{Name: "rolling_deploys", About: "New versions start beside the old ones.", build: func(w *world) {
		o := w.torch()
		w.deploys(w.span(20*time.Minute, 12*time.Hour), func(int) *job { return w.serviceJob(w.serving().shrink(2).run, o) })
	}},
	{Name: "recycled_workers", About: "Workers that end after some hundred tasks, as with max_requests of gunicorn.", build: func(w *world) {
		n := w.n(2, 6)
		c := w.serving().shrink(uint64(n))
		owner, life := w.owner("gunicorn"), w.span(10*time.Minute, 8*time.Hour)
		for range n {
			j := w.start(&job{main: c.run, owner: owner, restart: kubelet}, w.span(time.Second, time.Minute))
			w.every(func() time.Duration { return w.around(life) }, func() { j.reset(w.span(time.Second, 10*time.Second)) })
		}
	}},
	{Name: "batch_workers", About: "Short jobs from a queue.", build: func(w *world) {
		every := w.span(time.Minute, time.Hour)
		w.bursts(w.owner("celery"), w.share(0.05, 0.3), every, func() time.Duration { return w.wait(every) + time.Second })
		w.neighbours()
	}},
	{Name: "cron_jobs", About: "Jobs by the clock beside a service.", build: func(w *world) {
		w.start(w.serviceJob(w.serving().shrink(2).run, w.torch()), w.soon())
		for range w.n(1, 3) {
			every := pick(w, 5*time.Minute, 15*time.Minute, time.Hour, 6*time.Hour, 24*time.Hour)
			w.bursts(w.owner("nightly.py"), w.share(0.02, 0.12), every/time.Duration(w.n(3, 20)), regular(w, every))
		}
	}},
	{Name: "notebooks", About: "Several people with a kernel each on one GPU.", build: func(w *world) {
		n := w.n(2, 5)
		for range n {
			j := w.start(w.kernel(w.notebook(0.2/float64(n), 0.7/float64(n))), w.span(time.Second, 6*time.Hour))
			every := w.span(2*time.Hour, 48*time.Hour)
			w.every(func() time.Duration { return w.wait(every) }, func() { j.reset(w.span(5*time.Second, 10*time.Minute)) })
		}
	}},
	{Name: "preprocessing", About: "Data in parts of differing size through a plain allocator.", build: func(w *world) {
		part, size := w.span(10*time.Second, 40*time.Minute), w.share(0.1, 0.6)
		run := func(p *proc) step {
			done, total := 0, 1
			return func() time.Duration {
				if done++; done >= total { // a part is done: the tables of the next one
					p.rest()
					done, total = 0, w.n(5, 40)
				}
				p.busy(w.u(0.2, 0.9), w.u(1, 8))
				p.work(uint64(float64(size) / 50 * w.u(0.2, 1)))
				return max(w.around(part/20), 100*time.Millisecond)
			}
		}
		w.neighbours()
		w.start(&job{main: run, owner: w.owner("etl.py"), options: alloc.Options{Kind: pick(w, alloc.Plain, alloc.Caching)}}, w.soon())
	}},
	{Name: "crash_loop", About: "A service whose configuration is wrong ends soon after each start.", build: func(w *world) {
		c := w.serving()
		life := w.span(5*time.Second, 5*time.Minute)
		run := func(p *proc) step {
			return p.load(c.weights, life, func() time.Duration {
				p.failed = true // any other error than one of memory
				return life
			})
		}
		r := w.supervised()
		if r == never {
			r = systemd
		}
		w.neighbours()
		w.start(&job{main: run, owner: w.owner("serve.py"), restart: r}, w.soon())
	}},
	{Name: "mig_tenants", About: "Healthy programs in the GPU instances.", build: func(w *world) {
		w.divide()
		w.start(w.serviceJob(w.serving().run, w.torch()), w.soon())
		w.migTenants(1)
	}},
	{Name: "desktop", About: "A workstation with a desktop, a browser and now and then a program that computes.", build: func(w *world) {
		w.style = people
		w.desk("Xorg", "gnome-shell", "firefox", "code")
		every := w.span(time.Hour, 8*time.Hour)
		w.bursts(w.owner("blender"), w.share(0.1, 0.5), every/4, func() time.Duration { return w.around(every) })
	}},
}

// desk starts programs that draw on a screen.
func (w *world) desk(names ...string) {
	for _, name := range names {
		c := w.notebook(0.005, 0.03)
		c.think, c.breaks = w.span(5*time.Second, time.Minute), 0.01
		w.start(&job{main: c.run, owner: w.owner(name), context: uint64(w.n(4, 60)) * alloc.MiB, options: alloc.Options{Kind: alloc.Plain}, restart: systemd}, 0)
	}
}

// healthyTraining sets up a training in which nothing leaks.
func healthyTraining(build func(w *world, c *training)) func(w *world) {
	return func(w *world) {
		c := w.training()
		if w.chance(0.3) {
			c.steps = scaled(w.span(time.Hour, 48*time.Hour), w.life.Data)
		}
		build(w, c)
		w.neighbours()
		w.start(c.job(w), w.soon())
	}
}

// sequence starts jobs of one owner one after the other; size tells the part (0 to 1) of the memory that number i takes.
func (w *world) sequence(o *gpu.Owner, size func(i int) float64, lasts time.Duration) {
	i := 0
	var next func()
	next = func() {
		c := w.training()
		peak := float64(w.domains[0].dev.Capacity()) * size(i)
		c.weights, c.states, c.acts = uint64(peak/6), uint64(peak/3), uint64(peak/2)
		c.evalActs, c.steps, c.owner = c.acts/2, w.around(lasts), o
		w.recreated()
		i++
		j := c.job(w)
		j.ended = next
		w.start(j, w.span(5*time.Second, 5*time.Minute))
	}
	next()
}
