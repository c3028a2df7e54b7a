// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"time"
)

// The checks of what was read from a state file: see state.Checker. Its bytes have a checksum, so
// that these are for foreign ones.

// mostSpan bounds a window whose sums are exact, in ns: see moments.
const mostSpan = 1 << 48

// Check reports whether the crest can be one.
func (c *Crest[V]) Check(time.Duration) bool {
	return c.Head >= 0 && c.Head < CrestSlots && c.Len >= 0 && c.Len <= CrestSlots
}

// Check reports whether the spikes can be some.
func (s *Spikes) Check(time.Duration) bool {
	return s.Next >= 0 && s.Next < spikeSlots && s.Len >= 0 && s.Len <= spikeSlots && s.Duty >= 0 && s.Duty <= 1
}

// Check reports whether the trend can be one. Forecasts divide by it and take its roots.
func (t *Trend) Check(time.Duration) bool {
	return t.Rate >= 0 && t.Rate <= MaxBytes && t.Bend >= 0 && t.Bend <= MaxBytes &&
		t.Variance >= 0 && t.Wander >= 0 && t.N >= 0 && t.N <= math.MaxInt32
}

// Check reports whether the window can be one: its sums must be those of its blocks, which must
// follow each other.
func (w *Window) Check(last time.Duration) bool {
	if w.Head < 0 || w.Head >= windowBlocks || w.Len < 0 || w.Len > windowBlocks || w.Span <= 0 || w.Span > mostSpan {
		return false
	}
	for i := range w.Len {
		b := &w.Blocks[(w.Head+i)%windowBlocks]
		if !b.check() || b.start() > int64(last) || b.start()-w.Blocks[w.Head].start() > w.Span {
			return false
		}
		if i > 0 && b.start() <= w.Blocks[(w.Head+i-1)%windowBlocks].start() {
			return false
		}
	}
	sums := *w
	if sums.Rebuild(); w.Len == 0 {
		return w.Closed.N == 0 && w.Covered == 0 && w.Spikes == 0
	}
	return sums == *w
}

// Rebuild works out the sums from the blocks.
func (w *Window) Rebuild() {
	first := &w.Blocks[w.Head].M
	w.Oldest, w.Closed, w.Covered, w.Spikes = first.X0, moments{X0: first.X0, Y0: first.Y0}, 0, 0
	for i := range w.Len - 1 {
		w.close(&w.Blocks[(w.Head+i)%windowBlocks])
	}
}

// check reports whether the sums can be those of so many numbers within the bounds of moments.
func (b *block) check() bool {
	m := &b.M
	most := float64(m.N) * mostSpan
	return m.N >= 0 && m.N <= maxBlockSamples && m.X0 >= 0 && m.Y0 >= -MaxBytes && m.Y0 <= MaxBytes &&
		math.Abs(m.SX.float()) <= most && math.Abs(m.SY.float()) <= most && b.Covered >= 0 && b.Spikes >= 0 && int64(b.Spikes) <= m.N
}
