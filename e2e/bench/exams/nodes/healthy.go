// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
)

// healthy are the families where nothing is wrong, though it may look so.
var healthy = []exams.Family[*node]{
	{Kind: "notebook-idle", Count: 3, Build: notebookIdle},
	{Kind: "night-server", Count: 3, Build: nightServer},
	{Kind: "parent-context", Count: 2, Build: parentContext},
	{Kind: "scaled-down", Count: 2, Build: scaledDown},
	{Kind: "autoscaled", Count: 1, Build: autoscaled},
	{Kind: "cpu-phases", Count: 2, Build: cpuPhases},
	{Kind: "checkpoints", Count: 2, Build: checkpoints},
	{Kind: "staircase-jobs", Count: 3, Build: staircaseJobs},
	{Kind: "slow-cache", Count: 3, Build: slowCache},
	{Kind: "warm-up", Count: 2, Build: warmUp},
	{Kind: "daily-load", Count: 2, Build: dailyLoad},
	{Kind: "rolling-update", Count: 2, Build: rollingUpdate},
	{Kind: "slow-free", Count: 2, Build: slowFree},
	{Kind: "unlisted", Count: 2, Build: unlisted},
	{Kind: "sweep", Count: 2, Build: sweep},
	{Kind: "crashing", Count: 1, Build: crashing},
	{Kind: "full", Count: 2, Build: full},
	{Kind: "model-zoo", Count: 1, Build: modelZoo},
	{Kind: "desktop", Count: 1, Build: desktop},
	{Kind: "nohup", Count: 1, Build: nohup},
}

// notebookIdle is a kernel that holds what it has while its user is away for
// hours, and computes again.
func notebookIdle(n *node) {
	n.atLeast(6)
	n.some()
	g := n.notebook(n.take(n.Between(0.2, 0.8)))
	p := n.launch(g, n.name("notebook"), n.aged(), nil)
	work, idle := p.act, activity{idle: g.work.idle}
	p.act = idle
	start := n.within(0.02, 0.2)
	away := min(n.About(3600, 5*3600), 0.6*n.labels.Length.Seconds())
	n.after(start, func() {
		p.act = work
		p.after(n.About(30, 1200), func() {
			p.act = idle
			p.after(away, func() {
				p.act = work
				p.after(n.About(30, 600), func() { p.act = work; p.cells(0, nil) })
			})
		})
	})
}

// nightServer has no requests for hours, and serves again in the morning.
func nightServer(n *node) {
	n.atLeast(16)
	n.some()
	l := n.dailyLoad(true)
	// The night lies within the story: its middle at 25 to 60 % of the day.
	l.phase = 0.75 - n.Between(0.25, 0.5)*n.labels.Length.Hours()/24
	size := n.take(n.Between(0.3, 0.95))
	g := n.engine(size, l)
	if n.Chance(0.4) {
		g = n.server(size, l)
	}
	state := Alive
	if n.bare && n.Chance(0.5) {
		state = Orphaned // started by nohup, and serving
	}
	n.serve(g, n.name("serve"), n.aged(), func(p *process) { p.State = state })
}

// parentContext is a parent that opened the GPU and computes nothing itself; its
// children do, and some are replaced.
func parentContext(n *node) {
	group := n.name("pool")
	g := n.bystander()
	g.work.idle = n.About(0.0005, 0.2)
	n.budget -= g.size() + 12
	n.launch(g, group, n.aged(), nil)
	count := 1 + n.IntN(5)
	for range count {
		c := n.server(0.8*n.budget/float64(count), n.steadyLoad())
		s := n.serve(c, group, n.aged(), nil)
		for range n.IntN(4) {
			n.after(n.within(0, 1), func() { n.end(s.process) })
		}
	}
}

