// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package incidents

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// process is a program that runs. Memory is in MiB, time in seconds.
type process struct {
	*manner

	s      *story
	crew   *crew
	id     gpu.ProcessID
	owner  *gpu.Owner
	driver bool // it is no process, but what the driver keeps

	started                      float64
	base, fixed, goal, speed     float64 // what it holds whatever it does: once it was loaded, now, and where it goes
	more                         float64 // what the step needs besides
	cache, most, pace            float64 // what fills, ever more slowly, by that share of the rest a second
	space                        float64 // what was free when it began to work
	busy, frozen, dead           bool
	x, cpu, drip                 float64 // slow noise; processor time, and what of it is used while frozen
	used, before, reserved, lost float64
	state                        string
	orphaned                     bool
	leak                         int     // in the truth, -1 before the first byte
	rate, lump, span, begun      float64 // of the continuous leak
	owed, next                   float64 // what it has not lost yet, and from how much on it does
	shape                        string
	sm                           float64
}

// manner is how a program computes: how often a second and on how many multiprocessors, by how many processors while it does and
// does not, what it needs and how much that differs.
type manner struct {
	often, busySM, cores, idle, need, spread, keep float64
	chunk                                          float64 // by which a caching allocator grows; 0 is another one
}

func (s *story) newManner(p *Program) *manner {
	m := &manner{often: s.about(0.1, 10), busySM: s.between(0.2, 0.9), cores: s.about(0.2, 1.5), idle: s.about(0.002, 0.05), spread: s.between(0.03, 0.12)}
	switch p.Is {
	case "train", "notebook":
		m.often, m.busySM, m.cores, m.spread = s.about(2, 50), s.between(0.55, 1), s.between(0.9, 2.5), s.between(0.002, 0.01)
		m.chunk = s.pick(2, 20, 20, 20, 64)
		if m.idle = s.between(0.05, 1); p.Is == "notebook" {
			m.idle = s.about(0.0005, 0.01)
		}
	case "draw":
		m.often, m.busySM, m.spread = s.about(0.5, 30), s.between(0.02, 0.15), 0.02
	}
	m.keep = math.Exp(-s.dt / s.about(15, 900))
	return m
}

// step lets the time of a sample pass.
func (p *process) step() {
	s := p.s
	p.before, p.sm = p.used, 0
	if p.frozen {
		p.cpu += p.drip * s.dt * s.between(0.5, 1.5)
		return
	}
	share := p.often / (1 + p.often)
	if p.busy && s.chance(1-math.Exp(-p.often*s.dt)) {
		p.sm = min(max(p.busySM*(1+0.15*s.r.NormFloat64()), 0.01), 1)
		p.cpu += (p.idle + p.cores*share) * s.dt
	} else {
		p.cpu += p.idle * s.dt * s.between(0.6, 1.4)
	}
	p.x = min(max(p.keep*p.x+math.Sqrt(1-p.keep*p.keep)*s.r.NormFloat64(), -2.5), 2.5)
	if move := p.speed * s.dt; p.fixed < p.goal {
		p.fixed = min(p.goal, p.fixed+move)
	} else {
		p.fixed = max(p.goal, p.fixed-move)
	}
	p.cache += (p.most - p.cache) * min(p.pace*s.dt, 1)
	p.leaks()
	live := p.fixed + p.cache + p.lost + p.more
	if p.busy {
		live += p.need * (1 + p.spread*p.x)
	}
	p.hold(max(live, 0))
}

// leaks loses what is lost in the time of a sample.
func (p *process) leaks() {
	if p.rate == 0 {
		return
	}
	mean := p.rate * p.s.dt
	switch age := p.s.now - p.begun; {
	case p.shape == "exp":
		mean *= 0.3 * math.Exp(3*age/p.span) / 1.91
	case p.shape == "late" && age < 0.6*p.span:
		mean *= 0.15
	case p.shape == "late":
		mean *= 2.275
	}
	if p.owed += mean; p.owed >= p.next {
		p.lose(p.owed)
		p.owed, p.next = 0, p.lump*p.s.r.ExpFloat64()
	}
}

