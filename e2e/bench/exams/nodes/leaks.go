// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
)

// leaking are the families with leaks.
var leaking = []exams.Family[*node]{
	{Kind: "requests", Count: 4, Build: requests},
	{Kind: "load-cycles", Count: 3, Build: loadCycles},
	{Kind: "epoch-stairs", Count: 4, Build: epochStairs},
	{Kind: "evaluation", Count: 2, Build: evaluation},
	{Kind: "shared-pod", Count: 3, Build: sharedPod},
	{Kind: "two-leaks", Count: 2, Build: twoLeaks},
	{Kind: "worker-pool", Count: 3, Build: workerPool},
	{Kind: "crash-loop", Count: 3, Build: crashLoop},
	{Kind: "late-onset", Count: 3, Build: lateOnset},
	{Kind: "crowded", Count: 3, Build: crowded},
	{Kind: "residual", Count: 3, Build: residual},
	{Kind: "mps-server", Count: 2, Build: mpsServer},
	{Kind: "notebook-cells", Count: 3, Build: notebookCells},
	{Kind: "mended", Count: 2, Build: mended},
	{Kind: "accelerating", Count: 2, Build: accelerating},
	{Kind: "bursts", Count: 2, Build: bursts},
}

// pace draws a rate in MiB/s: by its order of magnitude only, but mostly such that
// it fills what is free in 1 to 48 hours.
func (n *node) pace() float64 {
	for {
		rate := n.About(0.03, 10)
		hours := n.budget / rate / 3600
		if hours >= 1 && hours <= 48 || hours < 1 && n.Chance(0.25) || n.Chance(0.1) {
			return rate
		}
	}
}

// drip lets a process leak at a rate. What one request loses is known by its
// order of magnitude only.
func (n *node) drip(p *process, rate float64) *loss {
	return n.leak(p, rate, min(n.About(0.01, 24), max(rate*60, 0.01)))
}

// born notes of a leak that it began with its process: for one from before the
// story, that is before the first frame, even if nothing is lost just then. One
// that loses all the time has nothing before it in any case.
func (l *loss) born(always bool) {
	l.old = l.process.Started < 0
	l.fromStart = l.old || always
	if l.old {
		// What was lost before the story has used up most of what was cached.
		l.process.lost = 0.7 * l.process.slack()
	}
}

// slack is what its allocator holds and it does not need just now.
func (p *process) slack() float64 {
	level := 1.0
	if p.load != nil {
		level = min(p.load.mean, 1)
	}
	return max(p.reserved-p.fixed-p.cache-p.lost-p.act.need*(0.3+0.7*level), 0)
}

// judged is the time in which a steady leak outgrows all else; a shorter one does not.
const judged = 30 * time.Minute

// judge sets whether a leak of constant mean rate is steady: nothing else of the
// process moves as much as it loses in half an hour, and what its allocator has
// cached does not last for longer.
func (l *loss) judge() {
	p := l.process
	wide := 2.0
	if p.caching && p.Started < 0 {
		wide = 0.5
	}
	swing := wide*p.act.need*p.act.spread + p.most - p.cache + p.slack()
	if p.load != nil {
		swing += wide * 0.7 * p.act.need * p.load.noise
	}
	l.steady = swing < l.rate*judged.Seconds()
}

// leaker serves requests of which each loses some memory, at rate on average.
func (n *node) leaker(g program, group string, rate float64) (started func()) {
	age := n.aged()
	ready := func(p *process) {
		x := n.drip(p, rate)
		x.load = g.load
		if g.load != nil && g.load.period == 0 {
			x.rate /= g.load.mean
		}
		x.born(true)
		if g.load == nil || g.load.period == 0 {
			x.judge()
		}
	}
	if n.Chance(0.55) {
		return func() { n.serve(g, group, age, ready) }
	}
	start := n.within(0.01, 0.3)
	return func() { n.after(start, func() { n.serve(g, group, 0, ready) }) }
}

// requests is the plain case: an inference server loses memory by each request.
func requests(n *node) {
	n.some()
	g := n.server(n.take(n.Between(0.15, 0.6)), n.steadyLoad())
	n.leaker(g, n.name("serve"), n.pace())()
}

// loadCycles lose by request too, but there are many by day and few or none by
// night, or all comes in batches of some hours.
func loadCycles(n *node) {
	l := n.dailyLoad(n.Chance(0.6))
	if n.Chance(0.35) {
		l.period = n.About(1, 6)
	} else {
		n.atLeast(13)
	}
	n.some()
	g := n.server(n.take(n.Between(0.15, 0.6)), l)
	n.leaker(g, n.name("serve"), min(n.pace()*2, 10))()
}

