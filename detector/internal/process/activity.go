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

// These are chosen, not fitted.
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
)

// Activity is the activity of a process. The zero Activity is unknown.
type Activity struct {
	Known time.Duration // last frame with utilisation, processor time and state; 0 none
	Quiet time.Duration // since when it has used neither multiprocessors nor processors
	Lost  time.Duration // since when it is unkillable, an orphan or gone; 0 it is not
	CPU   float64       // processor time used so far, s
	Beat  float64       // recent processor time beyond a heartbeat, s
	Blind bool          // Known was without utilisation, because the process was stuck
}

// Note adds a frame at time t. interval is the typical time between frames, and zombieAfter the time until a zombie: the heartbeat
// of that time is no work.
func (a *Activity) Note(t, interval, zombieAfter time.Duration, sm, cpu stat.Value, state State) {
	if sm.OK && sm.V != 0 || state == StateZombieProcess || t-a.Known > max(factGap, 3*interval) {
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
	if first || cpu.V < a.CPU || a.Beat > minHeartbeat && a.Beat > heartbeat*zombieAfter.Seconds() {
		a.Quiet, a.Beat = t, 0
	}
	if lost && a.Lost == 0 {
		a.Lost = t
	}
	a.Known, a.CPU, a.Blind = t, cpu.V, !sm.OK
}

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
