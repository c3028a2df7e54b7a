// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"cmp"
	"time"
)

const (
	// crestSpan is over how long the crest is the highest value: long enough to
	// hold a whole step of training or a batch of requests.
	crestSpan  = 10 * time.Minute
	crestSlots = 60
)

// Crest is the highest value of the last while, in slots of a 60th of it, so that
// its memory is bounded however many values come. The zero Crest is ready for use
// by one goroutine.
type Crest[V cmp.Ordered] struct {
	slots [crestSlots]struct {
		start int64 // ns
		max   V
	}
	head int // newest
	len  int
}

// Add takes the value v at time t, later than all before it, and returns the
// highest value of the last span, which is the same in every call.
func (c *Crest[V]) Add(t, span time.Duration, v V) V {
	if newest := &c.slots[c.head]; c.len > 0 && int64(t)-newest.start < int64(span/crestSlots) {
		newest.max = max(newest.max, v)
	} else {
		c.head = (c.head + 1) % crestSlots
		c.len = min(c.len+1, crestSlots)
		c.slots[c.head].start, c.slots[c.head].max = int64(t), v
	}
	highest := v
	for i := range c.len {
		slot := &c.slots[(c.head+crestSlots-i)%crestSlots]
		if slot.start <= int64(t-span) {
			break
		}
		highest = max(highest, slot.max)
	}
	return highest
}
