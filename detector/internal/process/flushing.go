// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// These say what a flush is: they are chosen, not fitted, from what PyTorch's allocator does.
const (
	// flushShare is the least share of the capacity that an allocator gives back when it
	// empties its cache.
	flushShare = 0.1
	// fullAfter is how long a memory must have been full; flushWithin within which
	// time of that the cache is emptied, or three frames if those take longer.
	fullAfter   = time.Minute
	flushWithin = 10 * time.Second
	// regainWithin is within which time the memory is full again; nor may it take
	// more than a quarter of the time for which it had been full.
	regainWithin = 2 * time.Minute
	regainShare  = 4
	// flushes is how many of them make a fragmentation.
	flushes = 2
)

// Flushing looks for an allocator that empties its cache and goes on.
type Flushing struct {
	High   stat.Bytes             // what the process held while the memory was full last
	Fell   time.Duration          // when it gave a part of that back; 0 not since then
	Within time.Duration          // how long the memory may take to be full again
	Times  [flushes]time.Duration // when it has flushed its cache; newest first
}

// Note adds a frame in which the process holds used bytes.
func (p *Flushing) Note(t, interval time.Duration, used, capacity stat.Bytes, f *series.Fullness) {
	if capacity == 0 {
		return
	}
	if f.Full {
		if p.Fell > 0 && f.Since-p.Fell <= p.Within {
			p.Times = [flushes]time.Duration{p.Fell, p.Times[0]}
		}
		p.High, p.Fell = used, 0
		return
	}
	dwell := f.Until - f.Since
	if p.Fell == 0 && dwell >= fullAfter && t-f.Until <= max(flushWithin, 3*interval) &&
		float64(p.High-used) >= flushShare*float64(capacity) {
		p.Fell, p.Within = t, min(regainWithin, dwell/regainShare)
	}
	if p.Fell == 0 && t-f.Until > max(flushWithin, 3*interval) {
		p.High = 0 // what it gives back from now on has another reason
	}
}

// Often returns when the cache was flushed for the last time but one, 0 if never.
func (p *Flushing) Often() time.Duration { return p.Times[flushes-1] }
