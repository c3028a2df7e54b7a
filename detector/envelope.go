// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "math"

// The ladder of block widths over which troughs are taken: 10 s to 640 s, each
// seen over envelopeBlocks of them: 16 minutes to 17 hours. A fast leak shows
// at the narrow end; one under a sawtooth only where a block is as long as the
// sawtooth.
const (
	envelopeScales = 4
	envelopeBase   = 10 * int64(1e9) // ns
	envelopeGrowth = 4
	envelopeBlocks = 96
	// blockSamples is how many samples a block needs before its lowest one is a
	// trough: with coarse sampling blocks get longer instead of emptier.
	blockSamples = 3
)

// ratchet is a level of memory that was reached at a time (ns) and never given
// back since.
type ratchet struct{ t, v int64 }

// envelope follows the troughs of a series at one scale. The lowest sample of
// each block is its trough; the stack holds the suffix minima of the troughs,
// which are the levels that were never given back: a sawtooth pops what it
// pushed, a spike never enters, one step leaves two levels, and a leak leaves
// one more with every move.
type envelope struct {
	width int64 // ns

	start    int64 // of the open block, ns
	n        int   // samples in it
	min, max int64 // of the open block

	closed    int64 // blocks closed so far
	level     int64 // the last trough that was a move
	stack     [envelopeBlocks + 1]ratchet
	depth     int
	moves     [envelopeBlocks]int32 // seconds from epoch to the last moves, a ring
	epoch     int64                 // time of the first sample, ns
	nextMove  int
	numMoves  int
	rising    bool  // the last move was up
	reversals int64 // falls after rises
	amplitude int64 // decaying maximum of crest − trough within a block
}

// add takes the sample y at time t and reports whether a block closed before it.
// A move is a change of the trough by at least quantum bytes.
func (e *envelope) add(t, y, quantum int64) bool {
	closed := false
	if e.n >= blockSamples && t-e.start >= e.width {
		e.close(t, quantum)
		closed = true
	}
	if e.n == 0 {
		e.start, e.min, e.max = t, y, y
	}
	if e.epoch == 0 {
		e.epoch = t
	}
	e.n++
	e.min, e.max = min(e.min, y), max(e.max, y)
	return closed
}

// close turns the open block into a trough at time t.
func (e *envelope) close(t, quantum int64) {
	v, swing := e.min, e.max-e.min
	e.amplitude = max(swing, e.amplitude-e.amplitude/16)
	e.n = 0
	e.closed++
	first := e.depth == 0
	e.expire(t)
	if !first && v-e.level < quantum && e.level-v < quantum {
		return
	}
	if !first {
		e.note(t, v > e.level)
	}
	e.level = v
	for e.depth > 0 && e.stack[e.depth-1].v > v-quantum {
		e.depth--
	}
	if e.depth == len(e.stack) {
		e.forget()
	}
	e.stack[e.depth] = ratchet{t, v}
	e.depth++
}

// note records a move at time t.
func (e *envelope) note(t int64, up bool) {
	if e.rising && !up {
		e.reversals++
	}
	e.rising = up
	e.moves[e.nextMove] = e.second(t)
	e.nextMove = (e.nextMove + 1) % envelopeBlocks
	e.numMoves = min(e.numMoves+1, envelopeBlocks)
}

// expire forgets what lies before the envelope's window, but for the level that
// held at its beginning.
func (e *envelope) expire(t int64) {
	from := t - envelopeBlocks*e.width
	for e.depth > 1 && e.stack[1].t <= from {
		e.forget()
	}
	for e.numMoves > 0 && e.moves[(e.nextMove+envelopeBlocks-e.numMoves)%envelopeBlocks] <= e.second(from) {
		e.numMoves--
	}
}

// second returns the time t (ns) in whole seconds from epoch, which saves half
// of the ring: it lasts for 68 years.
func (e *envelope) second(t int64) int32 {
	return int32(max(min((t-e.epoch)/1e9, math.MaxInt32), math.MinInt32))
}

// forget removes the oldest level.
func (e *envelope) forget() {
	copy(e.stack[:], e.stack[1:e.depth])
	e.depth--
}

// trough returns the lower envelope now.
func (e *envelope) trough() (int64, bool) {
	if e.depth == 0 {
		return 0, false
	}
	if e.n > 0 {
		return min(e.level, e.min), true
	}
	return e.level, true
}
