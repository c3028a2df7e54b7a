// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"cmp"
	"time"
)

// crestSlots is the number of slots of a crest: a bound of cost.
const crestSlots = 60

// Crest is the highest value of the last while, in slots of a 60th of it, so that
// its memory is bounded however many values come. The zero Crest is ready for use
// by one goroutine.
type Crest[V cmp.Ordered] struct {
	Slots [crestSlots]struct {
		Start time.Duration
		Max   V
	}
	Head int // newest
	Len  int
	// Rest is the highest value of the slots of the last span but the newest, until its own slot expires.
	Rest  V
	Until time.Duration
}

// Add takes the value v at time t, later than all before it, and returns the
// highest value of the last span, which is the same in every call.
func (c *Crest[V]) Add(t, span time.Duration, v V) V {
	newest := &c.Slots[c.Head]
	if c.Len > 0 && t-newest.Start < span/crestSlots {
		newest.Max = max(newest.Max, v)
	} else {
		if c.Len > 0 && newest.Max >= c.Rest {
			c.Rest, c.Until = newest.Max, newest.Start+span
		}
		c.Head = (c.Head + 1) % crestSlots
		c.Len = min(c.Len+1, crestSlots)
		newest = &c.Slots[c.Head]
		newest.Start, newest.Max = t, v
	}
	if t >= c.Until {
		c.Rest, c.Until = newest.Max, newest.Start+span
		for i := 1; i < c.Len; i++ {
			start, highest := c.Slot(i)
			if start <= t-span {
				break
			}
			if highest > c.Rest {
				c.Rest, c.Until = highest, start+span
			}
		}
	}
	return max(newest.Max, c.Rest)
}

// Slot returns the n-th slot before the newest one.
func (c *Crest[V]) Slot(n int) (start time.Duration, highest V) {
	s := &c.Slots[(c.Head+crestSlots-n)%crestSlots]
	return s.Start, s.Max
}

// Check implements state.Checker.
func (c *Crest[V]) Check(time.Duration) bool { return c.Head < crestSlots && c.Len <= crestSlots }
