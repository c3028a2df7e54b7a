// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// Withheld is the harmless reason for which growth is no leak yet.
type Withheld uint8

// The reasons.
const (
	WithheldNone         Withheld = iota
	WithheldMinSpan               // any growth must last for Config.MinSpan
	WithheldProgramBegin          // it began with its program, or before the first sample
	WithheldDailyLoad             // it is slow enough for a load that follows the time of day
	WithheldGivenBack             // its program held as much before, and gave it back
	WithheldSlowing               // it slows down, and would end before the memory is full
	numWithheld
)

var withheldNames = [numWithheld]string{"", "min_span", "program_begin", "daily_load", "given_back", "slowing"}

// String returns the reason as the label value of the metric; "" for WithheldNone.
func (w Withheld) String() string { return stat.Name(withheldNames[:], w) }

// These were fitted by hand on generated series, but for slowAhead, which follows from a day, and the
// idle memory, which is a definition. make bench-detect measures them.
const (
	// loadRate is a growth in bytes per second that loads reach and leaks seldom
	// do: 512 MiB a minute. idleLoadRate is the same from an idle memory on: 4 MiB/s.
	loadRate     = 512 << 20 / 60.0
	idleLoadRate = 4 << 20
	// idleBytes and idleRatio (of the capacity) bound the memory of an idle GPU; the larger one holds.
	idleBytes = 1 << 30
	idleRatio = 0.01
	// Growth that begins settled after the begin of its program, or a third of its own length if that is more, is no part of the
	// begin. In many programs teeth and ramps come sooner one after the other.
	settled = 9 * time.Minute
	// Growth that has lasted for shortSettle, and for nearTimes the time that is left, need not settle for
	// longer: caches, epochs and models are made to stop before the memory is full.
	shortSettle = 20 * time.Minute
	nearTimes   = 5
	// Growth that lasts for slowSpan, or for slowBlocks of the narrowest blocks where
	// samples are minutes apart, and needs more than slowAhead to fill the memory may be a daily
	// load: half a day of it fits into the memory, and it is steepest 3.8 hours (24 h/2π) of that
	// pace before the top. It must last for slowShare of the time that it needs.
	slowSpan   = 20 * time.Minute
	slowBlocks = 8
	slowAhead  = 4 * time.Hour
	slowShare  = 0.8
	day        = 24 * time.Hour
)

// reasons are the harmless reasons. need returns how long growth must last for the reason not to hold, 0 if it
// does not hold. Of two with the same need, the first one counts.
var reasons = [...]struct {
	why  Withheld
	need func(*Series, *Growth) time.Duration
}{
	{WithheldGivenBack, (*Series).givenBack},
	{WithheldProgramBegin, (*Series).programBegin},
	{WithheldDailyLoad, (*Series).dailyLoad},
	{WithheldMinSpan, func(s *Series, _ *Growth) time.Duration { return s.cfg.MinSpan }},
}

// wait sets the reason for which growth must last longest. A leak does not wait.
func (s *Series) wait(g *Growth) {
	if g.Waited = 1; s.Leaks() {
		return
	}
	for _, r := range reasons {
		if s.outgrown(g) && r.why != WithheldMinSpan {
			continue
		}
		if need := r.need(s, g); need > g.Need {
			g.Need, g.Reason = need, r.why
		}
	}
	if g.Lasted < g.Need {
		g.Waited = enough * (float64(g.Lasted) / float64(g.Need))
	}
}

// givenBack is for growth within a height that the program gave back: it must last until it is above.
func (s *Series) givenBack(g *Growth) time.Duration {
	to := s.Prior.Ceiling - float64(g.Base+g.Retained)
	if to < 0 || s.Prior.Ceiling == 0 || g.Rate <= 0 {
		return 0
	}
	return g.Lasted + time.Duration(min(max(1, to/g.Rate), day.Seconds())*float64(time.Second))
}

// outgrown reports whether growth is above the heights of enough earlier lives: then it has no other reason.
func (s *Series) outgrown(g *Growth) bool {
	return s.Prior.Sure && s.Prior.Ceiling > 0 && float64(g.Base+g.Retained) > s.Prior.Ceiling
}

// programBegin is for growth that began with its program, or before the first sample.
func (s *Series) programBegin(g *Growth) time.Duration {
	lead := max(settled, (g.End-g.Since)/3)
	if g.Since-max(s.Began, s.First) >= lead && !s.fromIdle(g) {
		return 0
	}
	if s.poolless { // pools take longest to warm
		return min(shortSettle, s.patience(g))
	}
	return s.patience(g)
}

// dailyLoad is for growth that is as slow as a load which follows the time of day.
func (s *Series) dailyLoad(g *Growth) time.Duration {
	ahead := s.ahead(g)
	if s.Loadless || s.Capacity == 0 || ahead <= slowAhead || g.Lasted <= max(slowSpan, slowBlocks*s.Scales[0].Width) {
		return 0
	}
	return max(s.patience(g), min(day, time.Duration(slowShare*float64(ahead))))
}

// fromIdle reports whether growth is a load that begins in an idle memory.
func (s *Series) fromIdle(g *Growth) bool {
	return float64(g.SteadyBase) <= IdleLevel(s.Capacity) && g.Rate > idleLoadRate
}

// patience returns the need of growth that may settle.
func (s *Series) patience(g *Growth) time.Duration {
	return min(s.cfg.SettleTime, max(shortSettle, min(day, nearTimes*s.ahead(g))))
}

// ahead returns the time until the growth fills the free memory; a year at most, and where that is not known.
func (s *Series) ahead(g *Growth) time.Duration {
	const year = 365 * day
	if s.Capacity == 0 || g.Rate <= 0 {
		return year
	}
	return time.Duration(min(float64(max(0, s.Left))/g.Rate*float64(time.Second), float64(year)))
}

// IdleLevel is the most memory in bytes that an idle GPU of that capacity has in use.
func IdleLevel(capacity stat.Bytes) float64 { return max(idleBytes, idleRatio*float64(capacity)) }
