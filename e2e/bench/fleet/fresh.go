// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet/alloc"
)

// freshFamilies are those that are Fresh, of all classes. The figures are those of the reports.
var freshFamilies = []Family{
	{Name: "compositor_buffers", Class: Leak, About: "A desktop's compositor keeps a buffer of each window that is closed: 4 to 70 MiB each, 0.3 to 75 MiB a minute (pop-os/cosmic-comp issues 1179, 1416 and 1970, pop-os/cosmic-epoch issue 3405).", build: func(w *world) {
		for ; w.total > 24576; w.drawMachine() { // until it is a card of workstations
		}
		w.style = people
		l := w.leak(0.3, 75)
		w.desk("Xwayland", "firefox", "code")
		w.start(&job{main: l.compositor, owner: w.owner("cosmic-comp"), context: uint64(w.n(10, 60)) * alloc.MiB, options: alloc.Options{Kind: alloc.Plain}, restart: systemd}, 0)
	}},
	{Name: "communicators_remade", Class: Leak, About: "A training forms its process groups anew whenever its members change, and NCCL's buffers of the old ones stay: 50 to 960 MiB each time (pytorch/pytorch issue 107298, NVIDIA/nccl issue 964, vllm-project/vllm pull requests 19465 and 46234).", build: trainLeak(1, 300, func(w *world, c *training, l *leak) {
		size := w.logu(50, 960) * alloc.MiB
		l.lib, l.object = true, 4*alloc.MiB               // NCCL_BUFFSIZE
		c.onBegin = func(p *proc) { p.lib(uint64(size)) } // those of the first groups
		c.atRandom(w, time.Duration(size/l.rate*float64(time.Second)), func(p *proc, _ time.Duration) {
			p.drop(p.keep(c.weights/2, c.weights/48+alloc.KiB)) // the checkpoint is read again
			l.owe(p, size)
		})
	})},
	{Name: "sleep_residue", Class: Leak, About: "An engine that shares its GPU with the trainer of its model keeps more at each sleep, because what a generation allocates outside of the pool that sleeps stays: 4, then 12, then 25 GiB (NVIDIA-NeMo/RL issue 2619, with vLLM's sleep mode).", build: func(w *world) {
		l := w.leak(2, float64(w.total)/50) // up to a tenth of the memory in five minutes
		cycle := l.often(30*time.Second, 18*time.Minute)
		l.large(l.per(cycle) / 30)
		w.inTurns(cycle, func(p *proc) { l.owe(p, l.per(cycle)*w.logu(0.3, 2.2)) })
	}},
	{Name: "sleeping_engine", Class: Healthy, About: "An engine generates, sleeps and so gives back its weights and its KV cache, and a trainer works in their place until it wakes up (vLLM's documentation of its sleep mode, huggingface/trl pull request 3968).", build: func(w *world) {
		w.inTurns(w.span(30*time.Second, 18*time.Minute), func(*proc) {})
	}},
	{Name: "ollama_runners", Class: Healthy, About: "A process for each model that is asked for, which ends when nobody has asked for 5 minutes, or before if another model needs its room (Ollama's FAQ: keep_alive, OLLAMA_MAX_LOADED_MODELS).", build: func(w *world) {
		most, keep := pick(w, 1, 2, 3, 3, 3), pick(w, 5*time.Minute, 5*time.Minute, 5*time.Minute, 30*time.Minute, 24*time.Hour, forever)
		models, loaded, owner := make([]runner, w.n(2, 8)), []*runner{}, w.owner("ollama")
		speed, took := w.logu(0.2, 4)*alloc.GiB, w.span(2*time.Second, 2*time.Minute)
		for i := range models {
			size := w.logu(0.03, 0.75) * float64(w.domains[0].dev.Capacity())
			models[i] = runner{size: uint64(size), loads: time.Duration(size / speed * float64(time.Second)), took: took, keep: keep}
		}
		last, asks, other := 0, w.traffic(1.0/3600, 0.1), w.u(0.05, 0.6)
		w.every(func() time.Duration { return w.wait(time.Duration(float64(time.Second) / asks.rate(w))) }, func() {
			if w.chance(other) { // else the same conversation goes on
				last = int(float64(len(models)) * w.u(0, 1) * w.u(0, 1)) // the first ones are asked for more often
			}
			loaded = models[last].ask(w, loaded, most, owner)
		})
	}},
	{Name: "splat_densification", Class: Growing, About: "A scene of Gaussian splats is optimized: each 100 of the first 15,000 of 30,000 iterations copy the tensors into longer ones, about 1 GB for each million splats (graphdeco-inria/gaussian-splatting issue 156, WebODM/OpenSplat issue 15).", build: func(w *world) {
		owner, lasts, most, images := w.owner("train.py"), w.span(20*time.Minute, 24*time.Hour), float64(w.share(0.1, 0.4)), w.share(0.01, 0.2)
		w.neighbours()
		var next func()
		next = func() { // one scene after the other
			s := &splats{images: float64(images), most: most * w.u(0.5, 1), lasts: w.around(lasts), rate: w.u(0.04, 0.12)}
			s.bytes = s.most * w.logu(0.01, 0.3)
			w.start(&job{main: s.run, owner: owner, options: w.torch(), ended: next}, w.span(5*time.Second, 30*time.Minute))
		}
		next()
	}},
}

