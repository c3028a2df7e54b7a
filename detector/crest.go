// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "time"

const (
	// crestSpan is over how long the crest is the highest value: long enough to
	// hold a whole step of training or a batch of requests.
	crestSpan  = int64(10 * time.Minute)
	crestSlots = 60
)

// crest is the highest value of the last crestSpan, in slots of a 60th of it.
type crest struct {
	slots [crestSlots]struct{ start, max int64 }
	head  int // newest
	len   int
}

// add takes the value y at time t (ns) and returns the crest.
func (c *crest) add(t, y int64) int64 {
	if newest := &c.slots[c.head]; c.len > 0 && t-newest.start < crestSpan/crestSlots {
		newest.max = max(newest.max, y)
	} else {
		c.head = (c.head + 1) % crestSlots
		c.len = min(c.len+1, crestSlots)
		c.slots[c.head].start, c.slots[c.head].max = t, y
	}
	highest := y
	for i := range c.len {
		slot := &c.slots[(c.head+crestSlots-i)%crestSlots]
		if slot.start <= t-crestSpan {
			break
		}
		highest = max(highest, slot.max)
	}
	return highest
}
