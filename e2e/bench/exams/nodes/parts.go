// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"math"
	"time"
)

// activity is what a process does for some time.
type activity struct {
	// rate is how often per second it computes: a frame that none of it falls in
	// shows no use of the multiprocessors. sm is how many of them are then busy,
	// jitter how much that differs from time to time.
	rate, sm, jitter float64
	// cores is the processor time that it uses per second while it computes, idle
	// while it does not: no process with a CUDA context is perfectly still, but
	// one that blocks in a read comes near.
	cores, idle float64
	// need is the working memory in MiB and spread how much that differs, by a
	// slowly varying part of normal distribution.
	need, spread float64
}

// process is a process on the GPU and how it behaves.
type process struct {
	Process

	node *node
	// crew are those that end together, as the ranks of a job do.
	crew *crew
	act  activity
	load *load
	// fixed is what it holds whatever it does, in MiB; it moves to goal by speed
	// MiB/s.
	fixed, goal, speed float64
	// cache fills up to most: straight, or ever slower, at pace (1/s).
	cache, most, pace float64
	straight          bool
	// lost is what leaked of it.
	lost float64
	// A caching allocator never shrinks by itself, and grows by chunk MiB.
	caching         bool
	reserved, chunk float64
	// size is what it needs at most, what leaks aside.
	size float64
	// x is the slow noise, of which keep stays from frame to frame.
	x, keep, kick float64
	// hidden is what the driver needs for it without telling whose that is.
	hidden, previous int64
	hide             int
	cpu              float64
	// frozen marks one whose memory never changes again; drip is the processor
	// time that it uses per second all the same.
	frozen bool
	drip   float64
	zombie int // 1 + index of the label, 0 for none
	// leaves is the share of its memory that stays when it ends, staysFor how
	// long; 0 for until the driver is reset.
	leaves   float64
	staysFor time.Duration
	onEnd    func()
	// disk says that it waits for a slow disk, mostly in an uninterruptible wait;
	// usual is its state else.
	disk  bool
	usual State
	// failed says that it was refused memory.
	dead, failed bool
}

// crew is told apart by its address.
type crew struct{ name string }

// step lets the time of a frame pass.
func (p *process) step(n *node) {
	p.previous = p.Used
	if p.frozen {
		p.SM = 0
		p.cpu += p.drip * n.dt * n.Between(0.5, 1.5)
		return
	}
	level := 1.0
	if p.load != nil {
		level = p.load.level
	}
	p.compute(n, level)
	if p.disk {
		p.State = Unkillable
		if n.Chance(0.25) {
			p.State = p.usual
		}
	}
	p.x = p.keep*p.x + p.kick*n.NormFloat64()
	p.x = min(max(p.x, -2.5), 2.5)
	if p.fixed != p.goal {
		move := p.speed * n.dt
		if p.fixed < p.goal {
			p.fixed = min(p.goal, p.fixed+move)
		} else {
			p.fixed = max(p.goal, p.fixed-move)
		}
	}
	if p.cache < p.most {
		if p.straight {
			p.cache = min(p.most, p.cache+p.most*p.pace*level*n.dt)
		} else {
			p.cache += (p.most - p.cache) * min(p.pace*level*n.dt, 1)
		}
	}
	work := 0.0
	if p.act.need > 0 {
		work = p.act.need * (0.3 + 0.7*min(level, 1)) * (1 + p.act.spread*p.x)
	}
	p.hold(n, p.fixed+p.cache+max(work, 0))
}

// hold asks for the memory that is needed now.
func (p *process) hold(n *node, live float64) {
	asked := min(live, p.size) + p.lost
	if !p.caching {
		n.request(p, quantum(asked), quantum(asked))
		return
	}
	if asked > p.reserved {
		p.reserved += math.Ceil((asked-p.reserved)/p.chunk) * p.chunk
	}
	n.request(p, quantum(p.reserved), quantum(asked))
}

// compute sets how busy it was since the last frame.
func (p *process) compute(n *node, level float64) {
	a := &p.act
	mean := a.rate * level * n.dt
	p.SM = 0
	if mean <= 0 || mean < 8 && n.Float64() >= 1-math.Exp(-mean) {
		p.cpu += a.idle * n.dt * n.Between(0.6, 1.4)
		return
	}
	sm := a.sm * (1 + a.jitter*n.NormFloat64())
	p.SM = math.Round(min(max(sm, 0.01), 1)*100) / 100
	share := a.rate * level
	share /= 1 + share
	p.cpu += (a.idle + a.cores*share) * n.dt * n.Between(0.8, 1.2)
}

// to lets what it holds go to MiB within seconds.
func (p *process) to(mebibytes, seconds float64) {
	p.goal = mebibytes
	p.speed = math.Abs(p.goal-p.fixed) / max(seconds, 0.1)
}

// flush gives the cache of the allocator back, as torch.cuda.empty_cache does.
// Some of it stays, as segments that are used in part cannot be freed.
func (p *process) flush() {
	asked := float64(p.Used) / mib
	live := min(p.fixed+p.cache+p.act.need, p.size) + p.lost
	if live < asked {
		p.reserved = live + p.node.Between(0, 0.3)*(asked-live)
	}
}

// after plans something that does not happen if the process has ended or hangs.
func (p *process) after(seconds float64, do func()) {
	p.node.after(span(seconds), func() {
		if !p.dead && !p.frozen {
			do()
		}
	})
}