// compositor is a program that draws windows. Each has two buffers, of which one is kept when it is closed.
func (l *leak) compositor(p *proc) step {
	w := p.w
	kept := w.logu(4, 70) * alloc.MiB
	opened := w.traffic(1, 1.0001)
	opened.mean, opened.swing = l.rate/kept, w.u(0.5, 1)
	lasts := time.Duration(min(w.logu(5, 4*3600), 10/opened.mean) * float64(time.Second)) // so that there are ten at a time
	var windows []session
	p.keep(uint64(w.n(26, 300))*alloc.MiB, 32*alloc.MiB) // the screens
	return func() time.Duration {
		windows = slices.DeleteFunc(windows, func(s session) bool {
			if s.until > w.now {
				return false
			}
			p.cache.Free(s.blocks[0])
			l.hold(p, s.blocks[1])
			return true
		})
		for range poisson(w.r, opened.rate(w)*w.tick().Seconds()) {
			buffers := []*alloc.Block{p.alloc(uint64(kept * w.u(0.3, 2))), p.alloc(uint64(kept))}
			windows = append(windows, session{until: w.now + w.wait(lasts), blocks: buffers})
		}
		p.busy(0.05, 0.1)
		return w.tick()
	}
}

// side is one of two programs that have a GPU in turns.
type side struct {
	always, while, work uint64 // bytes: in both turns, in its own, and of the longest piece of work
	pool, turn          bool   // what it has in its turn is not from its framework's cache; it is its turn
	lasts               time.Duration
	lengths             lengths
	other               *side
	onEnd               func(p *proc) // of its turn
}

// inTurns starts an engine that generates texts and a trainer that learns from them. When one has failed, both begin anew.
func (w *world) inTurns(cycle time.Duration, generated func(p *proc)) {
	peak, long := w.share(0.3, 0.8), pick(w, fixed, lognormal(w.u(0.1, 0.5), w.u(0.3, 0.8))) // half have batches of as many tokens
	engine := &side{always: w.share(0.02, 0.05), work: w.share(0.005, 0.02), pool: true, lasts: scaled(cycle, w.u(0.3, 0.8)), lengths: long, turn: true, onEnd: generated}
	trainer := &side{always: scaled(peak, pick(w, 0, w.u(0.2, 0.5))), lasts: cycle - engine.lasts, lengths: long, onEnd: func(*proc) {}}
	trainer.while = scaled(peak-trainer.always, w.u(0.2, 0.7))
	trainer.work = peak - trainer.always - trainer.while
	engine.while = min(w.share(0.3, 0.9), scaled(w.domains[0].dev.Capacity(), 0.84)-trainer.always-engine.always)
	owner := w.owner("ray::PolicyWorker")
	other := *owner
	other.Process, other.Runs = "ray::VllmWorker", w.runs("ray::VllmWorker")
	var begin func()
	begin = func() {
		e, t := *engine, *trainer
		e.other, t.other = &t, &e
		j := w.start(&job{main: e.run, owner: &other}, w.soon())
		k := w.start(&job{main: t.run, owner: owner, ended: j.kill}, w.soon())
		j.ended = func() { k.kill(); begin() }
	}
	begin()
}

