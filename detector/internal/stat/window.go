// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
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
	Span   time.Duration
	Blocks []Block // MaxBlocks at most, oldest first; each sample is added to the last one
	// Closed is the sum of all others. It is computed again when a block comes or goes, so that rounding errors do not add up.
	Closed Block
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
	gone, width := 0, w.Span/MaxBlocks
	// The rest lies in (t−Span, t], the range of PromQL's [Span] at t.
	for gone < len(w.Blocks) && w.Blocks[gone].From <= t-w.Span {
		gone++
	}
	// Blocks are aligned with the first sample of the window, not with the clock, so that a shift in time changes nothing.
	start, fresh := t, gone == len(w.Blocks)
	if !fresh {
		if age := t - w.Blocks[len(w.Blocks)-1].From; age >= width {
			start, fresh = t-age%width, true
		}
	}
	if fresh && len(w.Blocks)-gone == MaxBlocks {
		gone++
	}
	if fresh || gone > 0 {
		w.Blocks = slices.Delete(w.Blocks, 0, gone)
		if fresh {
			w.Blocks = append(w.Blocks, Block{Moments: Moments{From: start}})
		}
		w.sum()
	}
	open := &w.Blocks[len(w.Blocks)-1]
	open.Add(t, y)
	open.Covered += min(covered, w.Span)
	open.Spikes += int64(spikes)
}

// sum sets Closed.
func (w *Window) sum() {
	w.Closed = Block{}
	for i := range len(w.Blocks) - 1 {
		w.Closed.merge(&w.Blocks[i])
	}
}

// Fit returns the statistics of the window.
func (w *Window) Fit() Fit {
	all := w.Closed
	if n := len(w.Blocks); n > 0 {
		all.merge(&w.Blocks[n-1])
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

// numbers returns what a block is made of, and blockOf the block that is made of them.
func (b *Block) numbers() [9]int64 {
	bits := func(x float64) int64 { return int64(math.Float64bits(x)) }
	return [...]int64{b.N, int64(b.From), int64(b.Covered), b.Spikes, bits(b.X), bits(b.Y), bits(b.XX), bits(b.XY), bits(b.YY)}
}

func blockOf(n [9]int64) Block {
	float := func(bits int64) float64 { return math.Float64frombits(uint64(bits)) }
	m := Moments{N: n[0], From: time.Duration(n[1]), X: float(n[4]), Y: float(n[5]), XX: float(n[6]), XY: float(n[7]), YY: float(n[8])}
	return Block{Moments: m, Covered: time.Duration(n[2]), Spikes: n[3]}
}

// GobEncode returns the span and the blocks, each as the differences of its numbers from those of the one before, most of which
// are small. Gob itself takes twice the time and the room. Closed follows from the blocks.
func (w *Window) GobEncode() ([]byte, error) {
	to := binary.AppendVarint(make([]byte, 0, 16*(1+len(w.Blocks))), int64(w.Span))
	var before [9]int64
	for i := range w.Blocks {
		numbers := w.Blocks[i].numbers()
		for k, x := range numbers {
			to = binary.AppendVarint(to, x-before[k])
		}
		before = numbers
		before[1] += int64(w.Span / MaxBlocks) // where the next one begins, unless there is a gap
	}
	return to, nil
}

// GobDecode replaces the window by the one that GobEncode returned.
func (w *Window) GobDecode(b []byte) error {
	r := bytes.NewReader(b)
	span, err := binary.ReadVarint(r)
	*w = Window{Span: time.Duration(span)}
	for numbers := [9]int64{}; r.Len() > 0; numbers[1] += span / MaxBlocks {
		if len(w.Blocks) == MaxBlocks {
			return errors.New("too many blocks")
		}
		for k := range numbers {
			change, failed := binary.ReadVarint(r)
			numbers[k] += change
			err = cmp.Or(err, failed)
		}
		w.Blocks = append(w.Blocks, blockOf(numbers))
	}
	w.sum()
	return err
}

// Check implements state.Checker.
func (w *Window) Check(time.Duration) bool { return w.Span >= MaxBlocks }

// Check implements state.Checker: the line of the block is finite.
func (b *Block) Check(last time.Duration) bool {
	const least = 1e-60
	return b.N >= 0 && b.From <= last && b.Covered <= last && b.Spikes >= 0 && b.Spikes <= math.MaxInt32 && (b.XX == 0 || b.XX >= least) && b.YY >= 0
}