// scaledDown is a pool of which one worker is left, idle for hours, until there is
// work again.
func scaledDown(n *node) {
	n.atLeast(7)
	n.some()
	group := n.name("pool")
	count := 2 + n.IntN(5)
	l := n.steadyLoad()
	each := 0.9 * n.budget / float64(count)
	var all []*service
	for range count {
		all = append(all, n.serve(n.server(each, l), group, n.aged(), nil))
	}
	down := n.within(0.1, 0.35)
	for _, s := range all[1:] {
		n.after(down+span(n.Between(0, 60)), s.stop)
	}
	mean := l.mean
	n.after(down, func() { l.mean, l.night = 0, 0.01 })
	n.after(n.within(0.65, 0.9), func() {
		l.mean, l.night = mean, 0
		if n.Chance(0.6) {
			for _, s := range all[1:] {
				n.serve(s.program, group, 0, nil)
			}
		}
	})
}

// autoscaled is a service of which there are the more workers, the more is asked.
func autoscaled(n *node) {
	n.atLeast(8)
	n.some()
	l := n.dailyLoad(false)
	most := 2 + n.IntN(6)
	g := n.server(0.93*n.budget/float64(most), l)
	group := n.name("workers")
	var running []*service
	check := n.About(30, 600)
	age := n.aged()
	var scale func()
	scale = func() {
		wanted := min(1+int(l.level*float64(most)), most)
		for len(running) < wanted {
			running = append(running, n.serve(g, group, age, nil))
		}
		// One at a time goes, and the last one that came goes first.
		if last := len(running) - 1; last >= wanted {
			running[last].stop()
			running = running[:last]
		}
		age = 0
		n.after(span(check), scale)
	}
	scale()
}

// cpuPhases are half an hour and more of preparation between the phases on the GPU.
func cpuPhases(n *node) {
	n.atLeast(5)
	n.some()
	l := n.plan()
	l.epoch, l.pause, l.every = n.About(300, 3600), n.About(1500, 5400), 1
	age := n.aged()
	if n.Chance(0.4) {
		age = 0
	}
	n.serve(n.trainer(n.take(n.Between(0.3, 0.9))), n.name("train"), age, func(p *process) { p.train(l) })
}

// checkpoints are pauses in which nothing is computed, at each epoch.
func checkpoints(n *node) {
	if n.Chance(0.5) {
		n.driverGuests()
	}
	l := n.plan()
	l.epoch, l.checkpoint = n.About(300, 5000), n.About(20, 600)
	l.wants = n.Between(0.5, 1.3)
	g := n.trainer(n.take(n.Between(0.4, 0.9)))
	g.work.need /= 1.35
	age := n.aged()
	if n.Chance(0.5) {
		age = 0
	}
	n.serve(g, n.name("train"), age, func(p *process) { p.train(l) })
}

// staircaseJobs come one after another until the GPU is nearly full, and end
// together or one by one.
func staircaseJobs(n *node) {
	if n.Chance(0.5) {
		n.tenants(1, 0.3)
	}
	var climb func()
	count := 4 + n.IntN(10)
	each := 0.93 * n.budget / float64(count)
	climb = func() {
		gap := n.About(120, 1200)
		work := n.About(600, 7200)
		var last time.Duration
		for i := range count {
			at := span(gap * (float64(i) + n.Between(0, 0.7)))
			last = max(last, at)
			n.after(at, func() {
				p := n.launch(n.trainer(each*n.Between(0.5, 1)), n.name("job"), 0, nil)
				p.onEnd = nil
				over := last + span(work) - at
				if n.Chance(0.1) {
					over += span(n.Between(0, 600))
				}
				n.after(over, func() { n.end(p) })
			})
		}
		n.after(last+span(work+700+n.About(60, 3600)), climb)
	}
	n.after(n.within(0.01, 0.15), climb)
}