// epochStairs keep something of each epoch: metrics with their graph, an old copy
// of the model (PyTorch FAQ: don't accumulate history across your training loop).
func epochStairs(n *node) {
	n.some()
	g := n.trainer(n.take(n.Between(0.2, 0.6)))
	l := n.plan()
	l.epoch = n.About(60, 2400)
	l.evaluation = min(l.evaluation, l.epoch/3)
	rate := n.pace()
	step := min(rate*(l.epoch+l.evaluation+l.checkpoint), 0.12*n.budget)
	age, group := n.aged(), n.name("train")
	if n.Chance(0.5) {
		age = 0
	}
	n.serve(g, group, age, func(p *process) {
		x := n.leak(p, 0, 0)
		x.born(false)
		mine := l
		mine.done = func(*process) { x.add(step*n.Between(0.8, 1.2), n.now) }
		p.train(mine)
	})
}

// evaluation loses while it evaluates only, as where no_grad is missing there.
func evaluation(n *node) {
	n.some()
	g := n.trainer(n.take(n.Between(0.2, 0.6)))
	l := n.plan()
	l.epoch = n.About(200, 3000)
	l.evaluation = l.epoch * n.Between(0.05, 0.4)
	rate := n.pace() * (l.epoch + l.evaluation) / l.evaluation
	age := n.aged()
	if n.Chance(0.5) {
		age = 0
	}
	n.serve(g, n.name("train"), age, func(p *process) {
		x := n.drip(p, rate)
		x.born(false)
		p.trainLosing(x, l, rate)
	})
}

// trainLosing lets a process train by a plan, and lose at rate while it evaluates.
func (p *process) trainLosing(x *loss, l plan, rate float64) {
	x.rate = 0
	l.evaluating = func(_ *process, on bool) {
		x.rate = 0
		if on {
			x.rate = rate
		}
	}
	p.train(l)
}

// sharedPod has several pods on one GPU, of which others come and go.
func sharedPod(n *node) {
	n.bare = false
	for range 1 + n.IntN(3) {
		n.queue(n.take(n.Between(0.08, 0.2)), "batch", 60, 3600)
	}
	n.tenants(1+n.IntN(3), 0.4)
	g := n.server(n.take(n.Between(0.15, 0.4)), n.steadyLoad())
	n.leaker(g, n.name("serve"), n.pace())()
}

// twoLeaks are two processes that leak at once.
func twoLeaks(n *node) {
	n.some()
	first := n.server(n.take(n.Between(0.15, 0.35)), n.steadyLoad())
	second := n.server(n.take(n.Between(0.15, 0.35)), n.steadyLoad())
	n.leaker(first, n.name("serve"), n.pace()*n.Between(0.4, 1))()
	n.leaker(second, n.name("embed"), n.pace()*n.Between(0.4, 1))()
}

// crashLoop fills what is free again and again.
func crashLoop(n *node) {
	n.crowd(n.About(3000, 30000))
	g := n.server(n.take(n.Between(0.15, 0.5)), n.steadyLoad())
	fill := min(n.About(0.15, 3), n.labels.Length.Hours()/2.5)
	n.leaker(g, n.name("serve"), min(n.budget/fill/3600, 10))()
}

// lateOnset serves well for hours; then something else is asked of it (another
// model, a new client) by which it loses.
func lateOnset(n *node) {
	n.some()
	l := n.steadyLoad()
	if n.Chance(0.3) {
		l = n.dailyLoad(false)
	}
	g := n.server(n.take(n.Between(0.2, 0.6)), l)
	rate := n.pace()
	onset := n.within(0.25, 0.65)
	n.serve(g, n.name("serve"), n.aged(), func(p *process) {
		begin := func() {
			x := n.drip(p, rate)
			x.load = l
			x.rate /= l.mean
			x.fromStart = n.now > onset+time.Second // started again
			if l.period == 0 {
				x.judge()
			}
		}
		p.after(max(onset-n.now, 0).Seconds(), begin)
	})
}

// crowded is a leak where others have 85 to 95 % already.
func crowded(n *node) {
	n.crowd(n.Between(0.05, 0.15) * n.budget)
	g := n.server(n.take(n.Between(0.3, 0.6)), n.steadyLoad())
	rate := n.budget / n.About(1, 48) / 3600
	n.leaker(g, n.name("serve"), max(rate, 0.03))()
}

