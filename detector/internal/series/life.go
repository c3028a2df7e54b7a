// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// These were fitted by hand on generated series; make bench-detect measures what they find and cost.
const (
	// lifePoints is the fewest troughs that show how a life grew.
	lifePoints = 6
	// A first step of loadStep times the typical one is still a part of the load.
	loadStep = 2
	// loadLasts is the shortest growth that is as fast as programs load.
	loadLasts = 2 * time.Minute
	// The ratio of the growth of the second half to that of the first one: from lifeHeld on the pace was kept, at
	// lifeSlowed it was not. A life is known to its end, and has to be more even than present growth.
	lifeSlowed = 0.75
	lifeHeld   = 0.9
)

// LifeGrowth is the growth of a process until its end.
type LifeGrowth struct {
	From, To time.Duration // its first and last sample
	Base     stat.Bytes    // the level at which the growth began, after the load
	Onset    time.Duration // when the growth began
	Lasted   time.Duration // from the first to the last trough of the growth
	Trend    stat.Trend
}

// Lived returns the life of the series' process so far, and whether it grew steadily until now at any
// scale that holds all of it. A muted series did not.
func (s *Series) Lived() (l LifeGrowth, grew bool) {
	l = LifeGrowth{From: s.First, To: s.Last}
	if s.cfg.Mute {
		return l, false
	}
	var in room
	for i := range s.Scales {
		e := &s.Scales[i]
		if !e.whole() || e.Troughs.Len() < lifePoints {
			continue
		}
		pts := e.points(&in)
		for skip := 0; skip <= len(pts)/2 && len(pts)-skip >= lifePoints; skip++ {
			steady := l
			if s.grewSteadily(pts[skip:], e.Width, &steady) {
				return steady, true
			}
		}
	}
	return l, false
}

// grewSteadily reports whether a life grew steadily over the troughs, from the end of its load on, and fills in l. A load is no
// growth: it has no compute; or it comes from an idle memory at idleLoadRate, to which the line leads back at the first sample; or
// it is as fast as loadRate and shorter than loadLasts.
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
	l.Trend = fit
	return true
}
