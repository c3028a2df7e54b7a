// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"slices"
	"time"
)

// The methods Check implement state.Checker.

// Check reports whether the Window is possible.
func (w *Window) Check(last time.Duration) bool {
	blocks := append(w.closed(nil), w.open, w.Closed)
	return w.Span >= MaxBlocks && !slices.ContainsFunc(blocks, func(b Block) bool { return !b.Check(last) })
}

// Check reports whether the Crest is possible.
func (c *Crest[V]) Check(time.Duration) bool {
	return c.Head >= 0 && c.Head < CrestSlots && c.Len >= 0 && c.Len <= CrestSlots
}

// Check reports whether the Spikes is possible.
func (s *Spikes) Check(time.Duration) bool {
	return s.Next >= 0 && s.Next < spikeSlots && s.Len >= 0 && s.Len <= spikeSlots && s.Duty >= 0 && s.Duty <= 1
}

// Check reports whether the Trend is possible: forecasts divide by it and take its roots.
func (t *Trend) Check(time.Duration) bool {
	return t.Rate >= 0 && t.Rate <= MaxBytes &&
		t.Variance >= 0 && t.Wander >= 0 && t.N >= 0 && t.N <= math.MaxInt32
}

// Check reports whether the Block is possible: its line is finite.
func (b *Block) Check(last time.Duration) bool {
	const most = 1e60
	return b.N >= 0 && b.From >= 0 && b.From <= last && b.Covered >= 0 && b.Covered <= last && b.Spikes >= 0 && b.Spikes <= math.MaxInt32 && math.Abs(b.X) <= most && math.Abs(b.Y) <= most &&
		b.XX >= 0 && b.XX <= most && (b.XX == 0 || b.XX >= 1/most) && math.Abs(b.XY) <= most && b.YY >= 0 && b.YY <= most
}
