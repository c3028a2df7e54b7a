// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"time"
)

// The slots are a bound of cost; the others are chosen.
const (
	// spikeSlots is the number of slots of the time over which the baseline
	// of a spike is the lowest value.
	spikeSlots = 12
	// spikeReturn is the largest distance of the end of a spike from its begin, as a share of its height.
	spikeReturn = 0.25
	// dutySpan is the time over which Duty is averaged.
	dutySpan = 10 * time.Minute
)

// Spikes finds spikes: rises by at least a given height above the lowest
// value of the last width that fall back within width to where they began, within
// spikeReturn of the height reached. A rise that stays is a step or a
// ramp, and a fall far below its begin is that of a sawtooth.
type Spikes struct {
	// The begin of each slot and the lowest value in it, of the last Len ones, oldest first.
	Starts [spikeSlots]time.Duration
	Mins   [spikeSlots]Bytes
	Len    int

	Active bool
	Base   Bytes // level before the rise
	Peak   Bytes
	Since  time.Duration // when the rise came
	Last   time.Duration // the sample before
	// Duty is the share of the last ten minutes, roughly, in which a spike was on.
	Duty float64
}

// Add takes the sample y at time t and reports whether a spike ended with it.
// height is in bytes.
func (s *Spikes) Add(t time.Duration, y Bytes, width time.Duration, height float64) bool {
	ended := false
	s.average(t)
	switch {
	case !s.Active:
		base, ok := s.baseline(t - width)
		if ok && float64(y-base) >= height {
			s.Active, s.Base, s.Peak, s.Since = true, base, y, t
		}
	case t-s.Since > width:
		s.restart() // it stays: the new level is the baseline
	default:
		s.Peak = max(s.Peak, y)
		margin, above := spikeReturn*float64(s.Peak-s.Base), float64(y-s.Base)
		if above <= margin {
			ended = above >= -margin
			s.restart()
		}
	}
	s.note(t, y, width/spikeSlots)
	return ended
}

// average updates Duty with the time since the last sample.
func (s *Spikes) average(t time.Duration) {
	on := 0.0
	if s.Active {
		on = 1
	}
	if s.Last > 0 {
		s.Duty += (on - s.Duty) * min(1, float64(t-s.Last)/float64(dutySpan))
	}
	s.Last = t
}

func (s *Spikes) restart() { s.Active, s.Len = false, 0 }

// baseline returns the lowest value since the time from.
func (s *Spikes) baseline(from time.Duration) (lowest Bytes, ok bool) {
	lowest = math.MaxInt64
	for i := s.Len - 1; i >= 0 && s.Starts[i] >= from; i-- {
		lowest, ok = min(lowest, s.Mins[i]), true
	}
	return lowest, ok
}

// note adds a value to the newest slot, or to a new one of that length.
func (s *Spikes) note(t time.Duration, y Bytes, slot time.Duration) {
	if last := s.Len - 1; last >= 0 && t-s.Starts[last] < slot {
		s.Mins[last] = min(s.Mins[last], y)
		return
	}
	if s.Len == spikeSlots {
		copy(s.Starts[:], s.Starts[1:])
		copy(s.Mins[:], s.Mins[1:])
		s.Len--
	}
	s.Starts[s.Len], s.Mins[s.Len] = t, y
	s.Len++
}

// Check implements state.Checker.
func (s *Spikes) Check(time.Duration) bool { return s.Len <= spikeSlots }
