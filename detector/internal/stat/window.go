// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"slices"
	"time"
)

const (
	// MaxBlocks is the number of blocks of a window. Its edge moves by a
	// block at a time, so that its memory is bounded for any number of samples:
	// the fit covers the last 29/30 to 30/30 of the window.
	MaxBlocks = 30
	// A fit needs fitSamples samples that span fitFill of the window:
	// fewer make a line through noise. Both are chosen.
	fitSamples = 5
	fitFill    = 0.1
)

// Window keeps the moments of the samples of the last span, in blocks.
type Window struct {
	Span time.Duration
	open Block // the newest block, which is added to with each sample; without samples there is none

	// The closed blocks; those after the first are packed.
	first, last Block
	n           int
	rest        packed
	// Closed is their sum. It is computed again when a block comes or goes, so that rounding errors do not add up.
	Closed Block
}

// Len returns the number of blocks.
func (w *Window) Len() int {
	if w.open.N == 0 {
		return 0
	}
	return w.n + 1
}

func (w *Window) width() time.Duration { return w.Span / MaxBlocks }

// push adds the open block to those that are closed.
func (w *Window) push() {
	if w.n == 0 {
		w.first = w.open
	} else {
		var room [rowRoom]byte
		w.rest.add(w.open.pack(room[:0], &w.last, w.width()))
	}
	w.last = w.open
	w.n++
}

// pop removes the oldest of the closed blocks; there must be one.
func (w *Window) pop() {
	if w.n--; w.n == 0 {
		w.first, w.last = Block{}, Block{}
		return
	}
	before := w.first
	w.rest.cut(w.first.unpack(w.rest, &before, w.width()))
}

// closed appends the closed blocks to a list, oldest first.
func (w *Window) closed(list []Block) []Block {
	if w.n == 0 {
		return list
	}
	block := w.first
	list = append(list, block)
	for b := []byte(w.rest); len(b) > 0; list = append(list, block) {
		before := block
		b = block.unpack(b, &before, w.width())
	}
	return list
}

// Block is a part of a window.
type Block struct {
	Moments               // from the block's start
	Covered time.Duration // between its samples and the ones before them, gaps left out
	Spikes  int64
}

func (b *Block) merge(other *Block) {
	b.Merge(&other.Moments)
	b.Covered += other.Covered
	b.Spikes += other.Spikes
}

// Add adds the sample y at time t, which is later than all before it. covered is the time since the
// last sample that is not a gap; spikes is the number that ended at this sample.
func (w *Window) Add(t time.Duration, y Bytes, covered time.Duration, spikes int) {
	gone := 0
	// The rest lies in (t−Span, t], the range of PromQL's [Span] at t.
	for ; w.n > 0 && w.first.From <= t-w.Span; gone++ {
		w.pop()
	}
	empty := w.open.N == 0 || w.open.From <= t-w.Span
	fresh := empty || t-w.open.From >= w.width()
	if fresh {
		w.next(t, empty)
	}
	if fresh || gone > 0 {
		w.sum()
	}
	w.open.Add(t, y)
	w.open.Covered += min(covered, w.Span)
	w.open.Spikes += int64(spikes)
}

// sum sets Closed.
func (w *Window) sum() {
	var room [MaxBlocks]Block
	blocks := w.closed(room[:0])
	w.Closed = Block{}
	for i := range blocks {
		w.Closed.merge(&blocks[i])
	}
}

// next opens the block that a sample at time t falls into. Blocks are aligned with the first sample of the window, not
// with the clock, so that a shift in time changes nothing.
func (w *Window) next(t time.Duration, empty bool) {
	start := t
	if !empty {
		start -= (t - w.open.From) % w.width()
		if w.n == MaxBlocks-1 {
			w.pop()
		}
		w.push()
	}
	w.open = Block{Moments: Moments{From: start}}
}

// Fit returns the statistics of the window.
func (w *Window) Fit() Fit {
	all := w.Closed
	if w.open.N > 0 {
		all.merge(&w.open)
	}
	full := float64(w.Span) * (MaxBlocks - 1) / MaxBlocks
	f := Fit{Span: w.Span, N: all.N, Fill: min(1, float64(all.Covered)/full)}
	if f.N < fitSamples || f.Fill < fitFill {
		return f
	}
	if slope, r2, ok := all.Line(); ok {
		f.Slope, f.R2, f.Spikes = Of(slope), Of(r2), Of(float64(all.Spikes))
	}
	return f
}

// GobEncode returns the span and the blocks as rows, the first block after the zero block.
func (w *Window) GobEncode() ([]byte, error) {
	b := appendRow(nil, []uint64{uint64(w.Span)})
	if w.n > 0 {
		b = append(w.first.pack(b, &Block{}, w.width()), w.rest...)
	}
	if w.open.N > 0 {
		b = w.open.pack(b, &w.last, w.width())
	}
	return b, nil
}

// GobDecode replaces the window by the one that GobEncode returned.
func (w *Window) GobDecode(b []byte) error {
	if !whole(b, 1) {
		return errRows
	}
	var span [1]uint64
	b = readRow(b, span[:])
	w.Span = time.Duration(span[0])
	var blocks []Block
	for block := (Block{}); len(b) > 0; blocks = append(blocks, block) {
		if len(blocks) == MaxBlocks || !whole(b, blockNumbers) {
			return errRows
		}
		before := block
		b = block.unpack(b, &before, w.width())
	}
	*w = Window{Span: w.Span}
	for i := range blocks {
		if i > 0 {
			w.push()
			w.Closed.merge(&w.open)
		}
		w.open = blocks[i]
	}
	return nil
}

// Check implements state.Checker.
func (w *Window) Check(last time.Duration) bool {
	blocks := append(w.closed(nil), w.open)
	return w.Span >= MaxBlocks && !slices.ContainsFunc(blocks, func(b Block) bool { return !b.possible(last) })
}

// possible reports whether the line of a block is finite.
func (b *Block) possible(last time.Duration) bool {
	const most = 1e60
	return b.N >= 0 && b.From >= 0 && b.From <= last && b.Covered >= 0 && b.Covered <= last && b.Spikes >= 0 && b.Spikes <= math.MaxInt32 && math.Abs(b.X) <= most && math.Abs(b.Y) <= most &&
		b.XX >= 0 && b.XX <= most && (b.XX == 0 || b.XX >= 1/most) && math.Abs(b.XY) <= most && b.YY >= 0 && b.YY <= most
}
