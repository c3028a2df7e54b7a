// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
)

// stuck are the families with processes that never use their memory again, and
// with memory that stays after its process.
var stuck = []exams.Family[*node]{
	{Kind: "orphan", Count: 3, Build: orphan},
	{Kind: "unkillable", Count: 2, Build: unkillable},
	{Kind: "listed-dead", Count: 2, Build: listedDead},
	{Kind: "lone-rank", Count: 2, Build: loneRank},
	{Kind: "left-engine", Count: 2, Build: leftEngine},
	{Kind: "unreleased", Count: 4, Build: unreleased},
	{Kind: "unreleased-often", Count: 2, Build: unreleasedOften},
}

// cleanup is what an operator does about an hour later, sometimes.
func (n *node) cleanup(p *process) {
	if n.Chance(0.4) {
		n.after(span(n.About(1500, 8000)), func() { n.end(p) })
	}
}

// orphan is a training whose launcher died: it waits for a word from it that never
// comes. In a container the kernel shows nothing of that.
func orphan(n *node) {
	n.some()
	size := n.take(n.Between(0.15, 0.5))
	l := n.plan()
	p := n.launch(n.trainer(size), n.name("train"), n.aged(), func(p *process) { p.train(l) })
	state := Orphaned
	if n.Chance(0.3) {
		state = Alive
	} else {
		p.Group = ""
	}
	again := n.Chance(0.6)
	n.after(n.within(0.05, 0.6), func() {
		p.freeze(state, n.drips())
		n.cleanup(p)
		if again { // the job is submitted again
			n.after(span(n.About(30, 3600)), func() {
				n.serve(n.trainer(min(size, 0.8*n.budget)), n.name("train"), 0, func(p *process) { p.train(l) })
			})
		}
	})
}

// drips is the processor time that one that waits for ever uses: none, or what a
// thread that looks at a queue now and then does.
func (n *node) drips() float64 {
	if n.Chance(0.5) {
		return 0
	}
	return n.About(0.0002, 0.03)
}

// unkillable hangs in the kernel: a file server is gone, or the driver does not
// come back. Mostly nothing helps but a new start of the machine.
func unkillable(n *node) {
	n.some()
	l := n.plan()
	p := n.launch(n.trainer(n.take(n.Between(0.2, 0.7))), n.name("train"), n.aged(), func(p *process) { p.train(l) })
	n.after(n.within(0.05, 0.7), func() {
		p.freeze(Unkillable, 0)
		if n.Chance(0.2) {
			n.cleanup(p)
		}
	})
}

// listedDead has ended for the kernel, and the driver lists it all the same.
func listedDead(n *node) {
	n.some()
	g := n.server(n.take(n.Between(0.15, 0.5)), n.steadyLoad())
	p := n.launch(g, n.name("serve"), n.aged(), nil)
	again := n.Chance(0.6)
	n.after(n.within(0.05, 0.7), func() {
		p.freeze(Gone, 0)
		n.cleanup(p)
		if again {
			g = n.server(min(g.size(), 0.8*n.budget), g.load)
			n.after(span(n.About(10, 600)), func() { n.serve(g, p.Group, 0, nil) })
		}
	})
}

// loneRank is a rank whose siblings on this GPU crashed within seconds. It waits
// on the host for them (a store, a barrier of gloo, NCCL_BLOCKING_WAIT), so it
// keeps no multiprocessor busy.
func loneRank(n *node) {
	n.some()
	count := 2 + n.IntN(3)
	group := n.name("ddp")
	l := n.plan()
	each := n.take(n.Between(0.4, 0.8)) / float64(count)
	g := n.trainer(each)
	age := n.aged()
	if n.Chance(0.3) {
		age = 0
	}
	start := func(p *process) { p.train(l) }
	ranks := make([]*process, count)
	for i := range ranks {
		ranks[i] = n.launch(g, group, age, start)
	}
	n.after(n.within(0.1, 0.7), func() {
		survivor := n.IntN(count)
		for i, p := range ranks {
			if i != survivor {
				n.after(span(n.Between(0, 8)), func() { n.end(p) })
			}
		}
		ranks[survivor].freeze(Alive, n.drips())
		n.cleanup(ranks[survivor])
	})
}

// leftEngine is the process with the model of a server whose front was killed; it
// stays with all its memory (vLLM, issues 19849 and 55510). A new one comes where
// there is room.
func leftEngine(n *node) {
	n.some()
	l := n.steadyLoad()
	size := n.take(n.Between(0.3, 0.5))
	g := n.engine(size, l)
	p := n.launch(g, n.name("llm"), n.aged(), nil)
	// Under a supervisor that adopts orphans, or in a pod, it looks as any other.
	state := Alive
	if n.Chance(0.65) {
		state, p.Group = Orphaned, ""
	}
	n.after(n.within(0.05, 0.6), func() {
		p.freeze(state, n.drips())
		n.cleanup(p)
		n.after(span(n.About(10, 400)), func() {
			n.serve(n.engine(min(size, 0.85*n.budget), l), n.name("llm"), 0, nil)
		})
	})
}

// kill ends a process so that some of its memory stays.
func (n *node) kill(p *process, share float64) {
	if p.dead || p.Used < 64*mib {
		return
	}
	p.leaves = share
	if n.Chance(0.5) {
		p.staysFor = span(n.About(600, 6*3600))
	}
	n.end(p)
}

// unreleased memory stays after a process was killed, until the driver is reset
// (not in the story) or for minutes to hours.
func unreleased(n *node) {
	n.some()
	size := n.take(n.Between(0.2, 0.5))
	g := n.server(size, n.steadyLoad())
	if n.Chance(0.5) {
		g = n.trainer(size)
	}
	s := n.serve(g, n.name("work"), n.aged(), nil)
	s.program = n.server(min(size, 0.7*n.budget), n.steadyLoad())
	s.stopped = n.Chance(0.3)
	share := n.Between(0.15, 1)
	n.after(n.within(0.05, 0.75), func() { n.kill(s.process, share) })
}

// unreleasedOften are several kills of which each leaves some.
func unreleasedOften(n *node) {
	n.some()
	size := n.take(n.Between(0.15, 0.35))
	s := n.serve(n.server(size, n.steadyLoad()), n.name("work"), n.aged(), nil)
	kills := 2 + n.IntN(4)
	share := min(n.Between(0.1, 0.6), 0.8*n.budget/size/float64(kills))
	for range kills {
		n.after(n.within(0.05, 0.9), func() { n.kill(s.process, share) })
	}
}