// slowCache fills for hours, ever slower or straight up to its limit, and stays
// there: a cache of embeddings, of adapters, of compiled shapes.
func slowCache(n *node) {
	n.atLeast(4)
	n.some()
	l := n.steadyLoad()
	if n.Chance(0.3) {
		l = n.dailyLoad(false)
	}
	size := n.take(n.Between(0.3, 0.95))
	g := n.server(size, l)
	share := n.Between(0.15, 0.6)
	g.weights *= 1 - share
	g.work.need *= 1 - share
	g.most = share * (size - g.context)
	g.straight = n.Chance(0.4)
	filled := n.About(0.05, 0.6) * n.labels.Length.Seconds()
	g.pace = 3 / filled
	if g.straight {
		g.pace = 1 / filled
	}
	start := n.within(0.005, 0.25)
	n.after(start, func() {
		p := n.launch(g, n.name("serve"), 0, nil)
		// It begins with the first requests, not with the start of the process.
		pace := p.pace
		p.pace = 0
		p.after(g.prep+g.loading+20, func() { p.pace = pace })
	})
}

// warmUp is a service that starts in the story: autotuning takes workspaces for
// a while, CUDA graphs come with each new shape, the load ramps up.
func warmUp(n *node) {
	n.some()
	l := n.steadyLoad()
	l.from, l.ramp = n.within(0.02, 0.4), n.About(300, 10000)
	g := n.engine(n.take(n.Between(0.4, 0.95)), l)
	if n.Chance(0.6) {
		g = n.server(g.size(), l)
		g.weights *= 0.8
		g.most, g.pace = g.weights*n.Between(0.02, 0.2), 1/n.About(300, 4000)
	}
	extra := n.Between(0.02, 0.2) * g.weights
	g.weights -= extra
	n.after(l.from, func() {
		n.serve(g, n.name("serve"), 0, func(p *process) {
			p.size += extra
			before := p.goal
			p.to(before+extra, n.About(1, 60))
			p.after(n.About(60, 900), func() { p.to(before, 1); p.flush() })
		})
	})
}

// dailyLoad moves the working memory of several services with the day.
func dailyLoad(n *node) {
	n.atLeast(10)
	l := n.dailyLoad(false)
	count := 1 + n.IntN(4)
	each := 0.9 * n.budget / float64(count)
	for range count {
		g := n.server(each*n.Between(0.6, 1), l)
		// What is not cached follows the load down again.
		g.caching = n.Chance(0.4)
		n.serve(g, n.name("serve"), n.aged(), nil)
	}
}

// rollingUpdate starts the new version before the old one ends, some times.
func rollingUpdate(n *node) {
	n.tenants(n.IntN(2), 0.3)
	count := 1 + n.IntN(3)
	l := n.steadyLoad()
	each := 0.95 * n.budget / float64(count+1)
	g := n.server(each, l)
	slots := make([]*service, count)
	for i := range slots {
		slots[i] = n.serve(g, n.name("serve"), n.aged(), nil)
	}
	var update func(i int, next func())
	update = func(i int, next func()) {
		if i == len(slots) {
			next()
			return
		}
		old, done := slots[i], false
		slots[i] = n.serve(g, n.name("serve"), 0, func(*process) {
			if done {
				return
			}
			done = true
			n.after(span(n.About(2, 60)), func() {
				old.stop()
				n.after(span(n.Between(20, 90)), func() { update(i+1, next) })
			})
		})
	}
	var again func()
	again = func() {
		n.after(span(n.About(1200, 20000)), func() { update(0, again) })
	}
	again()
}

// slowFree is a queue of jobs on a node whose driver frees their memory some
// seconds after they have ended.
func slowFree(n *node) {
	n.view.slowFree = n.Between(3, 20)
	n.tenants(n.IntN(2), 0.3)
	for range 1 + n.IntN(3) {
		n.queue(n.take(n.Between(0.25, 0.4)), "job", 20, 3000)
	}
}

