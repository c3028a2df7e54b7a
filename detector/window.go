// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

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

// window keeps the exact moments of the samples of the last span.
type window struct {
	span   int64 // ns
	blocks [windowBlocks]block
	oldest int64 // start of the oldest block, ns
	head   int   // that block
	len    int
	// The sums over all blocks but the newest, which is added to with each sample.
	closed          moments
	covered, spikes int64
}

// block is a part of a window that leaves it as a whole.
type block struct {
	m       moments // about the block's start and its first value
	covered int32   // ms between its samples and the ones before them, gaps left out
	spikes  int32
}

// start is when the block begins, in ns.
func (b *block) start() int64 { return b.m.x0 }

// add takes the sample y at time t, which is later than all before it. covered
// is the time since the last sample that is not a gap; spikes is how many ended
// at this sample.
func (w *window) add(t, y, covered int64, spikes int) {
	w.expire(t)
	width := w.span / windowBlocks
	b := w.newest()
	if b == nil || t-b.start() >= width || b.m.n >= maxBlockSamples {
		b = w.push(t, y, width)
	}
	b.m.add(t, y)
	b.covered += int32((min(covered, w.span) + int64(time.Millisecond/2)) / int64(time.Millisecond))
	b.spikes += int32(spikes)
}

// expire drops the blocks that began at t−span or before: what is left lies in
// (t−span, t], the range of PromQL's [span] at t.
func (w *window) expire(t int64) {
	for w.len > 0 && w.oldest <= t-w.span {
		w.drop()
	}
}

// drop removes the oldest block.
func (w *window) drop() {
	b := &w.blocks[w.head]
	w.head = (w.head + 1) % windowBlocks
	w.len--
	if w.len == 0 {
		return
	}
	w.closed.remove(&b.m)
	w.covered -= int64(b.covered)
	w.spikes -= int64(b.spikes)
	// The origin follows the window, or x would outgrow the bound of moments.
	o := &w.blocks[w.head].m
	w.oldest = o.x0
	w.closed = w.closed.about(o.x0, o.y0)
}

func (w *window) newest() *block {
	if w.len == 0 {
		return nil
	}
	return &w.blocks[(w.head+w.len-1)%windowBlocks]
}

// push opens the block that the sample y at time t falls into. Blocks are aligned with the first
// sample of the window, not with the clock, so that a shift in time changes
// nothing.
func (w *window) push(t, y, width int64) *block {
	start := t
	if b := w.newest(); b != nil {
		if t-b.start() >= width {
			start -= (t - b.start()) % width
		}
		w.close(b)
	}
	if w.len == windowBlocks {
		w.drop()
	}
	w.len++
	if w.len == 1 {
		w.oldest, w.closed = start, moments{x0: start, y0: y}
	}
	b := w.newest()
	*b = block{m: moments{x0: start, y0: y}}
	return b
}

// close adds the newest block to the sums: another one follows it.
func (w *window) close(b *block) {
	w.closed.merge(&b.m)
	w.covered += int64(b.covered)
	w.spikes += int64(b.spikes)
}

// fit returns the statistics of the window.
func (w *window) fit() Fit {
	all, covered, spikes := w.closed, w.covered, w.spikes
	if b := w.newest(); b != nil {
		all.merge(&b.m)
		covered += int64(b.covered)
		spikes += int64(b.spikes)
	}
	full := float64(w.span) * (windowBlocks - 1) / windowBlocks
	f := Fit{Span: time.Duration(w.span), N: all.n, Fill: min(1, float64(covered)*float64(time.Millisecond)/full)}
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
