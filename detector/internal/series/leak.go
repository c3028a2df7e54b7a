// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

const (
	// A leak that has filled the memory stays while the memory is full, where it cannot grow, and for fullHold after that: a
	// flushed cache grows back. It is chosen.
	fullHold = 15 * time.Minute
	// A leak may stand still for restTimes its longest rest, if that is longer than
	// Config.MinSpan. Fitted by hand: steps of leaks come as unevenly as requests do.
	restTimes = 3
	// The begin of a leak is one of beginParts of its growth, in the first half.
	beginParts = 8
)

// Leak is the leak of a series.
type Leak struct {
	On         bool
	Best       uint8 // the scale that is surest
	Confidence float64
	// While On.
	Since      time.Duration
	Base, High stat.Bytes // the level before it, and the highest one that was retained
	Trend      stat.Trend
	TrendScale uint8
	TrendAt    int64 // closed blocks of that scale when it was fitted
}

// decide starts, updates or stops the leak after a block has closed.
func (s *Series) decide(full *Fullness) {
	l := &s.Leak
	l.Confidence, l.Best = -1, 0
	for i := range s.Growths {
		if g := &s.Growths[i]; g.Levels > 0 && g.confidence() > l.Confidence {
			l.Confidence, l.Best = g.confidence(), uint8(i)
		}
	}
	l.Confidence = max(0, min(l.Confidence, 1))
	stepped := l.Confidence < enough && (s.Capacity == 0 || 2*s.Left < s.Capacity) && s.Steps.counted(s.First+settled) &&
		s.kept(s.Steps.Level-s.Steps.Taken[0].From, 0) >= enough
	if stepped {
		l.Confidence = enough
	}
	if s.slows() {
		l.Confidence = min(l.Confidence, s.cfg.ClearThreshold()/2)
	}
	switch {
	case !s.ripe():
		*l = Leak{Confidence: l.Confidence, Best: l.Best}
	case l.On:
		s.update(full)
	case l.Confidence >= s.cfg.LeakThreshold:
		g := &s.Growths[l.Best]
		l.Since, l.Base, l.High, l.TrendAt = g.Since, g.Base, g.Base+g.Retained, 0
		if stepped {
			l.Since, l.Base, l.High = s.Steps.Taken[0].At, s.Steps.Taken[0].From, s.Steps.Level
		}
		l.On = true
		s.update(full) // wide scales see its end hours later
	}
	s.setPattern()
}

// update updates a leak, or stops it.
func (s *Series) update(full *Fullness) {
	l := &s.Leak
	switch {
	case l.Confidence >= s.cfg.ClearThreshold() && s.goesOn():
		g := &s.Growths[l.Best]
		l.High = max(l.High, g.Base+g.Retained)
		s.fit()
	case full.Lately > l.Since && s.Last-full.Until < fullHold:
		l.Confidence = max(l.Confidence, s.cfg.ClearThreshold())
	default:
		*l = Leak{Confidence: min(l.Confidence, s.cfg.ClearThreshold()), Best: l.Best}
		for i := range s.Growths {
			if g := &s.Growths[i]; g.Levels > 0 {
				s.wait(g) // it does not wait while it is a leak
			}
		}
	}
}

// goesOn reports whether three quarters of the leak are still there, and the memory has not stood
// still for restTimes longer than before. Wide scales would see that hours later: the narrowest scale that has seen all of the leak
// decides. Under noise, or a sawtooth, nothing stands still.
func (s *Series) goesOn() bool {
	l := &s.Leak
	if low, ok := s.Scales[0].envelope(); ok && float64(low-l.Base) < (1-retrace)*float64(l.High-l.Base) {
		return false
	}
	var in room
	for i := range s.Scales {
		e := &s.Scales[i]
		if !e.holds(l.Since) {
			continue
		}
		pts := from(e.points(&in), l.Since)
		moved, longest := pts[0], time.Duration(0)
		for _, p := range pts {
			if p.V >= moved.V+quantum || p.V <= moved.V-quantum {
				longest, moved = max(longest, p.At-moved.At), p
			}
		}
		return e.Troughs.Last().At-moved.At <= max(s.cfg.MinSpan, restTimes*longest)
	}
	return true
}

// fit fits the trend of the leak to the surest scale, if that has a new trough.
func (s *Series) fit() {
	l := &s.Leak
	if g := &s.Growths[l.Best]; g.confidence() < enough && s.Steps.counted(0) {
		l.Trend, l.TrendAt = s.Steps.trend(), 0
		return
	}
	e := &s.Scales[l.Best]
	if l.TrendScale == l.Best && l.TrendAt == e.Closed {
		return
	}
	var in room
	pts := e.points(&in)
	pts = pts[max(len(pts)-s.Growths[l.Best].Steady, 0):]
	if trend := stat.FitLine(pts[leakBegin(pts):]); trend.Rate > 0 {
		l.Trend, l.TrendScale, l.TrendAt = trend, l.Best, e.Closed
	}
}

// leakBegin returns the index of the first point of the leak in its growth: the line from there has the smallest error.
func leakBegin(pts []stat.Point) (first int) {
	least := math.Inf(1)
	for i := range beginParts/2 + 1 {
		from := i * len(pts) / beginParts
		if len(pts)-from < minLevels {
			break
		}
		if v := stat.FitLine(pts[from:]).Variance; v < least {
			first, least = from, v
		}
	}
	return first
}

// Check implements state.Checker.
func (l *Leak) Check(time.Duration) bool { return l.Best < numScales && l.TrendScale < numScales }
