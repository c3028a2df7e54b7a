// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import "time"

const (
	// windowBlocks is into how many blocks a window is cut. Its edge moves by a
	// block at a time, so that its memory is bounded however many samples fall
	// into it: the fit covers the last 59/60 to 60/60 of the window.
	windowBlocks = 60
	// maxBlockSamples closes a block early, so that maxSamples holds for a window.
	maxBlockSamples = maxSamples / (2 * windowBlocks)
	// A fit is given from fitSamples samples that span fitFill of the window:
	// fewer make a line through noise.
	fitSamples = 5
	fitFill    = 0.1
)

// Window keeps the exact moments of the samples of the last span.
type Window struct {
	Span   int64 // ns
	Blocks [windowBlocks]block
	Oldest int64 // start of the oldest block, ns
	Head   int   // that block
	Len    int
	// The sums over all blocks but the newest, which is added to with each sample.
	Closed          moments
	Covered, Spikes int64
}

// block is a part of a window that leaves it as a whole.
type block struct {
	M       moments // about the block's start and its first value
	Covered int32   // ms between its samples and the ones before them, gaps left out
	Spikes  int32
}

// start is when the block begins, in ns.
func (b *block) start() int64 { return b.M.X0 }

// Add takes the sample y at time t, which is later than all before it. covered
// is the time since the last sample that is not a gap; spikes is how many ended
// at this sample.
func (w *Window) Add(t, y, covered int64, spikes int) {
	w.expire(t)
	width := w.Span / windowBlocks
	b := w.newest()
	if b == nil || t-b.start() >= width || b.M.N >= maxBlockSamples {
		b = w.push(t, y, width)
	}
	b.M.add(t, y)
	b.Covered += int32((min(covered, w.Span) + int64(time.Millisecond/2)) / int64(time.Millisecond))
	b.Spikes += int32(spikes)
}

// expire drops the blocks that began at t−span or before: what is left lies in
// (t−span, t], the range of PromQL's [span] at t.
func (w *Window) expire(t int64) {
	for w.Len > 0 && w.Oldest <= t-w.Span {
		w.drop()
	}
}

// drop removes the oldest block.
func (w *Window) drop() {
	b := &w.Blocks[w.Head]
	w.Head = (w.Head + 1) % windowBlocks
	w.Len--
	if w.Len == 0 {
		return
	}
	w.Closed.remove(&b.M)
	w.Covered -= int64(b.Covered)
	w.Spikes -= int64(b.Spikes)
	// The origin follows the window, or x would outgrow the bound of moments.
	o := &w.Blocks[w.Head].M
	w.Oldest = o.X0
	w.Closed = w.Closed.about(o.X0, o.Y0)
}

func (w *Window) newest() *block {
	if w.Len == 0 {
		return nil
	}
	return &w.Blocks[(w.Head+w.Len-1)%windowBlocks]
}

// push opens the block that the sample y at time t falls into. Blocks are aligned with the first
// sample of the window, not with the clock, so that a shift in time changes
// nothing.
func (w *Window) push(t, y, width int64) *block {
	start := t
	if b := w.newest(); b != nil {
		if t-b.start() >= width {
			start -= (t - b.start()) % width
		}
		w.close(b)
	}
	if w.Len == windowBlocks {
		w.drop()
	}
	w.Len++
	if w.Len == 1 {
		w.Oldest, w.Closed = start, moments{X0: start, Y0: y}
	}
	b := w.newest()
	*b = block{M: moments{X0: start, Y0: y}}
	return b
}

// close adds the newest block to the sums: another one follows it.
func (w *Window) close(b *block) {
	w.Closed.merge(&b.M)
	w.Covered += int64(b.Covered)
	w.Spikes += int64(b.Spikes)
}

// Fit returns the statistics of the window.
func (w *Window) Fit() Fit {
	all, covered, spikes := w.Closed, w.Covered, w.Spikes
	if b := w.newest(); b != nil {
		all.merge(&b.M)
		covered += int64(b.Covered)
		spikes += int64(b.Spikes)
	}
	full := float64(w.Span) * (windowBlocks - 1) / windowBlocks
	f := Fit{Span: time.Duration(w.Span), N: all.N, Fill: min(1, float64(covered)*float64(time.Millisecond)/full)}
	if f.N < fitSamples || f.Fill < fitFill {
		return f
	}
	slope, r2, ok := all.line()
	if !ok {
		return f
	}
	f.Slope, f.R2 = Of(slope*float64(time.Second)), Of(r2)
	f.Spikes = Of(float64(spikes))
	return f
}
