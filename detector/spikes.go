// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "math"

const (
	// spikeSlots is into how many slots the time is cut over which the baseline
	// of a spike is the lowest value.
	spikeSlots = 12
	// spikeReturn is how far from its beginning, as a share of its height, a
	// spike may end.
	spikeReturn = 0.25
	// dutySpan is over how long duty is averaged, in ns.
	dutySpan = 600e9
)

// spikeCounter counts spikes: rises by at least a given height above the lowest
// value of the last width that fall back within width to where they began, give
// or take a quarter of the height reached. A rise that stays is a step or a
// ramp, and one that ends far below its beginning is the end of a sawtooth.
type spikeCounter struct {
	slots [spikeSlots]spikeSlot
	next  int
	len   int

	// low is the lowest value of the slots that were complete when it was noted, of
	// which the oldest began at lowFrom.
	low, lowFrom int64

	active bool
	base   int64 // level before the rise
	peak   int64
	since  int64 // ns, when the rise was seen
	last   int64 // ns, the sample before
	// duty is the share of the last ten minutes, roughly, in which a spike was on.
	duty float64
}

type spikeSlot struct{ start, min int64 }

// add takes the sample y at time t and reports whether a spike ended with it.
// Times are in ns, height in bytes.
func (s *spikeCounter) add(t, y, width int64, height float64) bool {
	ended := false
	s.average(t)
	switch {
	case !s.active:
		base, ok := s.baseline(t - width)
		if ok && float64(y-base) >= height {
			s.active, s.base, s.peak, s.since = true, base, y, t
		}
	case t-s.since > width:
		s.restart() // it stayed: the new level is the baseline
	default:
		s.peak = max(s.peak, y)
		margin, above := spikeReturn*float64(s.peak-s.base), float64(y-s.base)
		if above <= margin {
			ended = above >= -margin
			s.restart()
		}
	}
	s.note(t, y, width/spikeSlots)
	return ended
}

// average updates duty with the time since the last sample.
func (s *spikeCounter) average(t int64) {
	on := 0.0
	if s.active {
		on = 1
	}
	if s.last > 0 {
		s.duty += (on - s.duty) * min(1, float64(t-s.last)/dutySpan)
	}
	s.last = t
}

func (s *spikeCounter) restart() { s.active, s.len = false, 0 }

// baseline returns the lowest value since the time from.
func (s *spikeCounter) baseline(from int64) (lowest int64, ok bool) {
	if s.len == 0 {
		return 0, false
	}
	newest := &s.slots[(s.next+spikeSlots-1)%spikeSlots]
	if newest.start < from {
		return 0, false
	}
	if s.lowFrom < from {
		s.find(from)
	}
	return min(s.low, newest.min), true
}

// find notes the lowest value of the complete slots that began at the time from or
// later.
func (s *spikeCounter) find(from int64) {
	s.low, s.lowFrom = math.MaxInt64, math.MaxInt64
	for i := 1; i < s.len; i++ {
		slot := &s.slots[(s.next+2*spikeSlots-1-i)%spikeSlots]
		if slot.start < from {
			return
		}
		s.low, s.lowFrom = min(s.low, slot.min), slot.start
	}
}

func (s *spikeCounter) note(t, y, slot int64) {
	if s.len == 0 {
		s.low, s.lowFrom = math.MaxInt64, math.MaxInt64
	} else {
		last := &s.slots[(s.next+spikeSlots-1)%spikeSlots]
		if t-last.start < slot {
			last.min = min(last.min, y)
			return
		}
		s.low, s.lowFrom = min(s.low, last.min), min(s.lowFrom, last.start)
	}
	s.slots[s.next] = spikeSlot{start: t, min: y}
	s.next = (s.next + 1) % spikeSlots
	s.len = min(s.len+1, spikeSlots)
}
