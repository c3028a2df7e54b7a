// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// Pattern names the shape of a series of used memory.
type Pattern uint8

// The patterns, in the words of the metric's label.
const (
	PatternUnknown Pattern = iota
	PatternStable
	PatternIdle
	PatternWarmup
	PatternPlateau
	PatternStep
	PatternSawtooth
	PatternSpikes
	PatternLeakLinear
	PatternLeakStaircase
	PatternLeakCyclic
	PatternFragmentation
	PatternZombie
	PatternUnreleased
	PatternCrashLoop // a cyclic leak whose cycles are lives
	numPatterns
)

var patternNames = [numPatterns]string{
	"", "stable", "idle", "warmup", "plateau", "step", "sawtooth", "spikes",
	"leak_linear", "leak_staircase", "leak_cyclic", "fragmentation", "zombie", "unreleased", "leak_cyclic",
}

// String returns the pattern as the label value of the metric; "" for
// PatternUnknown.
func (p Pattern) String() string { return stat.Name(patternNames[:], p) }

// Leaks reports whether p is one of the leak_* patterns.
func (p Pattern) Leaks() bool {
	return p == PatternLeakLinear || p == PatternLeakStaircase || p == PatternLeakCyclic || p == PatternCrashLoop
}

// These are chosen, not fitted.
const (
	// patternHold is the shortest time that a pattern stays.
	patternHold = time.Minute
	// Growth that begins before its program has warmupAge is a warm-up.
	warmupAge = 30 * time.Minute
	// busySpikes is the fewest spikes in the first window that are a pattern, unless they are on
	// for more than quietDuty of the time.
	busySpikes = 3
	quietDuty  = 0.5
	// A cycle of a cyclic leak is cyclicSwing times as high as the memory that it retains.
	cyclicSwing = 4
	// staircaseStep is the least typical step of a staircase in bytes: smaller ones are the
	// granularity of the allocator.
	staircaseStep = 8 << 20
	// staircaseFlat is the share of blocks that retain nothing in a staircase.
	staircaseFlat = 0.5
)

// Shape is the pattern of a series.
type Shape struct {
	Pattern Pattern
	Since   time.Duration
}

// setPattern gives the series the pattern that fits now, not before patternHold unless a leak starts or stops.
func (s *Series) setPattern() {
	h := &s.Shape
	if p := s.fitting(); p != h.Pattern && (s.Last-h.Since >= patternHold || p.Leaks() != h.Pattern.Leaks()) {
		h.Pattern, h.Since = p, s.Last
	}
}

// fitting returns the first pattern that fits now.
func (s *Series) fitting() Pattern {
	g := s.finest()
	switch {
	case !s.ripe():
		return PatternUnknown
	case s.Leaks():
		return s.leaking(g)
	case s.Idle:
		return PatternIdle
	case s.Windows[0].Closed.Spikes >= busySpikes && s.Spikes.Duty < quietDuty:
		return PatternSpikes
	case g != nil && g.Since-s.Began < warmupAge:
		return PatternWarmup // growth that begins later has another reason
	case s.Cycles.cycling(s.Last), s.Spikes.Duty >= quietDuty:
		return PatternSawtooth
	case g != nil:
		return PatternStep // it may leak
	case s.Shape.Pattern == PatternWarmup, s.Shape.Pattern == PatternPlateau:
		return PatternPlateau
	case s.Scales[0].MovedBlock > 1:
		return PatternStep
	}
	return PatternStable
}

// finest returns the growth of the narrowest scale that shows any, nil if none does.
func (s *Series) finest() *Growth {
	for i := range s.Growths {
		if s.Growths[i].Levels > 0 {
			return &s.Growths[i]
		}
	}
	return nil
}

// leaking returns the pattern of a leak: cyclic where a cycle is much higher than the memory that it retains, staircase where
// most blocks of the finest growth retain nothing.
func (s *Series) leaking(finest *Growth) Pattern {
	retained := s.Leak.Trend.Rate * s.Cycles.Length.Seconds()
	switch {
	case s.Cycles.cycling(s.Last) && s.Cycles.Size >= cyclicSwing*retained:
		return PatternLeakCyclic
	case finest != nil && finest.Flat >= staircaseFlat && finest.Step >= staircaseStep:
		return PatternLeakStaircase
	case finest == nil && s.Shape.Pattern.Leaks():
		return s.Shape.Pattern // it pauses
	}
	return PatternLeakLinear
}
