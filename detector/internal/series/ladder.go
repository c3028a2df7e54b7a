// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// The ladder of block widths over which troughs are taken, each seen over scaleBlocks of them:
// 15 minutes to 63 hours. A fast leak shows at the narrow end; one under a sawtooth only where a
// block is as long as the sawtooth.
const (
	numScales   = 7
	narrowest   = 10 * time.Second
	widest      = 2560 * time.Second
	scaleBlocks = stat.MaxPoints
	// A narrowest block has blockSamples samples, or as many
	// as come in blockTime, if that is less: growth that takes minutes must show in some blocks.
	// Where that takes longer than the narrowest width, the ladder starts there, and its steps are
	// smaller, but coarsest at least. The widths were fitted by hand on generated series; scaleBlocks is a bound of cost.
	blockSamples = 3
	blockTime    = time.Minute
	coarsest     = 1.5
)

// quantum is the least change of a trough that counts: NVML gives process memory in units of 2 MiB.
const quantum stat.Bytes = 2 << 20

// These were fitted by hand on generated series; make bench-detect measures them.
const (
	// A rise stops when retrace of it is given back, and a fall when retrace of it is regained.
	retrace = 0.25
	// toothMoves is the fewest levels of a gradual rise: only a gradual rise that
	// was given back shows that growth is no leak. A job that comes in a few steps and goes does not.
	toothMoves = 4
	// pauseBlocks is the number of blocks without a move after which growth stops.
	pauseBlocks = 8
	// forgetting is the share by which the largest give-back decays in each block.
	forgetting = 0.0005
)

// Scale holds the troughs of a series at one width of blocks.
type Scale struct {
	Width time.Duration
	Least int // samples in a block

	// The open block: its first and last sample, its lowest value, and its number of samples.
	Start, Until time.Duration
	Min          stat.Bytes
	N            int

	Troughs stat.Points // the last ones: the lowest value of each block, at its end
	Closed  int64       // blocks so far

	Level      stat.Bytes    // the trough at the last move, which is a change by a quantum
	MovedAt    time.Duration // when
	MovedBlock int64         // Closed at that time; 1 before the first move

	Run Run
	// Given is the largest gradual rise that was given back, decaying.
	Given float64
}

// Run is the present growth, or a fall. Growth begins where the level was low for the last time.
// It stops with a fall by more than retrace of its height, or when the level has
// stayed for pauseBlocks.
type Run struct {
	Falling   bool
	Low, High stat.Bytes    // the lowest and the highest level
	LowAt     time.Duration // when the lowest was last reached
	Ups       int           // moves upwards since then
}

// room has room for the troughs of a scale.
type room [scaleBlocks]stat.Point

// points returns the troughs that are kept, oldest first, in that room.
func (e *Scale) points(in *room) []stat.Point { return e.Troughs.Append(in[:0]) }

// whole reports whether no trough is forgotten.
func (e *Scale) whole() bool { return e.Closed == int64(e.Troughs.Len()) }

// holds reports whether no trough since the time t is forgotten.
func (e *Scale) holds(t time.Duration) bool {
	return e.Troughs.Len() > 0 && (e.whole() || e.Troughs.First().At <= t)
}

// add adds the value v at the time t, or the trough of a narrower block, and reports whether
// a block closed before it, and with which trough. A block ends at its full width, or with its last sample if that is later, and
// not with the next one, which may come long after. Before a gap it closes with fewer samples: otherwise its trough
// would stand at the end of the gap, and be low.
func (e *Scale) add(t time.Duration, v stat.Bytes, full *Fullness) (low stat.Point, closed bool) {
	ends, gap := e.N >= e.Least && t-e.Start >= e.Width, e.N > 0 && t-e.Until >= time.Duration(e.Least)*e.Width
	if closed = ends || gap; closed {
		low = stat.Point{At: max(e.Start+e.Width, e.Until), V: e.Min}
		e.close(low, full)
		e.N = 0
	}
	if e.N == 0 {
		e.Start, e.Min = t, v
	}
	e.N++
	e.Until = t
	e.Min = min(e.Min, v)
	return low, closed
}

// close adds the trough of a block.
func (e *Scale) close(p stat.Point, full *Fullness) {
	e.Closed++
	e.Given -= e.Given * forgetting
	r, change := &e.Run, p.V-e.Level
	moved := change >= quantum || -change >= quantum
	switch {
	case e.Closed == 1:
		e.startRun(p)
		moved = true
	case moved:
		if change > 0 {
			r.up(p)
		} else {
			e.fall(p, full)
		}
	case (r.Ups > 0 || r.Falling) && e.Closed-e.MovedBlock >= pauseBlocks:
		e.startRun(stat.Point{At: p.At, V: e.Level})
	case r.Ups == 0:
		r.LowAt = p.At // still as low
	}
	if moved {
		e.Level, e.MovedAt, e.MovedBlock = p.V, p.At, e.Closed
	}
	e.Troughs.Push(p)
}

func (e *Scale) startRun(p stat.Point) { e.Run = Run{Low: p.V, High: p.V, LowAt: p.At} }

// up adds a move upwards to p.
func (r *Run) up(p stat.Point) {
	r.Ups++
	if r.Falling && float64(p.V-r.Low) < retrace*float64(r.High-r.Low) {
		return
	}
	if r.Falling || p.V > r.High {
		r.Falling, r.High = false, p.V
	}
}

// fall adds a move downwards to p and notes the gradual growth that it gives back, unless it is a flush: in a full
// memory an allocator empties its cache before it fails, and fills it again.
// A leak cannot be flushed: if less than retrace of the rise stays, it was no leak, unless its program may have died.
func (e *Scale) fall(p stat.Point, full *Fullness) {
	r := &e.Run
	flushed := full.Until > 0 && p.At-full.Until <= FullBefore+e.Width && full.Lately > r.LowAt &&
		(full.Unlisted || float64(p.V-r.Low) >= retrace*float64(r.High-r.Low))
	if height, levels := e.above(p.V); levels >= toothMoves && !flushed {
		e.Given = max(e.Given, float64(height))
	}
	if !r.Falling && float64(r.High-p.V) > retrace*float64(r.High-r.Low) {
		top := r.High
		e.startRun(p)
		r.Falling, r.High = true, top
	}
	if p.V < r.Low {
		r.Low, r.LowAt, r.Ups = p.V, p.At, 0
	}
}

// above returns the height and the number of the levels above v that the series had reached and kept.
func (e *Scale) above(v stat.Bytes) (height stat.Bytes, levels int) {
	var in room
	pts := e.points(&in)
	levels, top, lowest := levelsAbove(v, pts)
	if levels == 0 {
		return 0, 0
	}
	if e.Closed == int64(len(pts))+1 && pts[0].V > v {
		lowest = min(lowest, v) // it rose from lower before it was first seen
	}
	return top - lowest, levels
}

// envelope returns the lower envelope now.
func (e *Scale) envelope() (stat.Bytes, bool) {
	if e.Troughs.Len() == 0 {
		return 0, false
	}
	level := e.Troughs.Last().V
	if e.N > 0 {
		level = min(level, e.Min)
	}
	return level, true
}

// Check implements state.Checker.
func (e *Scale) Check(last time.Duration) bool {
	var in room
	for _, p := range e.points(&in) {
		if p.V < 0 || p.V > stat.MaxBytes || p.At < 0 || p.At > last {
			return false
		}
	}
	return e.Width > 0
}
