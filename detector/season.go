// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"slices"
)

const (
	// seasonParts is in how many parts the time since the begin of a cycle is cut.
	// A typical cycle takes typicalParts of them at most: longer ones are followed too.
	seasonParts  = 32
	typicalParts = 22
	// shortestSeason is the least length of a cycle that is followed, in narrowest
	// blocks: a shorter one shows in the blocks themselves.
	shortestSeason = 6
	// regularity is the share of its length by which a cycle may differ from the typical
	// one as a rule, if cycles are to be alike.
	regularity = 0.2
	// seasonCycles is from how many cycles on their shape is known.
	seasonCycles = 3
	// seasonMemory is the weight of the last cycle in the shape.
	seasonMemory = 0.2
	// seasonEdge is the share of the height of a cycle by which neighbouring parts
	// differ at an edge. Where the memory should be is not known there: an edge comes a
	// little earlier or later each time.
	seasonEdge = 0.25
	// What a cycle may be above the shape without a leak: vagary times what one was off
	// it at most, or newShape of its height over the number of cycles that were seen.
	vagary   = 2.5
	newShape = 0.6
	// forgottenVagary is the share of the largest vagary that a cycle forgets.
	forgottenVagary = 0.02
	// unknownPart is the shape in parts that were not seen.
	unknownPart = -1
)

// season is the shape of the cycles of a series: what it holds at each time since the
// last fall was seen, in the mean over the cycles. So what the memory is above its cycles is
// known at each moment, and not only when one has ended: where cycles are alike, growth
// shows within one.
//
// An epoch that grows from 10 to 14 GiB in ten minutes has a shape of 10 to 14 GiB, and its
// foot is 10 GiB. When the memory is at 12.5 GiB in the middle of a later one, it is half a
// GiB above the shape, and would be at 10.5 GiB at the foot of a cycle.
//
// The zero season is that of a series whose cycles are not alike.
type season struct {
	part   int32 // width of a part, ticks; 0 while cycles are not alike
	begun  int32 // when the present cycle began, ticks
	cycles int   // that are in the shape
	// foot is the lowest level of the shape when it was first known, units.
	foot  float64
	shape [seasonParts]float32 // units
	// The troughs of the present cycle: their sum in units and their number.
	sum [seasonParts]float32
	n   [seasonParts]uint16
	// off is by how much a cycle was off the shape at most, but for its level, units.
	off float64
}

// turn ends the present cycle at the time at and begins another one. block is the
// width of the narrowest blocks in ticks.
func (s *season) turn(at int32, c *cycles, block int32) {
	part := max(int32(c.length)/typicalParts, block)
	switch {
	case c.length < shortestSeason*float64(block) || c.varies > regularity*c.length:
		*s = season{}
	case s.part == 0 || part > 2*s.part || s.part > 2*part:
		*s = season{part: part}
		for i := range s.shape {
			s.shape[i] = unknownPart
		}
	default:
		s.learn(c.size)
	}
	s.begun = at
	clear(s.n[:])
	clear(s.sum[:])
}

// learn takes the present cycle into the shape. Its level, which a leak raises, is
// taken off: the shape keeps the one that it had at first. size is the height of a cycle.
func (s *season) learn(size float64) {
	level, seen, known := 0.0, 0, 0
	for i, n := range s.n {
		if n > 0 {
			seen++
		}
		if n > 0 && s.shape[i] >= 0 {
			level += s.mean(i) - float64(s.shape[i])
			known++
		}
	}
	if seen == 0 || s.cycles > 0 && known == 0 {
		return
	}
	level /= max(float64(known), 1)
	s.off -= forgottenVagary * s.off
	s.cycles++
	weight := max(1/float64(s.cycles), seasonMemory)
	for i, n := range s.n {
		if n == 0 {
			continue
		}
		v := s.mean(i) - level
		if s.shape[i] >= 0 {
			change := v - float64(s.shape[i])
			if !s.edge(int32(i), size) {
				s.off = max(s.off, math.Abs(change))
			}
			v = float64(s.shape[i]) + weight*change
		}
		s.shape[i] = float32(max(v, 0))
	}
	if s.cycles == 1 {
		s.foot = math.Inf(1)
		for _, v := range s.shape {
			if v >= 0 {
				s.foot = min(s.foot, float64(v))
			}
		}
	}
}