// lose loses so many MiB.
func (p *process) lose(size float64) {
	if size <= 0 || p.dead || p.frozen {
		return
	}
	truth := &p.s.Truth
	if p.leak < 0 {
		p.leak = len(truth.Leaks)
		l := fleet.LeakTruth{From: p.s.clock()}
		if !p.driver {
			l.Processes, l.Group, l.Program = []gpu.ProcessID{p.id}, p.owner.Group(), p.owner.Process
		}
		truth.Leaks = append(truth.Leaks, l)
	}
	p.lost += size
	if p.lost*mib >= fleet.VisibleGrowth {
		truth.Leaks[p.leak].Visible = true
	}
}

// hold lets the process have so many MiB, or fail.
func (p *process) hold(want float64) {
	least := want
	if p.chunk > 0 {
		if want > p.reserved {
			p.reserved += math.Ceil((want-p.reserved)/p.chunk) * p.chunk
		}
		want = p.reserved
	}
	switch free := p.s.limit - p.s.used + p.used; {
	case want <= free:
	case least <= free: // the allocator frees its cache and tries again
		want, p.reserved = least, least
	case p.s.refused(p, least-free):
		return
	default:
		want, p.reserved = p.used, p.used // it waits until there is memory
	}
	p.s.used += want - p.used
	p.used = want
}

// room is how many MiB the process can still get.
func (p *process) room() float64 {
	free := p.s.limit - p.s.used + p.used
	for _, r := range p.s.remains {
		if r.until < p.s.now+30 {
			free += r.size
		}
	}
	return max(free-p.goal-p.need*(1+2.5*p.spread)-p.lost, 0)
}

// to lets what it holds go somewhere.
func (p *process) to(size, seconds float64) {
	p.goal = max(size, 0)
	p.speed = math.Abs(p.goal-p.fixed) / max(seconds, 0.1)
}

// freeze stops a process for ever.
func (p *process) freeze(state string, cores float64) {
	p.state, p.orphaned = map[string]string{"alive": "S", "orphaned": "S", "unkillable": "D", "gone": "X"}[state], state == "orphaned"
	if p.orphaned {
		owner := *p.owner
		owner.Namespace, owner.Pod = "", ""
		p.owner = &owner
	}
	if cores < 0.1 && p.s.chance(0.5) {
		cores = 0 // it waits for ever, with no thread that looks at a queue now and then
	}
	p.frozen, p.busy, p.drip = true, false, cores
	p.s.Truth.Zombies = append(p.s.Truth.Zombies, fleet.Held{ID: p.id, From: p.s.clock()})
}

// leave ends it, and a share of its memory stays for so long.
func (p *process) leave(share, seconds float64) {
	p.s.Truth.Unreleased = append(p.s.Truth.Unreleased, fleet.Held{ID: p.id, From: p.s.clock()})
	stays := share * p.used
	p.used -= stays
	if seconds == 0 {
		seconds = math.Inf(1)
	}
	p.s.remains = append(p.s.remains, remain{stays, p.s.now + seconds})
	p.end()
}

// end ends it. Its memory comes back, at once or as slowly as the driver of this GPU frees it.
func (p *process) end() {
	if p.dead {
		return
	}
	p.close()
	p.dead = true
	if s := p.s; s.slow > 0 && s.chance(0.8) {
		s.remains = append(s.remains, remain{p.used, s.now + s.between(1, s.slow)})
	} else {
		s.used -= p.used
	}
	p.crew.ended()
}

// close completes the truth about its leak.
func (p *process) close() {
	if p.leak < 0 {
		return
	}
	l := &p.s.Truth.Leaks[p.leak]
	l.Until, l.Retained = p.s.clock(), uint64(p.lost*mib)
	l.Rate = p.lost * mib / max((l.Until-l.From).Seconds(), 1)
}

// entry returns what is seen of it; skewed is what it had before it grew.
func (p *process) entry(skewed bool) gpu.Process {
	used := p.used
	if skewed && p.before > 0 && p.before < used {
		used = p.before
	}
	e := gpu.Process{
		ID: p.id, Used: gpu.Some(uint64(used/quantum) * quantum * mib), Started: gpu.Some(epoch + at(p.started)),
		CPU: gpu.Some(time.Duration(math.Floor(p.cpu*100)) * 10 * time.Millisecond), State: p.state, Orphaned: p.orphaned, Owner: p.owner,
	}
	if !p.s.noSM {
		e.SM = gpu.Some(math.Round(p.sm*100) / 100)
	}
	return e
}
