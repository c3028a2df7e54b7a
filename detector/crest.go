// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"cmp"
	"time"
)

const (
	// crestSpan is over how long the crest is the highest value: long enough to
	// hold an epoch of training with its evaluation, or a rush of requests.
	crestSpan  = time.Hour
	crestSlots = 60
	// crestExit is the share of the crest that a member must have held for the crest
	// to begin anew when it is gone.
	crestExit = 0.1
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
	// rest is the highest value of the slots of the last span but the newest, of
	// which the earliest began at oldest. looked says that they are known.
	rest   V
	oldest int64
	looked bool
}

// Add takes the value v at time t, later than all before it, and returns the
// highest value of the last span, which is the same in every call.
func (c *Crest[V]) Add(t, span time.Duration, v V) V {
	newest := &c.slots[c.head]
	if c.len > 0 && int64(t)-newest.start < int64(span/crestSlots) {
		newest.max = max(newest.max, v)
	} else {
		c.head = (c.head + 1) % crestSlots
		c.len = min(c.len+1, crestSlots)
		newest = &c.slots[c.head]
		newest.start, newest.max = int64(t), v
		c.looked = false
	}
	if begin := int64(t - span); !c.looked || c.oldest <= begin {
		c.look(begin)
	}
	return max(newest.max, c.rest)
}

// look finds the highest value of the slots that began after begin. The newest,
// which goes on to change, counts with what it holds now.
func (c *Crest[V]) look(begin int64) {
	newest := &c.slots[c.head]
	c.rest, c.oldest, c.looked = newest.max, newest.start, true
	for i := 1; i < c.len; i++ {
		slot := &c.slots[(c.head+crestSlots-i)%crestSlots]
		if slot.start <= begin {
			break
		}
		c.rest, c.oldest = max(c.rest, slot.max), slot.start
	}
}
