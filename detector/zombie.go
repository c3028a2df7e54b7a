// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"time"
)

const (
	// heartbeat is the share of a processor that a process may use and still do
	// nothing: threads that wake up to look at a clock use less.
	heartbeat = 0.001
	// minHeartbeat is the least processor time in seconds that is more than a
	// heartbeat at once: ten ticks of the kernel's clock.
	minHeartbeat = 0.1
	// zombieShare is the share of the capacity that a zombie holds at least.
	zombieShare = 0.01
	// factGap is how long facts may be missing before they have to show anew that
	// a process does nothing. Utilisation and processor time cover the time since
	// they were last read, so that a reading that fails hides nothing.
	factGap = int64(time.Minute)
	// rankSpan is within which time the ranks of a job start, and end; lockstep is
	// how far from the end of the others a rank stops computing.
	rankSpan = int64(30 * time.Second)
	lockstep = int64(time.Minute)
)

const (
	// passedOver is how many workers of a pool must have come, computed and ended since
	// one of them stopped for that one to be forgotten, and keptWorkers how many are kept
	// in mind.
	passedOver  = 5
	keptWorkers = 8
	// alikeHeld is by which share the memory of workers that do the same differs at most.
	alikeHeld = 0.1
)

// activity is what a process does with what it holds.
type activity struct {
	known    int64   // last frame that told utilisation, processor time and state, ns; 0 none
	quiet    int64   // since when it has used neither multiprocessors nor processors, ns
	lost     int64   // since when it is unkillable, an orphan or gone; 0 it is not
	started  int64   // its start, ns; 0 unknown
	computed int64   // when it last used the multiprocessors, ns; 0 never
	cpu      float64 // processor time used so far, s
	beat     float64 // what it has used lately beyond a heartbeat, s
	blind    bool    // known tells it without utilisation: of who is stuck
}

// note adds a frame at time t. interval is the typical time between frames, and
// allowance how much processor time at once is no work.
func (a *activity) note(t, interval int64, allowance float64, sm, cpu Value, state ProcState, started time.Duration) {
	a.started = min(max(int64(started), 0), t)
	busy := sm.OK && sm.V != 0
	if busy {
		a.computed = t
	}
	if busy || state == StateZombieProcess || t-a.known > max(factGap, 3*interval) {
		a.known = 0
	}
	if state == StateGone {
		cpu = Of(a.cpu) // it uses no more
	}
	stuck := state == StateUnkillable || state == StateGone // who is, computes nothing
	lost := stuck || state == StateOrphaned
	if !lost && state != StateUnknown {
		a.lost = 0
	}
	if a.blind && !sm.OK && !stuck && state != StateUnknown {
		a.known = 0 // it may have computed since
	}
	if !sm.OK && !stuck || !cpu.OK || !(cpu.V >= 0 && cpu.V <= math.MaxInt32) || state == StateUnknown || state == StateZombieProcess {
		return
	}
	first := a.known == 0
	if first {
		a.lost = 0
	} else {
		a.beat = max(0, a.beat+cpu.V-a.cpu-heartbeat*seconds(t-a.known))
	}
	if first || cpu.V < a.cpu || a.beat > allowance {
		a.quiet, a.beat = t, 0
	}
	if lost && a.lost == 0 {
		a.lost = t
	}
	a.known, a.cpu, a.blind = t, cpu.V, !sm.OK
}

// rested reports whether it has computed, but not in the last idleAfter.
func (a *activity) rested(t int64) bool { return a.computed > 0 && t-a.computed >= idleAfter }

// allowance returns how much processor time at once is no work: the heartbeat of
// the time until a zombie.
func (c *Config) allowance() float64 {
	return max(minHeartbeat, heartbeat*seconds(int64(c.ZombieAfter)))
}

// cohort are the ranks of a group that ended together.
type cohort struct {
	started     int64 // start of the first one that ended, ns
	first, last int64 // when the first and the last of them ended, ns
	n           int
}

// leave notes that a rank was seen last at that time. Who never computed, or
// started at a time that is not known, is no rank.
func (c *cohort) leave(a *activity, seen int64) {
	switch {
	case a.computed == 0 || a.started == 0:
	case c.n == 0 || !together(a.started, c.started):
		*c = cohort{a.started, seen, seen, 1}
	default:
		c.first, c.last = min(c.first, seen), max(c.last, seen)
		c.n = min(c.n+1, MaxMembers)
	}
}