func (c *side) run(p *proc) step {
	w, from, until := p.w, map[bool]*alloc.Allocator{false: p.cache, true: p.native}[c.pool], time.Duration(0)
	var taken []*alloc.Block
	return p.load(c.always, w.span(10*time.Second, 2*time.Minute), func() time.Duration {
		p.rest()
		p.busy(0, 0.05)
		switch {
		case !c.turn:
			return w.tick()
		case len(taken) == 0:
			until = w.now + w.around(c.lasts)
			for range 32 { // layer by layer
				taken = append(taken, p.on(from, c.while/32, 0, 0))
			}
		case w.now >= until:
			c.onEnd(p)
			for _, b := range taken {
				from.Free(b)
			}
			p.cache.EmptyCache()
			taken, c.turn, c.other.turn = taken[:0], false, true
			return w.tick()
		}
		p.busy(w.u(0.5, 1), 1)
		p.works(scaled(c.work, c.lengths.longest(w.r, 16)))
		return w.tick()
	})
}

// runner is the process of a server of language models that has one of them.
type runner struct {
	size                    uint64        // of the model with its cache, in bytes
	loads, took, keep, used time.Duration // used is when it was asked for last
	job                     *job
}

// ask lets a model answer. It is loaded unless it is there, in place of those that nobody has asked for longest; they come first.
func (r *runner) ask(w *world, loaded []*runner, most int, owner *gpu.Owner) []*runner {
	r.used = w.now
	loaded = slices.DeleteFunc(loaded, func(o *runner) bool { return o == r || o.job.over })
	need := r.size + alloc.GiB
	for _, o := range loaded {
		need += o.size + o.job.context
	}
	if r.job == nil || r.job.over {
		for len(loaded) > 0 && (len(loaded) >= most || need >= w.domains[0].dev.Capacity()) {
			need -= loaded[0].size + loaded[0].job.context
			loaded[0].job.kill()
			loaded = loaded[1:]
		}
		r.job = w.start(&job{main: r.run, owner: owner, options: alloc.Options{Kind: alloc.Plain}}, 0)
	}
	return append(loaded, r)
}

func (r *runner) run(p *proc) step {
	return p.load(r.size, r.loads, func() time.Duration {
		idle := p.w.now - r.used
		if idle > r.keep {
			return exit
		}
		p.busy(0, 0.01)
		if idle < r.took {
			p.busy(p.w.u(0.4, 0.98), 1)
		}
		return p.w.tick()
	})
}

// splats is a scene that is optimized.
type splats struct {
	images, bytes, most, rate float64 // bytes of the images, of all splats now and in the end; the share that is added at first
	lasts                     time.Duration
}

func (s *splats) run(p *proc) step {
	w, at, grown := p.w, 0.0, 0 // iterations, and how often the tensors were copied
	var tensors [8]*alloc.Block
	return p.load(uint64(s.images), w.span(5*time.Second, 3*time.Minute), func() time.Duration {
		p.rest()
		if at >= 30000 {
			return exit
		}
		p.busy(w.u(0.7, 1), 1.1)
		d := max(w.tick(), 2*time.Second)
		at += 30000 * d.Seconds() / s.lasts.Seconds() * 2 / (0.5 + 2*s.bytes/s.most) // more splats are slower
		for ; grown < 145 && at >= float64(500+100*grown); grown++ {
			s.bytes *= 1 + s.rate*max(0, 1-s.bytes/s.most)
			if grown%30 == 27 { // their opacity was reset, and those that stay transparent are removed
				s.bytes *= w.u(0.8, 0.98)
			}
			for i, old := range tensors { // of 59 numbers of a splat, 45 are colours, each with a gradient and two moments
				tensors[i] = p.alloc(uint64(s.bytes/4*[]float64{45, 14}[i%2]/59) + alloc.KiB)
				p.cache.Free(old)
			}
			p.cache.EmptyCache()
		}
		p.works(uint64(s.bytes*float64(w.n(4, 24))/80) + alloc.MiB) // those that one of the cameras sees
		return d
	})
}
