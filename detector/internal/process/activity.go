// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package process judges processes that share a memory: whether they compute, and whether their memory stays when they
// end. Exported fields are those of a state file.
package process

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// These are chosen, not fitted; maxRanks and keptWorkers are bounds of cost.
const (
	// heartbeat is the share of a processor that an idle process may use: threads that wake up to look at a clock use less.
	heartbeat = 0.001
	// minHeartbeat is the least processor time in seconds that is more than a
	// heartbeat at once: ten ticks of the kernel's clock.
	minHeartbeat = 0.1
	// factGap is the time for which facts may be missing. After a longer one they have to show again that
	// a process is idle. Utilisation and processor time cover the time since
	// they were last read, so that a reading that fails hides nothing.
	factGap = time.Minute
	// The ranks of a job start within rankSpan, and end within it. They stop computing within lockstep.
	rankSpan = 30 * time.Second
	lockstep = time.Minute
	maxRanks = 1024
	// A worker of a pool is forgotten once passedOver newer workers have computed and ended. keptWorkers are remembered.
	passedOver  = 5
	keptWorkers = 8
	// alikeHeld is the largest relative difference of the memory of workers that do the same.
	alikeHeld = 0.1
)

// Activity is the activity of a process. The zero Activity is unknown.
type Activity struct {
	Known    time.Duration // last frame with utilisation, processor time and state; 0 none
	Quiet    time.Duration // since when it has used neither multiprocessors nor processors
	Lost     time.Duration // since when it is unkillable, an orphan or gone; 0 it is not
	Started  time.Duration // its start; 0 unknown
	Computed time.Duration // when it last used the multiprocessors; 0 never
	CPU      float64       // processor time used so far, s
	Beat     float64       // recent processor time beyond a heartbeat, s
	Blind    bool          // Known was without utilisation, because the process was stuck
}

// Note adds a frame at time t. interval is the typical time between frames, and
// allowance the processor time (s) that is no work.
func (a *Activity) Note(t, interval time.Duration, allowance float64, sm, cpu stat.Value, state State, started time.Duration) {
	a.Started = min(max(started, 0), t)
	busy := sm.OK && sm.V != 0
	if busy {
		a.Computed = t
	}
	if busy || state == StateZombieProcess || t-a.Known > max(factGap, 3*interval) {
		a.Known = 0
	}
	if state == StateGone {
		cpu = stat.Of(a.CPU)
	}
	stuck := state == StateUnkillable || state == StateGone // it cannot compute
	lost := stuck || state == StateOrphaned
	if !lost && state != StateUnknown {
		a.Lost = 0
	}
	if a.Blind && !sm.OK && !stuck && state != StateUnknown {
		a.Known = 0 // it may have computed since
	}
	if !sm.OK && !stuck || !cpu.OK || !(cpu.V >= 0 && cpu.V <= math.MaxInt32) || state == StateUnknown || state == StateZombieProcess {
		return
	}
	first := a.Known == 0
	if first {
		a.Lost = 0
	} else {
		a.Beat = max(0, a.Beat+cpu.V-a.CPU-heartbeat*(t-a.Known).Seconds())
	}
	if first || cpu.V < a.CPU || a.Beat > allowance {
		a.Quiet, a.Beat = t, 0
	}
	if lost && a.Lost == 0 {
		a.Lost = t
	}
	a.Known, a.CPU, a.Blind = t, cpu.V, !sm.OK
}

// Allowance returns the processor time (s) that is no work: the heartbeat of the time until a zombie.
func Allowance(zombieAfter time.Duration) float64 {
	return max(minHeartbeat, heartbeat*zombieAfter.Seconds())
}

// Cohort are the ranks of a group that ended together.
type Cohort struct {
	Started     time.Duration // start of the first one that ended
	First, Last time.Duration // when the first and the last of them ended
	N           int
}

// Add adds a rank that was seen last at that time. A process that never computed, or
// whose start is unknown, is no rank.
func (c *Cohort) Add(a *Activity, seen time.Duration) {
	switch {
	case a.Computed == 0 || a.Started == 0:
	case c.N == 0 || !together(a.Started, c.Started):
		*c = Cohort{a.Started, seen, seen, 1}
	default:
		c.First, c.Last = min(c.First, seen), max(c.Last, seen)
		c.N = min(c.N+1, maxRanks)
	}
}

// Strands reports whether a is the last rank of the cohort: it started with the
// others, they all ended together, and it stopped computing when they did. The last worker of a pool
// that shrinks was idle before, or still computes.
func (c *Cohort) Strands(a *Activity) bool {
	return c.N > 0 && a.Started > 0 && together(a.Started, c.Started) && c.Last-c.First <= rankSpan &&
		a.Computed >= c.First-lockstep && a.Computed <= c.Last+lockstep
}

func together(a, b time.Duration) bool { return a-b <= rankSpan && b-a <= rankSpan }

// worker is a process of a pool that has computed and ended.
type worker struct {
	Program string
	Started time.Duration
	Held    stat.Bytes // in its last frame
}

// Pool remembers the last keptWorkers processes of a group that have ended.
type Pool struct {
	Workers [keptWorkers]worker // a ring: the n-th is at n % keptWorkers
	N       int
	Oldest  time.Duration // the earliest start of those that have ended
}

// Add adds a process that has ended and held used bytes.
func (p *Pool) Add(a *Activity, program string, used stat.Value) {
	if a.Computed == 0 || a.Started == 0 || !used.OK {
		return
	}
	if p.N == 0 || a.Started < p.Oldest {
		p.Oldest = a.Started
	}
	p.Workers[p.N%keptWorkers] = worker{program, a.Started, stat.Bytes(used.V)}
	if p.N++; p.N == 2*keptWorkers {
		p.N = keptWorkers
	}
}

// Forgets reports whether a, which runs that program and holds used bytes, is a worker that the
// pool does not use any more: passedOver others like it were started after it had stopped computing, computed
// and ended. The first processes of a pool are no workers: they may be the parent of the others.
func (p *Pool) Forgets(a *Activity, program string, used stat.Bytes) bool {
	if a.Computed == 0 || a.Started <= p.Oldest {
		return false
	}
	n := 0
	for i := range min(p.N, keptWorkers) {
		w := &p.Workers[i]
		off := math.Abs(float64(w.Held - used))
		if w.Program == program && w.Started > a.Computed && off <= alikeHeld*float64(used) {
			n++
		}
	}
	return n >= passedOver
}

// Check implements state.Checker.
func (p *Pool) Check(time.Duration) bool { return p.N >= 0 && p.N < 2*keptWorkers }

// Absence is the time after which a process that is missing from incomplete lists counts as gone, and a
// group or a crash loop without a process expires: twice the longest back-off of Kubernetes.
const Absence = 10 * time.Minute

// State is the state of a process in the kernel, as far as zombies depend on it.
type State uint8

// The states of a process.
const (
	StateUnknown       State = iota
	StateAlive               // runs, sleeps or is stopped
	StateUnkillable          // D: in an uninterruptible wait
	StateOrphaned            // its parent is gone and it is no service
	StateZombieProcess       // Z: it has exited and holds no GPU memory of its own
	StateGone                // there is no such process any more, and yet it is a member
)