// unlisted is a node whose list of processes cannot be read for minutes.
func unlisted(n *node) {
	n.view.blind, n.view.blindFor = n.About(0.3, 3), n.About(60, 300)
	n.some()
	n.tenants(1, 0.6)
	n.queue(n.take(n.Between(0.4, 0.8)), "job", 60, 5000)
}

// sweep runs many short trials at a time, each in a process of its own.
func sweep(n *node) {
	n.some()
	group := n.name("sweep")
	slots := 1 + n.IntN(4)
	each := 0.93 * n.budget / float64(slots)
	longest := n.About(60, 1500)
	if n.Chance(0.6) { // the one that starts the trials
		g := n.bystander()
		g.context = min(g.context, 0.05*n.budget)
		n.launch(g, group, n.aged(), nil)
	}
	for range slots {
		var trial func()
		trial = func() {
			g := n.trainer(each * n.About(0.15, 1))
			g.prep, g.loading = n.Between(0.5, 6), n.Between(0.2, 5)
			p := n.launch(g, group, 0, nil)
			p.onEnd = func() { n.after(span(n.About(0.2, 60)), trial) }
			n.after(span(n.About(longest/12, longest)), func() { n.end(p) })
		}
		n.after(span(n.Between(0, 60)), trial)
	}
}

// crashing is a pod that is started again and again, as something else than memory
// is wrong: a file is missing, a port is taken.
func crashing(n *node) {
	n.some()
	size := n.take(n.Between(0.3, 0.8))
	life := n.About(10, 900)
	fixed := n.within(0.3, 1.2)
	n.serve(n.server(size, n.steadyLoad()), n.name("serve"), 0, func(p *process) {
		if n.now < fixed {
			p.after(life*n.Between(0.7, 1.3), func() { n.end(p) })
		}
	})
}

// full is a GPU that is always 90 to 98 % full.
func full(n *node) {
	n.crowd(n.Between(0.02, 0.06) * n.budget)
	if n.budget > 900 {
		n.serve(n.server(n.budget*0.8, n.steadyLoad()), n.name("embed"), n.aged(), nil)
	}
}

// modelZoo loads and unloads models in one server as they are asked for.
func modelZoo(n *node) {
	n.some()
	size := n.take(n.Between(0.5, 0.95))
	g := n.server(size, n.steadyLoad())
	g.caching = n.Chance(0.3)
	g.weights *= 0.2
	p := n.launch(g, n.name("models"), n.aged(), nil)
	p.size = size
	base, room := p.goal, size-g.size()
	loaded := 0.0
	var change func()
	change = func() {
		model := room * n.About(0.03, 0.3)
		if loaded+model > room || n.Chance(0.25) {
			loaded *= n.Between(0, 0.8)
		} else {
			loaded += model
		}
		p.to(base+loaded, n.About(1, 40))
		p.after(n.About(60, 5000), change)
	}
	p.after(n.About(10, 900), change)
}

// desktop has a display server, a browser and the like beside an occasional job.
func desktop(n *node) {
	n.bare = true
	for range 3 + n.IntN(4) {
		g := n.server(n.About(30, 900), n.steadyLoad())
		g.context = min(g.context, 20)
		g.work.sm = n.Between(0.02, 0.2)
		g.work.rate = n.About(0.05, 30)
		g.caching = false
		n.budget -= g.size() + 12
		n.serve(g, "", n.aged(), nil)
	}
	n.queue(n.take(0.6), "", 120, 7200)
	p := n.launch(n.notebook(n.take(0.5)), "", n.aged(), nil)
	p.cells(7200, nil)
}

// nohup is a training whose shell is gone on purpose: its parent has ended, but it
// computes, with pauses.
func nohup(n *node) {
	n.bare = true
	n.some()
	l := n.plan()
	l.pause, l.every = n.About(300, 3000), 1+n.IntN(3)
	p := n.launch(n.trainer(n.take(n.Between(0.3, 0.9))), "", n.aged(), nil)
	p.State = Orphaned
	p.train(l)
}