// residual leaks what belongs to no process: the driver, peer mappings, a display
// server's surfaces, memory exported and never closed.
func residual(n *node) {
	n.some()
	n.tenants(1+n.IntN(2), n.Between(0.2, 0.5))
	n.queue(n.take(0.2), "job", 60, 3600)
	rate := n.pace()
	lump := min(n.About(0.5, 64), rate*120)
	var begin func(old bool)
	begin = func(old bool) {
		x := n.leak(nil, rate, max(lump, 0.05))
		x.steady, x.old, x.fromStart = true, old, old
		x.mend = func() {
			n.reset()
			n.after(span(n.About(60, 7200)), func() { begin(false) })
		}
	}
	if n.Chance(0.4) {
		begin(true)
	} else {
		n.after(n.within(0.05, 0.5), func() { begin(false) })
	}
}

// mpsServer is a small process that many clients share (NVIDIA, Multi-Process
// Service); it keeps a little of each that comes and goes.
func mpsServer(n *node) {
	g := n.base(500)
	g.context, g.work = n.Between(28, 120), activity{idle: n.About(0.001, 0.05)}
	n.budget -= g.size() + 200
	for range 2 + n.IntN(4) {
		n.queue(n.take(n.Between(0.06, 0.15)), "client", 20, 900)
	}
	n.tenants(1, n.Between(0.1, 0.4))
	rate := n.pace()
	n.serve(g, n.name("mps"), n.aged(), func(p *process) {
		x := n.leak(p, rate, min(n.About(2, 80), rate*600))
		x.born(true)
	})
}

// notebookCells keep some memory of each cell that is run: outputs and
// tracebacks hold tensors.
func notebookCells(n *node) {
	n.some()
	g := n.notebook(n.take(n.Between(0.2, 0.5)))
	rate := n.pace()
	most := 0.15 * n.budget
	age := n.aged()
	if n.Chance(0.6) {
		age = 0
	}
	n.serve(g, n.name("notebook"), age, func(p *process) {
		x := n.leak(p, 0, 0)
		x.born(false)
		p.cells(n.About(1800, 14400), func(_ *process, seconds float64) {
			x.add(min(rate*n.About(0.4, 2.5)*(seconds+n.About(60, 900)), most), n.now)
		})
	})
}

// mended are leaks that end with a new version, which comes with or without an
// overlap.
func mended(n *node) {
	n.some()
	size := n.take(n.Between(0.15, 0.35))
	n.take(size / n.budget) // for the new version
	l := n.steadyLoad()
	g := n.server(size, l)
	rate := n.pace()
	group := n.name("serve")
	s := n.serve(g, group, n.aged(), func(p *process) {
		x := n.drip(p, rate)
		x.load = l
		x.rate /= l.mean
		x.born(true)
		x.judge()
	})
	n.after(n.within(0.35, 0.75), func() {
		if n.Chance(0.5) {
			s.stop()
			n.after(span(n.About(2, 60)), func() { n.serve(g, n.name("serve"), 0, nil) })
			return
		}
		n.serve(g, n.name("serve"), 0, func(*process) { s.stop() })
	})
}

// accelerating leaks lose the more, the more there is: lists that are copied,
// retries that pile up.
func accelerating(n *node) {
	n.some()
	g := n.server(n.take(n.Between(0.15, 0.5)), n.steadyLoad())
	rate := n.pace()
	tau := n.labels.Length.Seconds() * n.Between(0.15, 0.6)
	shape := func(age float64) float64 { return 0.3 * (1 + age/tau) }
	if n.Chance(0.5) {
		shape = func(age float64) float64 { return min(0.3*math.Exp(age/tau), 12) }
	}
	age := n.aged()
	if n.Chance(0.4) {
		age = 0
	}
	n.serve(g, n.name("serve"), age, func(p *process) {
		x := n.drip(p, rate)
		x.shape = shape
		x.born(true)
	})
}

// bursts lose much in a minute and then nothing for long: a rare kind of request,
// a lost connection.
func bursts(n *node) {
	n.some()
	g := n.server(n.take(n.Between(0.15, 0.5)), n.steadyLoad())
	rate := n.pace()
	gap := min(n.About(400, 6000), 0.2*n.budget/rate)
	n.serve(g, n.name("serve"), n.aged(), func(p *process) {
		x := n.drip(p, rate)
		x.rate = 0
		x.born(false)
		var burst func()
		burst = func() {
			seconds := n.About(2, 90)
			x.rate = rate * gap / seconds * n.Between(0.4, 1.6)
			p.after(seconds, func() {
				x.rate = 0
				p.after(gap*n.ExpFloat64(), burst)
			})
		}
		p.after(gap*n.Between(0.3, 1), burst)
	})
}
