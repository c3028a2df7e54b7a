// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import "time"

const (
	// windowBlocks is into how many blocks a window is cut. Its edge moves by a
	// block at a time, so that its memory is bounded however many samples fall
	// into it: the fit covers the last 59/60 to 60/60 of the window.
	windowBlocks = 60
	// A fit is given from fitSamples samples that span fitFill of the window:
	// fewer make a line through noise. Both are chosen.
	fitSamples = 5
	fitFill    = 0.1
)

// Window keeps the moments of the samples of the last span, in blocks.
type Window struct {
	Span   time.Duration
	Blocks [windowBlocks]Block // oldest first
	Len    int
	// The sum over all blocks but the newest, which is added to with each sample. It is worked out
	// anew when a block comes or goes, so that nothing drifts.
	Closed Block
}

// Block is a part of a window that leaves it as a whole.
type Block struct {
	Moments               // from the block's start
	Covered time.Duration // between its samples and the ones before them, gaps left out
	Spikes  int64
}

// merge adds another block.
func (b *Block) merge(other *Block) {
	b.Moments.Merge(&other.Moments)
	b.Covered += other.Covered
	b.Spikes += other.Spikes
}

// Add takes the sample y at time t, which is later than all before it. covered is the time since the
// last sample that is not a gap; spikes is how many ended at this sample.
func (w *Window) Add(t time.Duration, y Bytes, covered time.Duration, spikes int) {
	gone, width := 0, w.Span/windowBlocks
	// What is left lies in (t−Span, t], the range of PromQL's [Span] at t.
	for gone < w.Len && w.Blocks[gone].From <= t-w.Span {
		gone++
	}
	fresh := w.Len == gone || t-w.Blocks[w.Len-1].From >= width
	if fresh || gone > 0 {
		w.move(gone, fresh, t, width)
	}
	b := &w.Blocks[w.Len-1]
	b.Add(t, y)
	b.Covered += min(covered, w.Span)
	b.Spikes += int64(spikes)
}

// move drops the oldest blocks, and opens the one that a sample at time t falls into if that is fresh.
// Blocks are aligned with the first sample of the window, not with the clock, so that a shift in time
// changes nothing.
func (w *Window) move(gone int, fresh bool, t, width time.Duration) {
	if fresh && w.Len-gone == windowBlocks {
		gone++
	}
	start := t
	if w.Len > gone {
		start -= (t - w.Blocks[w.Len-1].From) % width
	}
	w.Len = copy(w.Blocks[:], w.Blocks[gone:w.Len])
	if fresh {
		w.Blocks[w.Len] = Block{Moments: Moments{From: start}}
		w.Len++
	}
	w.Closed = Block{}
	for i := range w.Len - 1 {
		w.Closed.merge(&w.Blocks[i])
	}
}

// Fit returns the statistics of the window.
func (w *Window) Fit() Fit {
	all := w.Closed
	if w.Len > 0 {
		all.merge(&w.Blocks[w.Len-1])
	}
	full := float64(w.Span) * (windowBlocks - 1) / windowBlocks
	f := Fit{Span: w.Span, N: all.N, Fill: min(1, float64(all.Covered)/full)}
	if f.N < fitSamples || f.Fill < fitFill {
		return f
	}
	if slope, r2, ok := all.Line(); ok {
		f.Slope, f.R2, f.Spikes = Of(slope), Of(r2), Of(float64(all.Spikes))
	}
	return f
}
