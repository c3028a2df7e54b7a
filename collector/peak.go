// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import "time"

// peakSpan is over how long gpu_memory_used_peak_bytes is the highest sample.
const peakSpan = 60 * time.Second

// peak is the highest value of the last peakSpan, in slots of a second.
type peak struct {
	slots [60]struct {
		start time.Duration
		max   uint64
	}
	head, len int
}

// add takes the value v at time t, later than all before it, and returns the
// peak.
func (p *peak) add(t time.Duration, v uint64) uint64 {
	if newest := &p.slots[p.head]; p.len > 0 && t-newest.start < time.Second {
		newest.max = max(newest.max, v)
	} else {
		p.head = (p.head + 1) % len(p.slots)
		p.len = min(p.len+1, len(p.slots))
		p.slots[p.head].start, p.slots[p.head].max = t, v
	}
	highest := v
	for i := range p.len {
		slot := &p.slots[(p.head+len(p.slots)-i)%len(p.slots)]
		if slot.start <= t-peakSpan {
			break
		}
		highest = max(highest, slot.max)
	}
	return highest
}
