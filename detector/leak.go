// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "time"

const (
	// confirm is how long the confidence must be above the leak threshold, in ns: a
	// load can look like a leak for a moment.
	confirm = int64(45 * time.Second)
	// fullHold is how long a leak stays that has filled the memory, after it was last
	// seen to grow, and after the memory was last full.
	fullHold = int64(15 * time.Minute)
	// A leak that pauses stays for pauseShare of the time that it has lasted, and
	// for longestPause at most.
	pauseShare   = 0.25
	longestPause = int64(10 * time.Minute)
	// restingShare of a growth without compute make it a load, of which
	// restingConfidence is left.
	restingShare      = 0.8
	restingConfidence = 0.3
	// The end of the last cycle shows what is retained for overdueCycles typical lengths.
	overdueCycles = 1.5
	// A scale foresees from trendPoints troughs on, where its steadiness and its
	// start are trendClear at least.
	trendPoints = 16
	trendClear  = 0.8
)

// leak is the leak of a series, if it has one.
type leak struct {
	on         bool
	plain      bool // told sooner than other growth that begins with its program
	level      bool // base is a median or the beginning of a line, not a trough
	over       bool // it was ended because it stood still, and may go on
	best       int8 // the scale that is surest
	scale      int8 // while on: that of trend
	rest       rest
	confidence float64
	above      int64 // since when the confidence is above the leak threshold, ns; 0 if it is not

	// While on: since when, above which level in bytes, the highest level that was
	// retained, when it was last seen to grow, and the line that it followed then.
	since, base, high, grown int64
	kept                     int64 // the level of the surest scale then, bytes
	trend                    trend
	closed                   int64 // blocks of its scale then
}

// grownFor returns for how long, in ns, the scales that are sure of a leak have seen it.
func (s *series) grownFor(t int64) int64 {
	longest := int64(0)
	for i := range s.growths {
		if g := &s.growths[i]; g.levels > 0 && g.confidence*g.recency >= s.cfg.LeakThreshold {
			longest = max(longest, s.watched(g.since, t))
		}
	}
	return longest
}

// decide updates the leak and the shape after a sample.
func (s *series) decide(o *observation) {
	l, t := &s.leak, o.t
	l.confidence, l.best = -1, 0
	for i := range s.growths {
		g := &s.growths[i]
		if g.levels == 0 {
			continue
		}
		g.recency = g.fresh(s.watched(g.end, t))
		if c := g.confidence * g.recency; c > l.confidence {
			l.confidence, l.best = c, int8(i)
		}
	}
	goesOn := s.goesOn()
	l.confidence = max(l.confidence, 0) * goesOn
	if f := &s.effort; f.resting > restingShare*(f.resting+f.working) && s.grownFor(t) < int64(s.cfg.SettleTime) {
		l.confidence *= restingConfidence
	}
	switch {
	case !s.ripe():
		l.on, l.over, l.above, l.rest = false, false, 0, rest{}
	case l.on:
		s.hold(o, goesOn < 1)
	case l.over:
		s.resume(o)
	case l.confidence < s.cfg.LeakThreshold:
		l.above = 0
	case l.above == 0:
		l.above = t
	case t-l.above >= confirm:
		g := &s.growths[l.best]
		s.beginRest(g)
		l.on, l.plain, l.since, l.base, l.high, l.closed = true, g.plain, g.since, g.base, g.base, 0
		l.level = l.best == levelScale || g.fitted
		s.hold(o, false)
	}
	s.shape.update(s, t)
}

// hold keeps a leak, or ends it. One that pauses stays for a while, unless its
// memory is given back; and an allocator that empties its cache when memory runs
// out, as PyTorch's does before it fails, gives nothing back. resting says that its memory stands
// still for too long.
func (s *series) hold(o *observation, resting bool) {
	l, t := &s.leak, o.t
	kept := s.kept()
	full := o.full.lately > l.since && t-min(o.full.until, l.grown) < fullHold
	paused := !resting && s.watched(l.grown, t) < min(int64(pauseShare*float64(l.grown-l.since)), longestPause)
	switch {
	case l.confidence >= s.cfg.ClearThreshold && kept:
		g := &s.growths[l.best]
		l.high, l.grown = max(l.high, g.base+g.retained), t
		l.kept = s.keeps(int(l.best))
		s.foresee()
	case full || paused && kept:
		l.confidence = max(l.confidence, s.cfg.ClearThreshold)
	default:
		s.doubt()
		l.on, l.above, l.over = false, 0, resting && kept
		if !l.over {
			l.rest = rest{}
		}
		l.confidence = min(l.confidence, s.cfg.ClearThreshold)
	}
}

// kept reports whether three quarters of what has leaked, or more, are still there.
func (s *series) kept() bool {
	l := &s.leak
	trough, ok := s.ladder[0].envelope()
	if e := &s.ladder[levelScale]; l.level && e.len > 0 {
		trough = max(trough, e.back(1).bytes())
	}
	return !ok || float64(trough-l.base) >= (1-retrace)*float64(l.high-l.base)
}

// doubt is for the end of a leak or of its process. If it was told sooner because it is
// plain, and would not have been told by then otherwise, what is plain need be no leak in
// this memory: it could have filled it in hours only. What is muted tells of nobody else.
func (s *series) doubt() {
	if l := &s.leak; l.on && l.plain && !s.cfg.Mute && l.grown-l.since < int64(s.cfg.SettleTime) {
		s.memory().doubted = s.last
	}
}

// keeps returns what is retained by what scale i sees, in bytes. While the memory goes in cycles
// that is the end of the last one, whichever scale is surest; but that of one that was before the
// leak shows nothing of it, nor does one where the next is long overdue.
func (s *series) keeps(i int) int64 {
	c := &s.cycles
	end := s.first + int64(c.last)*tick
	lately := end > s.leak.since && s.last-end < int64(overdueCycles*c.length*float64(tick))
	if i == cycleScale || i == levelScale && s.levels.inSeason || s.cycling(s.last) && lately {
		return s.ladder[cycleScale].back(1).bytes()
	}
	return int64(s.ladder[i].level) * unit
}

// foresee fits the line that the leak is foreseen by: that of the widest scale which
// sees it clearly, because that has seen most of it. Without a new trough there,
// nothing changes.
func (s *series) foresee() {
	l, scale := &s.leak, s.leak.best
	for i := cycleScale; i >= 0; i-- {
		g := &s.growths[i]
		if g.points >= trendPoints && g.steadiness >= trendClear && g.start >= trendClear && g.recency > 0 {
			scale = int8(i)
			break
		}
	}
	e := &s.ladder[scale]
	if l.scale == scale && l.closed == e.closed {
		return
	}
	var buffer [scaleBlocks]point
	pts := e.points(&buffer)
	fit := fitTrend(pts[max(len(pts)-s.growths[scale].points, 0):])
	if fit.rate > 0 {
		l.trend, l.scale, l.closed = fit, scale, e.closed
	}
}
