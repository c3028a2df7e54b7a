// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

const (
	// restTimes is how many times its longest rest a leak may stand still, if that is longer than
	// Config.MinSpan, the shortest growth that can be one. From then on it is less and
	// less sure, and at twice that no leak. The wide scales would see as much hours later: a block of
	// theirs is as long as such a rest.
	restTimes = 3
	// restBand is by how much the memory of what stands still changes at most, in units.
	restBand = 2 * moveUnits
)

// rest tells for how long a leak stands still: then the narrowest troughs stay where they are, while
// the wide scales go on to be sure of it. Under noise, or a sawtooth, nothing stands still.
type rest struct {
	level   uint32 // at which the narrowest troughs stand, units; 0 while no leak is known
	since   int32  // since when, ticks since the series began
	longest int32  // the longest time for which they did before, ticks
}

// add takes a narrowest trough.
func (r *rest) add(p point) {
	if r.level > 0 {
		if int64(p.v) <= int64(r.level)+restBand && int64(p.v) >= int64(r.level)-restBand {
			return
		}
		r.longest = max(r.longest, p.at-r.since)
	}
	r.level, r.since = p.v, p.at
}

// beginRest looks back at a growth that is to be declared a leak: at the narrowest scale that holds all of
// it. Where it began at what is kept of a leak that stood still before, that rest is known.
func (s *series) beginRest(g *growth) {
	l, r, from := &s.leak, &s.leak.rest, ticks(g.since-s.first)
	known := int32(0)
	if r.level > 0 && float64(g.base-l.base) >= (1-retrace)*float64(l.high-l.base) {
		known = max(r.longest, from-r.since)
	}
	*r = rest{longest: known}
	var buffer [scaleBlocks]point
	for i := range ladderScales {
		e := &s.ladder[i]
		if e.len == 0 || e.back(scaleBlocks).at > from && e.closed > int64(e.len) {
			continue
		}
		for _, p := range e.points(&buffer) {
			if p.at >= from {
				r.add(p)
			}
		}
		return
	}
}

// goesOn follows the rests of a leak, and returns 1 while it goes on; that falls to 0 while it stands still.
func (s *series) goesOn() float64 {
	r, e := &s.leak.rest, &s.ladder[0]
	if !s.leak.on || e.len == 0 {
		return 1
	}
	r.add(e.back(1))
	ago := s.watched(s.first+int64(r.since)*tick, s.last)
	return clamp(2 - float64(ago)/float64(max(int64(s.cfg.MinSpan), restTimes*int64(r.longest)*tick)))
}

// resume lets a leak that was ended because it stood still go on when it has grown by Config.MinGrowth,
// for half of Config.MinSpan, which no request takes as long; and forgets it when the scales are sure of it no more, or
// it is given back.
func (s *series) resume(o *observation) {
	l := &s.leak
	switch {
	case l.confidence < s.cfg.ClearThreshold || !s.kept():
		l.over = false
	case s.lowest() >= int64(l.rest.level)*unit+int64(s.cfg.MinGrowth):
		l.on, l.over = true, false
		l.rest.add(s.ladder[0].back(1))
		s.hold(o, false)
	default:
		l.confidence = 0
	}
}

// lowest returns the lowest of the narrowest troughs within half of Config.MinSpan, in bytes.
func (s *series) lowest() int64 {
	e := &s.ladder[0]
	last := e.back(1)
	low := last.bytes()
	for i := 2; i <= e.len && 2*int64(last.at-e.back(i).at)*tick <= int64(s.cfg.MinSpan); i++ {
		low = min(low, e.back(i).bytes())
	}
	return low
}