// strands reports whether a is what is left of the cohort: it started with the
// others, they all ended together, and it stopped computing when they did. A
// worker of a pool that lives on was idle before, which is why the pool has
// shrunk, or works on.
func (c *cohort) strands(a *activity) bool {
	return c.n > 0 && a.started > 0 && together(a.started, c.started) && c.last-c.first <= rankSpan &&
		a.computed >= c.first-lockstep && a.computed <= c.last+lockstep
}

func together(a, b int64) bool { return a-b <= rankSpan && b-a <= rankSpan }

// worker is a process of a pool that has computed and ended.
type worker struct {
	program string
	started int64 // ns
	held    int64 // what it held last, bytes
}

// pool is what a group remembers of its processes that have ended: the last keptWorkers.
type pool struct {
	workers [keptWorkers]worker // a ring: the n-th is at n % keptWorkers
	n       int
	oldest  int64 // the earliest start of those that have ended, ns
}

// leave notes that a process has ended that held used bytes.
func (p *pool) leave(a *activity, program string, used Value) {
	if a.computed == 0 || a.started == 0 || !used.OK {
		return
	}
	if p.n == 0 || a.started < p.oldest {
		p.oldest = a.started
	}
	p.workers[p.n%keptWorkers] = worker{program, a.started, int64(used.V)}
	if p.n++; p.n == 2*keptWorkers {
		p.n = keptWorkers
	}
}

// forgets reports whether a, which runs that program and holds used bytes, is a worker that the
// pool does not use any more: others like it were started after it had stopped computing, computed
// and ended. It is none of the pool's first processes, which may be the parent of the others.
func (p *pool) forgets(a *activity, program string, used int64) bool {
	if a.computed == 0 || a.started <= p.oldest {
		return false
	}
	n := 0
	for i := range min(p.n, keptWorkers) {
		w := &p.workers[i]
		off := math.Abs(float64(w.held - used))
		if w.program == program && w.started > a.computed && off <= alikeHeld*float64(used) {
			n++
		}
	}
	return n >= passedOver
}

// zombie reports whether a member of the last frame holds memory that nobody will
// use again. For ZombieAfter it has held at least max(MinZombie, 1 % of the
// capacity), used no multiprocessor, and no more processor time than a heartbeat;
// and as long as that
//
//   - it has been unkillable (D), or its parent has been gone and it is no
//     service, or it has ended and the driver lists it all the same; or
//   - all other ranks of its group have been gone: see cohort; or
//   - its pool has made and used others instead: see pool.
//
// Without the latter it is idle, as a server at night is. What is not known is no
// evidence: without utilisation (as under MIG), processor time or state there is
// no zombie, but for one that is unkillable or has ended. A process in state Z holds nothing. It is none any more in the frame
// in which it computes. A rank that hangs in a collective keeps the
// multiprocessors busy, and is none before that ends.
func (d *Domain[K]) zombie(in *listing[K]) bool {
	m := in.member
	cfg, a := &m.cfg, &m.activity
	after := int64(cfg.ZombieAfter)
	least := cfg.MinZombie
	if d.hasCapacity {
		least = max(least, zombieShare*float64(d.capacity))
	}
	if a.known == 0 || d.last-a.quiet < after || float64(m.series.used) < least {
		return false
	}
	if a.lost > 0 && d.last-a.lost >= after {
		return true
	}
	g := in.group
	if g == nil {
		return false
	}
	return g.members == 1 && d.last-g.ended.last >= after && g.ended.strands(a) || !m.group.program && g.pool.forgets(a, m.program, m.series.used)
}

func (a *activity) code(c *codec) {
	for _, at := range []*int64{&a.known, &a.quiet, &a.lost, &a.started, &a.computed} {
		c.time(at)
	}
	c.positive(&a.cpu, math.MaxInt32)
	c.positive(&a.beat, math.MaxInt32)
	c.bool(&a.blind)
}

func (p *pool) code(c *codec) {
	c.within(&p.n, 0, 2*keptWorkers-1)
	c.time(&p.oldest)
	for i := range min(p.n, keptWorkers) {
		w := &p.workers[i]
		w.program = string(c.bytes([]byte(w.program)))
		c.time(&w.started)
		c.amount(&w.held)
	}
}

func (c *cohort) code(with *codec) {
	with.time(&c.started)
	with.time(&c.first)
	with.time(&c.last)
	with.within(&c.n, 0, MaxMembers)
}
