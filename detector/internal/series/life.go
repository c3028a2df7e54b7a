// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// These were fitted by hand on generated series; make bench-detect measures what they find and cost.
const (
	// lifePoints is the fewest troughs that show how a life grew.
	lifePoints = 6
	// loadStep is how many times as large as a typical one the first step of a growth is that still
	// is one of the load before it.
	loadStep = 2
	// loadLasts is how long growth must last that is as fast as programs load.
	loadLasts = 2 * time.Minute
	// A life whose second half brought the share lifeHeld of what the first half did kept its pace,
	// and one that brought but lifeSlowed has not. It is known to its end, and has to be more even
	// than growth that goes on.
	lifeSlowed = 0.75
	lifeHeld   = 0.9
)

// LifeGrowth is that of a process which grew until its end.
type LifeGrowth struct {
	From, To time.Duration // its first and last sample
	Base     stat.Bytes    // the level at which the growth began: what it had loaded
	Onset    time.Duration // when
	Lasted   time.Duration // for how long it was seen to grow
	Trend    stat.Trend
}

// Lived returns the life of the series' process so far, and whether it grew steadily until now at any
// scale that holds all of it. What is muted did not.
func (s *Series) Lived() (l LifeGrowth, grew bool) {
	l = LifeGrowth{From: s.First, To: s.Last}
	if s.cfg.Mute {
		return l, false
	}
	var narrow, in room
	var finest []stat.Point // of the narrowest scale that holds all of it
	for i := range s.Scales {
		e := &s.Scales[i]
		if !e.whole() || e.Troughs.Len() < lifePoints {
			continue
		}
		if finest == nil {
			finest = e.points(&narrow)
		}
		pts := e.points(&in)
		for skip := 0; skip <= len(pts)/2 && len(pts)-skip >= lifePoints; skip++ {
			steady := l
			if s.grewSteadily(pts[skip:], e.Width, &steady) && toTheEnd(from(finest, steady.Onset), s.Last) {
				return steady, true
			}
		}
	}
	return l, false
}

// toTheEnd reports whether the last tenth of what was gained came in the last fifth of the time until
// the end.
func toTheEnd(pts []stat.Point, end time.Duration) bool {
	low, high := float64(pts[0].V), 0.0
	for _, p := range pts {
		high = max(high, float64(p.V))
	}
	i := slices.IndexFunc(pts, func(p stat.Point) bool { return float64(p.V) >= high-(high-low)/10 })
	return 5*(end-pts[i].At) <= end-pts[0].At
}

// grewSteadily reports whether a life grew steadily over the troughs, which leave out what it loaded,
// and fills in how. It is no growth to load a model: without compute; from an idle memory on at
// idleLoadRate, which holds where the line of the growth leads back to one at the first sample; or at
// loadRate for less than loadLasts.
func (s *Series) grewSteadily(pts []stat.Point, width time.Duration, l *LifeGrowth) bool {
	first, last := pts[0], pts[len(pts)-1]
	grown := float64(last.V - first.V)
	if grown < s.cfg.MinGrowth || s.rested(first.At) || float64(pts[1].V-first.V) > loadStep*grown/float64(len(pts)-1) {
		return false
	}
	if min(keeping(pts, lifeSlowed, lifeHeld), evenness(pts)) < enough {
		return false
	}
	fit := stat.FitLine(pts)
	l.Base, l.Onset, l.Lasted = first.V, first.At, last.At-first.At
	if !(fit.Rate > 0) || fit.Rate > loadRate && l.Lasted < loadLasts {
		return false
	}
	// The trough of a block is where growth began, a width before its end; and the process may have
	// begun up to an interval before it was first seen.
	since := max(0, l.Onset-width-s.First) + (s.Last-s.First)/time.Duration(max(s.Samples-1, 1))
	if fit.Rate > idleLoadRate && float64(l.Base)-fit.Rate*since.Seconds() <= IdleLevel(s.Capacity) {
		return false
	}
	l.Trend = stat.Trend{Rate: fit.Rate, Variance: fit.Variance, Wander: fit.Wander, N: len(pts)}
	return true
}