// mean returns the mean of the troughs of the present cycle in a part that has some.
func (s *season) mean(i int) float64 { return float64(s.sum[i]) / float64(s.n[i]) }

// known reports whether the shape of the cycles is known.
func (s *season) known() bool { return s.cycles >= seasonCycles }

// edge reports whether the shape has an edge at a part that was seen.
func (s *season) edge(i int32, size float64) bool {
	for _, k := range [...]int32{i - 1, i + 1} {
		if s.has(k) && math.Abs(float64(s.shape[k]-s.shape[i])) > seasonEdge*size {
			return true
		}
	}
	return false
}

func (s *season) has(i int32) bool { return i >= 0 && i < seasonParts && s.shape[i] >= 0 }

// allowance is what the memory may be above the shape without a leak, in units. size is
// the height of a cycle.
func (s *season) allowance(size float64) float64 {
	return max(vagary*s.off, newShape*size/float64(s.cycles))
}

// above takes the trough v in units of a narrowest block that ended at the time at, and
// returns what the memory would be at the foot of a cycle. ok is false where that is
// not known.
func (s *season) above(at int32, v uint32, size float64) (level float64, ok bool) {
	if s.part == 0 || at < s.begun {
		return 0, false
	}
	since := at - s.begun
	i := since / s.part
	if i >= seasonParts {
		*s = season{} // the cycles have ended, or are other ones now
		return 0, false
	}
	s.sum[i] += float32(v)
	s.n[i]++
	if !s.known() || !s.has(i) || s.edge(i, size) {
		return 0, false
	}
	return max(0, float64(v)-s.at(i, float64(since-i*s.part)/float64(s.part)-0.5)+s.foot), true
}

// at returns the shape in part i, off of a part after its middle: a line leads from
// the middle of one to that of the next, and goes on after the last one.
func (s *season) at(i int32, off float64) float64 {
	next, other := i+1, i-1
	if off < 0 {
		next, other = other, next
	}
	here := float64(s.shape[i])
	switch {
	case s.has(next):
		return here + math.Abs(off)*(float64(s.shape[next])-here)
	case s.has(other):
		return here + math.Abs(off)*(here-float64(s.shape[other]))
	}
	return here
}

// levelValues is how many of the narrowest blocks of one of the level scale its median
// is of at most. As a rule there are three, or two where samples are far apart.
const levelValues = 8

// levels is what the level scale of a series is fed from.
type levels struct {
	season season
	// inSeason says that it follows what is above the shape of the cycles, and not the
	// memory itself.
	inSeason bool
	// The open block.
	values [levelValues]uint32
	n      int
}

func (l *levels) add(v uint32) {
	if l.n < levelValues {
		l.values[l.n] = v
		l.n++
	}
}

// take returns the median of the open block, the lower one of two, and empties it.
func (l *levels) take() uint32 {
	v := l.values[:l.n]
	slices.Sort(v)
	middle := v[(len(v)-1)/2]
	l.values, l.n = [levelValues]uint32{}, 0
	return middle
}

// follow adds the trough of a narrowest block to the level scale and reports whether a
// block of that closed. While the cycles are alike, but their shape is not known yet, it
// adds nothing.
func (s *series) follow(low trough, n nature) (closed bool) {
	l, v := &s.levels, units(low.bytes)
	level, ok := l.season.above(ticks(low.at-s.first), v, s.cycles.size)
	if l.inSeason != l.season.known() {
		l.inSeason = !l.inSeason
		s.restartLevels()
	}
	if l.season.part == 0 {
		level, ok = float64(v), true
	}
	if !ok {
		return false
	}
	e := &s.ladder[levelScale]
	if e.full(low.at) {
		e.min = int64(l.take()) * unit // the block that add closes holds the median
	}
	l.add(uint32(level))
	_, closed = e.add(low.at, int64(level)*unit, s.first, n)
	return closed
}

// restartLevels begins the level scale anew: what it follows is another thing now.
func (s *series) restartLevels() {
	e := &s.ladder[levelScale]
	*e = scale{width: e.width, least: e.least, share: e.share, runs: e.runs}
	s.growths[levelScale] = growth{}
	s.levels.values, s.levels.n = [levelValues]uint32{}, 0
}
