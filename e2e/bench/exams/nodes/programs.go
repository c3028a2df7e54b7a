// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"math"
	"time"
)

// program is what a process is started from. Memory is in MiB.
type program struct {
	name string
	// context is CUDA's own with the libraries' code and workspaces, weights what
	// is loaded in loading seconds after prep seconds of imports, pool what is
	// reserved at once after it (a KV cache, the pool of a framework).
	context, weights, pool float64
	prep, loading          float64
	// most is what a cache fills at pace (1/s), straight or ever slower.
	most, pace float64
	straight   bool
	work       activity
	load       *load
	caching    bool
	chunk      float64
	// memory is for how many seconds the noise of its working memory remembers.
	memory float64
}

func (g *program) size() float64 {
	return g.context + g.weights + g.pool + g.most + g.work.need*(1+2.5*g.work.spread)
}

// base draws what all programs have: a context of 200 to 600 MiB, which cuBLAS and
// cuDNN make larger on large GPUs.
func (n *node) base(size float64) program {
	return program{
		context: min(n.Between(180, 620), size*0.5),
		prep:    n.About(1, 20), loading: n.About(3, 120), memory: n.About(15, 900), chunk: 2,
	}
}

// torch makes it use the caching allocator of PyTorch: from the driver it gets
// segments of 2 MiB for small, 20 MiB for large tensors, and larger ones in whole
// 2 MiB (documentation of CUDA semantics, c10/cuda/CUDACachingAllocator.cpp).
func (n *node) torch(g *program) {
	g.caching, g.chunk = true, n.Pick([]float64{2, 20, 20, 20, 64})
}

// server is an inference server as TorchServe, Triton or one of one's own.
func (n *node) server(size float64, l *load) program {
	g := n.base(size)
	rest := size - g.context
	g.weights = rest * n.Between(0.35, 0.8)
	spread := n.Between(0.03, 0.35)
	g.work = activity{
		rate: n.About(0.05, 60), sm: n.Between(0.1, 0.9), jitter: n.Between(0.1, 0.4),
		cores: n.About(0.1, 2), idle: n.About(0.001, 0.05),
		need: (rest - g.weights) / (1 + 2.5*spread), spread: spread,
	}
	g.load = l
	if n.Chance(0.25) {
		// Some small cache fills for long: kernels, shapes, adapters.
		g.most, g.pace = g.weights*n.About(0.01, 0.15), 1/n.About(600, 20000)
		g.weights -= g.most
	}
	if n.Chance(0.75) {
		n.torch(&g)
	}
	g.name = "serve"
	return g
}

// engine is vLLM or the like: gpu_memory_utilization of the GPU is reserved at the
// start, the KV cache lives inside (vLLM, Engine Arguments and Optimization). What
// still grows are CUDA graphs and workspaces for shapes seen first.
func (n *node) engine(size float64, l *load) program {
	g := n.base(size)
	rest := size - g.context
	g.weights = rest * n.Between(0.25, 0.7)
	g.most = min(n.About(4, 500), rest*0.05)
	g.pace = 1 / n.About(200, 5000)
	g.pool = rest - g.weights - g.most
	g.work = activity{
		rate: n.About(0.2, 50), sm: n.Between(0.3, 1), jitter: n.Between(0.05, 0.3),
		cores: n.Between(0.5, 1.5), idle: n.About(0.003, 0.9),
	}
	g.load = l
	g.name = "llm"
	return g
}

// trainer computes without pause; optimizer states are in weights.
func (n *node) trainer(size float64) program {
	g := n.base(size)
	rest := size - g.context
	g.weights = rest * n.Between(0.15, 0.6)
	spread := n.About(0.003, 0.15)
	g.work = activity{
		rate: n.About(2, 50), sm: n.Between(0.55, 1), jitter: n.Between(0.02, 0.2),
		cores: n.Between(0.9, 2.5), idle: n.Between(0.05, 1),
		need: (rest - g.weights) / (1 + 2.5*spread), spread: spread,
	}
	n.torch(&g)
	g.name = "train"
	return g
}

// tensorflow takes its pool at the start, as JAX does 75 % of a GPU (JAX, GPU
// memory allocation) and TensorFlow nearly all (TensorFlow, Use a GPU).
func (n *node) tensorflow(size float64) program {
	g := n.trainer(size)
	g.pool, g.weights, g.work.need, g.caching = size-g.context, 0, 0, false
	g.name = "tf"
	return g
}

// notebook is a kernel of Jupyter: cells run now and then.
func (n *node) notebook(size float64) program {
	g := n.trainer(size)
	g.work.sm, g.work.idle, g.work.cores = n.Between(0.1, 0.95), n.About(0.0005, 0.01), n.Between(0.6, 1.2)
	g.work.spread = n.Between(0.05, 0.25)
	g.work.need = (size - g.context - g.weights) / (1 + 2.5*g.work.spread)
	g.name = "notebook"
	return g
}

// bystander has a context here and computes elsewhere: ranks of other GPUs that
// opened this one too, parents of workers, monitors, and the desktop.
func (n *node) bystander() program {
	g := program{name: "agent", context: n.Between(100, 620), chunk: 2, memory: 60}
	g.work = activity{idle: n.About(0.001, 1.1)}
	return g
}