// freeze stops a process for ever, in the state that the kernel sees, and labels
// it: it will never use its memory again.
func (p *process) freeze(state State, drip float64) {
	if p.dead || p.frozen {
		return
	}
	n := p.node
	p.frozen, p.drip, p.SM, p.State = true, drip, 0, state
	n.labels.Zombies = append(n.labels.Zombies, Zombie{ID: p.ID, From: n.now, To: n.labels.Length})
	p.zombie = len(n.labels.Zombies)
}

// load is how much is asked of services, as a ratio of their usual peak: constant,
// or by the time of the day, each with noise.
type load struct {
	level float64
	// The mean, the swing round it, its period in hours and phase. What is under
	// night is nothing at all.
	mean, swing, period, phase, night float64
	noise, x, keep, kick              float64
	// It begins at from, and takes ramp seconds to be there.
	from time.Duration
	ramp float64
}

// steadyLoad is one that only varies a little.
func (n *node) steadyLoad() *load {
	return n.addLoad(&load{mean: n.Between(0.6, 0.95), noise: n.About(0.02, 0.25)})
}

// dailyLoad is one that follows the day. Where night, there is none for hours.
func (n *node) dailyLoad(night bool) *load {
	l := &load{mean: 0.5, swing: n.Between(0.25, 0.5), period: 24, phase: n.Float64(), noise: n.About(0.02, 0.2)}
	if night {
		l.swing, l.night = n.Between(0.5, 0.6), n.Between(0.08, 0.25)
	}
	return n.addLoad(l)
}

func (n *node) addLoad(l *load) *load {
	// The noise of the load has minutes of memory.
	l.keep = math.Exp(-n.dt / n.About(60, 1200))
	l.kick = math.Sqrt(1 - l.keep*l.keep)
	n.loads = append(n.loads, l)
	l.step(n)
	return l
}

func (l *load) step(n *node) {
	l.x = l.keep*l.x + l.kick*n.NormFloat64()
	level := l.mean
	if l.period > 0 {
		level += l.swing * math.Sin(2*math.Pi*(n.now.Hours()/l.period+l.phase))
	}
	if level < l.night {
		l.level = 0
		return
	}
	level *= 1 + l.noise*l.x
	if l.ramp > 0 {
		level *= min(max((n.now-l.from).Seconds()/l.ramp, 0), 1)
	}
	l.level = min(max(level, 0.01), 1.2)
}

// loss is a leak that goes on.
type loss struct {
	node    *node
	process *process // nil for none
	group   string
	// rate is in MiB/s while the level of load is 1 (or always, without one), and
	// lost by lump MiB at a time. shape changes it with the seconds since it
	// began. 0 for what is only lost by add.
	rate, lump float64
	load       *load
	shape      func(age float64) float64
	since      time.Duration
	from, to   time.Duration
	// total is the MiB lost since from; bytes is what has been put in the used
	// memory, for what belongs to no process.
	total             float64
	bytes             int64
	open, found       bool
	steady, fromStart bool
	// old marks one that began before the story.
	old bool
	// mend is what an operator does against it.
	mend func()
}

// leak lets a process leak, or without one the GPU.
func (n *node) leak(p *process, rate, lump float64) *loss {
	l := &loss{node: n, process: p, rate: rate, lump: lump, since: n.now, open: true}
	if p != nil {
		l.group = p.Group
		l.mend = func() { n.end(p) }
	} else {
		l.bytes = quantum(n.driver)
		l.mend = n.reset
	}
	n.losses = append(n.losses, l)
	return l
}

// step loses what is lost in the time of a frame.
func (l *loss) step(n *node) {
	if !l.open || l.rate == 0 || l.process != nil && l.process.frozen {
		return
	}
	mean := l.rate * n.dt
	if l.load != nil {
		mean *= l.load.level
	}
	if l.shape != nil {
		mean *= l.shape((n.now - l.since).Seconds())
	}
	if mean <= 0 || l.process == nil && n.used >= n.limit {
		return
	}
	if lumps := n.poisson(mean / l.lump); lumps > 0 {
		l.add(float64(lumps)*l.lump, max(n.last, l.since))
	}
}

// add loses some MiB at once; at is the label's onset if they are the first.
func (l *loss) add(mebibytes float64, at time.Duration) {
	if !l.open {
		return
	}
	if l.total == 0 && !l.old {
		l.from = max(at, 0)
	}
	l.total += mebibytes
	switch {
	case l.process != nil:
		l.process.lost += mebibytes
	case l.group == "":
		l.node.residual += mebibytes
	}
}

func (l *loss) stop(n *node) {
	if l.open {
		l.open, l.to = false, min(n.now, n.labels.Length)
	}
}

// leak is the label; ok is false if nothing was lost, or all between two frames or
// three: what is started on a full GPU can fail with its first request.
func (l *loss) leak() (one Leak, ok bool) {
	if l.total == 0 || l.to-l.from <= 2*l.node.labels.Interval {
		return one, false
	}
	one = Leak{
		Group: l.group, From: l.from, To: l.to,
		Rate: l.total * mib / (l.to - l.from).Seconds(), Steady: l.steady && l.to-l.from >= judged, FromStart: l.fromStart,
	}
	if l.process != nil {
		one.ID = l.process.ID
	}
	return one, true
}

// poisson draws how many of something happen of which mean do on average.
func (n *node) poisson(mean float64) int {
	if mean > 30 {
		return max(int(math.Round(mean+math.Sqrt(mean)*n.NormFloat64())), 0)
	}
	count, product, least := 0, n.Float64(), math.Exp(-mean)
	for product > least {
		count++
		product *= n.Float64()
	}
	return count
}
