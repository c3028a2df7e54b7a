// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

const (
	// restTimes is how many times its longest rest a leak may stand still, if that is longer than
	// Config.MinSpan, the shortest growth that can be one. From then on it is less and
	// less sure, and at twice that no leak. The wide scales would see as much hours later: a block of
	// theirs is as long as such a rest.
	restTimes = 3
	// restScales is how many of the narrowest scales must have seen a leak for its rests to be
	// known: noise, or the cycles of the program, hide where it stands.
	restScales = 2
	// restFall is by how much memory may have fallen, in units, and still stand where a leak has
	// left it.
	restFall = 2 * moveUnits
)

// rest tells for how long a leak stands still: memory that is never given back shows at
// once that it does not grow any more, however wide the blocks are that have seen it grow.
type rest struct {
	top     uint32 // the highest of the narrowest troughs since it began, units; 0 while its rests are not known
	at      int32  // when that was reached, ticks since the series began
	longest int32  // the longest time from one top to the next, ticks
}

// add takes a narrowest trough and reports whether it is a new top: that many units above the one before.
func (r *rest) add(p point, above uint32) bool {
	if p.v < r.top+above {
		return false
	}
	if r.top > 0 {
		r.longest = max(r.longest, p.at-r.at)
	}
	r.top, r.at = p.v, p.at
	return true
}

// rested follows the rests of a leak, and returns 1 while it goes on; that falls to 0 while the
// memory stands still. What has fallen since, as after a request, does not stand where the leak has left
// it. A leak that was ended because it stood still goes on when it has grown by Config.MinGrowth.
func (s *series) rested() float64 {
	l, r, e := &s.leak, &s.leak.rest, &s.ladder[0]
	switch {
	case r.top == 0 && l.on && s.narrowly():
		s.lookBack()
	case l.over && s.growths[l.best].since > s.first+int64(r.at)*tick:
		l.over, *r = false, rest{} // that is another growth
	}
	if r.top == 0 {
		return 1
	}
	last, above := e.back(1), uint32(moveUnits)
	if l.over {
		above = max(above, units(int64(s.cfg.MinGrowth)))
	}
	if r.add(last, above) {
		l.over = false
	}
	switch {
	case l.over:
		return 0
	case last.v+restFall < r.top:
		return 1
	}
	ago := s.watched(s.first+int64(r.at)*tick, s.last)
	return clamp(2 - float64(ago)/float64(max(int64(s.cfg.MinSpan), restTimes*int64(r.longest)*tick)))
}

// narrowly reports whether one of the narrowest scales is sure of a leak, by no line.
func (s *series) narrowly() bool {
	for i := range restScales {
		if g := &s.growths[i]; g.levels > 0 && !g.fitted && g.confidence*g.recency >= s.cfg.LeakThreshold {
			return true
		}
	}
	return false
}

// lookBack finds the tops of the leak until now, at the narrowest scale that holds all of it.
func (s *series) lookBack() {
	r, from := &s.leak.rest, ticks(s.leak.since-s.first)
	var buffer [scaleBlocks]point
	for i := range ladderScales {
		e := &s.ladder[i]
		if e.len == 0 || e.back(scaleBlocks).at > from && e.closed > int64(e.len) {
			continue
		}
		for _, p := range e.points(&buffer) {
			if p.at >= from {
				r.add(p, moveUnits)
			}
		}
		return
	}
}