// launch starts a process, age ago if that is not 0: then it is warmed up. ready
// is told when it begins to work, and may be nil.
func (n *node) launch(g program, group string, age time.Duration, ready func(*process)) *process {
	if n.ids == 0 {
		n.ids = n.IntN(40000)
	}
	n.ids += 1 + n.IntN(60)
	p := &process{
		node: n, load: g.load, most: g.most, pace: g.pace, straight: g.straight,
		caching: g.caching, chunk: g.chunk, size: g.size(), hidden: quantum(n.Between(0, 12)),
	}
	p.ID, p.Group, p.Name, p.Started = n.ids, group, g.name, n.now-age
	p.keep = math.Exp(-n.dt / g.memory)
	p.kick = math.Sqrt(1 - p.keep*p.keep)
	p.hidden = max(min(p.hidden, n.limit-n.used), 0)
	n.used += p.hidden
	n.processes = append(n.processes, p)
	if age > 0 {
		p.warm(g, age)
		if ready != nil {
			ready(p)
		}
		return p
	}
	p.fixed = g.context * n.Between(0.4, 1)
	p.to(g.context, 2)
	p.cpu = g.prep
	p.act = activity{idle: n.Between(0.5, 1)}
	p.after(g.prep, func() { p.to(g.context+g.weights, g.loading) })
	p.after(g.prep+g.loading, func() { p.to(g.context+g.weights+g.pool, n.About(0.3, 15)) })
	p.after(g.prep+g.loading+n.About(0.5, 30), func() {
		p.act = g.work
		if ready != nil {
			ready(p)
		}
	})
	return p
}

// warm makes it one that has been running for some time.
func (p *process) warm(g program, age time.Duration) {
	n := p.node
	seconds := age.Seconds()
	p.act = g.work
	p.fixed = g.context + g.weights + g.pool
	p.goal = p.fixed
	if p.straight {
		p.cache = p.most * min(p.pace*seconds, 1)
	} else {
		p.cache = p.most * (1 - math.Exp(-p.pace*seconds))
	}
	p.cpu = seconds * (g.work.idle + n.Between(0.02, 0.8)*g.work.cores)
	peak := min(math.Sqrt(2*math.Log1p(seconds/g.memory)), 2.5)
	if p.caching {
		p.reserved = p.fixed + p.cache + g.work.need*(1+g.work.spread*peak)
	}
}

// aged draws how long ago something may have been started.
func (n *node) aged() time.Duration { return span(n.About(600, 20*86400)) }

// service is a program that is started again when it ends: after 10 s, and twice
// as long each time up to 5 min, until one has run for 10 min (Kubernetes, Pod
// Lifecycle).
type service struct {
	node    *node
	program program
	group   string
	ready   func(*process)
	process *process
	backoff float64
	// stopped ones are not started again.
	stopped bool
}

// serve starts a service.
func (n *node) serve(g program, group string, age time.Duration, ready func(*process)) *service {
	s := &service{node: n, program: g, group: group, ready: ready, backoff: 10}
	s.start(age)
	return s
}

func (s *service) start(age time.Duration) {
	n := s.node
	p := n.launch(s.program, s.group, age, s.ready)
	s.process = p
	p.onEnd = func() {
		if n.now-p.Started > 10*time.Minute {
			s.backoff = 10
		}
		delay := s.backoff * n.Between(0.9, 1.5)
		s.backoff = min(2*s.backoff, 300)
		n.after(span(delay), func() {
			if !s.stopped {
				s.start(0)
			}
		})
	}
}

// stop ends a service for good.
func (s *service) stop() {
	s.stopped = true
	s.node.end(s.process)
}

// plan is how a training goes. All times are in seconds, 0 for what there is none
// of.
type plan struct {
	epoch, evaluation, checkpoint float64
	// pause is a phase on the CPU after every so many epochs.
	pause float64
	every int
	// wants is the working memory of an evaluation as a ratio of that of training.
	wants  float64
	epochs int // how many until it ends
	flush  bool
	// disk marks one whose checkpoints go to a slow file server.
	disk bool
	// evaluating tells when an evaluation begins and ends, done that an epoch has.
	evaluating func(p *process, on bool)
	done       func(p *process)
}

// plan draws how a usual training goes.
func (n *node) plan() plan {
	l := plan{
		epoch: n.About(60, 5400), evaluation: n.About(5, 600), checkpoint: n.About(2, 90),
		wants: n.Between(0.3, 1), flush: n.Chance(0.2), disk: n.Chance(0.3),
	}
	l.evaluation = min(l.evaluation, l.epoch/2)
	return l
}

