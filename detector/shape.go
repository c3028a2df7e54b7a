// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "time"

const (
	// patternHold is how long a pattern stays at least, in ns.
	patternHold = int64(time.Minute)
	// idleAfter is how long a process must be without compute to be idle.
	idleAfter = int64(10 * time.Minute)
	// warmupAge is until when growth counts as a warm-up.
	warmupAge = int64(30 * time.Minute)
	// busySpikes is how many spikes in the first window make them the pattern.
	busySpikes = 3
	// sawtoothCycles of one after another make the pattern, until none came for
	// cyclesGone typical lengths.
	sawtoothCycles = 3
	cyclesGone     = 3
	// cyclicSwing is how many times what it retains a cycle swings in a cyclic leak.
	cyclicSwing = 4
	// staircaseStep is the least typical step of a staircase in bytes; below it the
	// allocator's own granularity makes every leak one.
	staircaseStep = 8 << 20
	// staircaseFlat is the share of blocks that retain nothing in a staircase.
	staircaseFlat = 0.5
)

// shape is the pattern of a series.
type shape struct {
	pattern Pattern
	since   int64 // ns
}

// leaks reports whether p is one of the leak_* patterns.
func (p Pattern) leaks() bool {
	return p == PatternLeakLinear || p == PatternLeakStaircase || p == PatternLeakCyclic
}

// update gives the shape the pattern that fits at time t. One holds for patternHold
// at least, but a leak and no leak change at once.
func (h *shape) update(s *series, t int64) {
	if p := s.fitting(t); p != h.pattern && (t-h.since >= patternHold || p.leaks() != h.pattern.leaks()) {
		h.pattern, h.since = p, t
	}
}

// fitting returns the pattern that fits at time t, the first that does.
func (s *series) fitting(t int64) Pattern {
	g := s.finest()
	switch {
	case !s.ripe():
		return PatternUnknown
	case s.leak.on:
		return s.leaking(g, t)
	case s.idle:
		return PatternIdle
	case s.windows[0].spikes >= busySpikes && s.spikes.duty < 0.5:
		return PatternSpikes
	case g != nil && g.recency > 0 && (g.pace < 1 || t-s.began < warmupAge):
		return PatternWarmup
	case s.cycling(t), s.spikes.duty >= 0.5:
		return PatternSawtooth
	case g != nil && g.recency > 0:
		return PatternWarmup // it grows, and is not known to leak
	case g != nil, s.shape.pattern == PatternWarmup, s.shape.pattern == PatternPlateau:
		return PatternPlateau // until something else happens
	case s.ladder[0].moves > 0:
		return PatternStep
	}
	return PatternStable
}

// cycling reports whether the series is in cycles at time t.
func (s *series) cycling(t int64) bool {
	c := &s.cycles
	return s.ladder[cycleScale].closed >= sawtoothCycles && t-s.first-int64(c.last)*tick < int64(cyclesGone*c.length)*tick
}

// finest returns the growth of the narrowest scale that shows any in its troughs, nil if
// none.
func (s *series) finest() *growth {
	for i := range levelScale {
		if s.growths[i].levels > 0 && !s.growths[i].fitted {
			return &s.growths[i]
		}
	}
	return nil
}

// leaking names a leak: cyclic where memory swings by much more than it retains a
// cycle, staircase where most blocks of the finest growth retain nothing.
func (s *series) leaking(finest *growth, t int64) Pattern {
	c := &s.cycles
	retained := s.leak.trend.rate * c.length * seconds(tick)
	switch {
	case s.cycling(t) && c.size*unit >= cyclicSwing*retained:
		return PatternLeakCyclic
	case finest != nil && finest.flat >= staircaseFlat && finest.step >= staircaseStep:
		return PatternLeakStaircase
	case finest == nil && s.shape.pattern.leaks():
		return s.shape.pattern // it pauses
	}
	return PatternLeakLinear
}
