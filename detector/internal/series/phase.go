// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

const (
	// fullHold is how long a leak stays that has filled the memory after that was last full: what it
	// holds was flushed, and grows back. While the memory is full the leak cannot grow, and stays for
	// fullStands: programs die in a full memory hours after it filled, by a request that is larger than
	// the others. fullHold is chosen, fullStands fitted by make bench-detect: an hour brings half of what six do.
	fullHold   = 15 * time.Minute
	fullStands = 6 * time.Hour
	// restTimes is how many times its longest rest a leak may stand still, if that is longer than
	// Config.MinSpan. Fitted by hand: steps of leaks come as unevenly as requests do.
	restTimes = 3
	// beginParts is in how many parts of the growth its begin is looked for, in the first half of them.
	beginParts = 8
)

// Phase is where a series stands with its leak.
type Phase uint8

// The phases.
const (
	PhaseNone Phase = iota
	PhaseLeaking
	numPhases
)

// Leak is what is known of the leak of a series.
type Leak struct {
	Phase      Phase
	Best       uint8 // the scale that is surest
	Confidence float64
	// While leaking: since when, above which level, the highest level that was retained, when it was
	// last seen to grow, and the line that it follows.
	Since      time.Duration
	Base, High stat.Bytes
	Grown      time.Duration
	Trend      stat.Trend
	TrendScale uint8
	TrendAt    int64 // blocks of that scale when it was fitted
}

// decide updates the leak after a block has closed.
func (s *Series) decide(full *Fullness) {
	l := &s.Leak
	l.Confidence, l.Best = -1, 0
	for i := range s.Growths {
		if g := &s.Growths[i]; g.Levels > 0 && g.confidence() > l.Confidence {
			l.Confidence, l.Best = g.confidence(), uint8(i)
		}
	}
	l.Confidence = max(0, min(l.Confidence, 1))
	stepped := l.Confidence < enough && s.cfg.With(Counted) && (s.Capacity == 0 || 2*s.Left < s.Capacity) && s.Steps.counted(s.First+settled) &&
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
	case l.Phase == PhaseLeaking:
		s.hold(full)
	case l.Confidence >= s.cfg.LeakThreshold:
		g := &s.Growths[l.Best]
		l.Since, l.Base, l.High, l.TrendAt = g.Since, g.Base, g.Base+g.Retained, 0
		if stepped {
			l.Since, l.Base, l.High = s.Steps.Taken[0].At, s.Steps.Taken[0].From, s.Steps.Level
		}
		l.Phase = PhaseLeaking
		s.hold(full) // wide scales see an end hours later
	}
	s.pattern()
}

// hold keeps a leak, or ends it.
func (s *Series) hold(full *Fullness) {
	l := &s.Leak
	switch {
	case l.Confidence >= s.cfg.ClearThreshold() && s.goesOn():
		g := &s.Growths[l.Best]
		l.High, l.Grown = max(l.High, g.Base+g.Retained), s.Last
		s.foresee()
	case full.Lately > l.Since && s.Last-full.Until < fullHold && s.Last-l.Grown < fullStands:
		l.Confidence = max(l.Confidence, s.cfg.ClearThreshold())
	default:
		*l = Leak{Confidence: min(l.Confidence, s.cfg.ClearThreshold()), Best: l.Best}
		for i := range s.Growths {
			if g := &s.Growths[i]; g.Levels > 0 {
				s.wait(g) // it did not have to wait while it was one
			}
		}
	}
}

// goesOn reports whether three quarters of what has leaked are still there, and the memory has not stood
// still for longer than the leak ever did before, by far: then it has ended, though wide scales would go
// on to be sure of it for hours. The narrowest scale that has seen all of the leak tells. Under noise, or
// a sawtooth, nothing stands still.
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
		return e.last().At-moved.At <= max(s.cfg.MinSpan, restTimes*longest)
	}
	return true
}

// foresee fits the line that the leak is foreseen by: that of the scale which is surest. Without a new trough there, nothing changes.
func (s *Series) foresee() {
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
	pts = pts[begin(pts):]
	fit := stat.FitTrend(pts)
	if fit.Rate > 0 {
		l.Trend, l.TrendScale, l.TrendAt = fit, l.Best, e.Closed
	}
}

// begin returns which of the points of a growth is the first one of the leak. What grew before it leads nowhere, so that the line is
// known best that begins with the leak.
func begin(pts []stat.Point) (first int) {
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