// train lets a process train by a plan.
func (p *process) train(l plan) {
	n := p.node
	work := p.act
	still := activity{idle: n.Between(0.3, 1.1), need: work.need * 0.1}
	epoch := 0
	var begin, evaluate, rest func()
	begin = func() {
		p.act = work
		p.after(l.epoch*n.Between(0.93, 1.07), func() {
			p.act = still
			p.wait(l.disk)
			p.after(l.checkpoint*n.Between(0.6, 1.8), evaluate)
		})
	}
	evaluate = func() {
		p.wait(false)
		if l.evaluation == 0 {
			rest()
			return
		}
		p.act = work
		p.act.need *= l.wants
		p.act.sm *= n.Between(0.4, 1)
		if l.evaluating != nil {
			l.evaluating(p, true)
		}
		p.after(l.evaluation*n.Between(0.9, 1.1), func() {
			if l.evaluating != nil {
				l.evaluating(p, false)
			}
			rest()
		})
	}
	rest = func() {
		epoch++
		if l.done != nil {
			l.done(p)
		}
		if l.flush {
			p.flush()
		}
		switch {
		case l.epochs > 0 && epoch >= l.epochs:
			n.end(p)
		case l.pause > 0 && epoch%max(l.every, 1) == 0:
			p.act = still
			p.after(l.pause*n.Between(0.6, 1.4), begin)
		default:
			begin()
		}
	}
	begin()
}

// wait begins or ends a wait for a slow disk.
func (p *process) wait(on bool) {
	if on && !p.disk {
		p.usual = p.State
	} else if !on && p.disk {
		p.State = p.usual
	}
	p.disk = on
}

// cells lets a notebook run cells, with breaks; after each it tells. Once in a
// while its user stays away for as long as away.
func (p *process) cells(away float64, told func(p *process, seconds float64)) {
	n := p.node
	work := p.act
	idle := activity{idle: work.idle}
	var run, think func()
	run = func() {
		p.act = work
		p.act.need *= n.Between(0.2, 1)
		seconds := n.About(3, 900)
		p.after(seconds, func() {
			p.act = idle
			if told != nil {
				told(p, seconds)
			}
			think()
		})
	}
	think = func() {
		seconds := n.About(15, 1200)
		if away > 0 && n.Chance(0.08) {
			seconds = n.Between(0.4, 1) * away
		}
		p.after(seconds, run)
	}
	p.act = idle
	think()
}

// queue runs jobs one after another from the given moment on, each as large as
// size or smaller.
func (n *node) queue(size float64, what string, shortest, longest float64) {
	var ready func(*process)
	if n.Chance(0.4) {
		l := n.plan()
		ready = func(p *process) { p.train(l) }
	}
	var job func()
	job = func() {
		g := n.trainer(size * n.Between(0.35, 1))
		g.prep, g.loading = min(g.prep, longest/10), min(g.loading, longest/10)
		p := n.launch(g, n.name(what), 0, ready)
		p.onEnd = func() { n.after(span(n.About(2, 1200)), job) }
		life := n.About(shortest, longest)
		n.after(span(life), func() { n.end(p) })
	}
	n.after(span(n.About(1, 1800)), job)
}

// tenants puts as many healthy programs on the GPU as count, which together get a
// share of the memory.
func (n *node) tenants(count int, share float64) {
	total := share * n.budget
	for range count {
		size := total / float64(count) * n.Between(0.6, 1)
		if size < 700 {
			continue
		}
		n.budget -= size
		age := n.aged()
		// On a host without pods some are started from a shell that is left.
		state := Alive
		if n.bare && n.Chance(0.4) {
			state = Orphaned
		}
		ready := func(p *process) { p.State = state }
		switch kind := n.IntN(8); {
		case size < 1200 || kind == 0:
			g := n.bystander()
			g.context = min(g.context, size)
			n.serve(g, n.name("agent"), age, nil)
		case kind <= 2:
			n.serve(n.engine(size, n.steadyLoad()), n.name("llm"), age, ready)
		case kind <= 4:
			n.serve(n.server(size, n.dailyLoad(false)), n.name("model"), age, ready)
		case kind == 5:
			n.serve(n.tensorflow(size), n.name("tf"), age, ready)
		case kind == 6:
			l := n.plan()
			n.serve(n.trainer(size), n.name("train"), age, func(p *process) { ready(p); p.train(l) })
		default:
			n.queue(size, "job", 60, 7200)
		}
	}
}

// crowd fills the GPU with constant tenants until only left MiB remain.
func (n *node) crowd(left float64) {
	for n.budget-left > 1500 {
		size := n.budget - left
		if size > 8000 && n.Chance(0.6) {
			size *= n.Between(0.4, 0.8)
		}
		n.budget -= size
		g := n.engine(size, n.steadyLoad())
		if n.Chance(0.3) {
			g = n.tensorflow(size)
		}
		n.serve(g, n.name("llm"), n.aged(), nil)
	}
}

// some puts none to three tenants on the GPU, as most have.
func (n *node) some() {
	if n.Chance(0.3) {
		n.driverGuests()
	}
	if count := n.IntN(4); count > 0 {
		n.tenants(count, n.Between(0.1, 0.55))
	}
}

// driverGuests are contexts of processes that compute elsewhere.
func (n *node) driverGuests() {
	group := n.name("ranks")
	for range 1 + n.IntN(4) {
		if n.budget < 4000 {
			return
		}
		g := n.bystander()
		n.budget -= g.size() + 12
		n.serve(g, group, n.aged(), nil)
	}
}
