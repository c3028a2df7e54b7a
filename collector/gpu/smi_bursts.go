// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"math"
	"time"
)

const (
	// smiRound is how far apart the rows of two GPUs can lie in one round of
	// nvidia-smi.
	smiRound = 100 * time.Millisecond
	// smiMostGPUs is the most that share a node: longer bursts are those of one GPU
	// that is sampled fast, between two gaps.
	smiMostGPUs = 64
)

// Bursts finds out that rows which do not tell their GPU are of several: they come
// in bursts, one for each round of nvidia-smi, with as many rows as there are GPUs.
// A burst is of rows less than smiRound apart, and less than a tenth of the pause
// before them. The zero value has seen no row. One goroutine may use it.
type Bursts struct {
	rows        int
	last, pause time.Duration        // stamp of the last row, pause before the burst
	size        int                  // of the burst so far
	sizes       [smiMostGPUs + 1]int // how many bursts there were, by size
}

// Add takes the time of the next row, since the Unix epoch. It returns true if the rows are of several
// GPUs: three bursts have had the same size, and most rows are of such ones. The
// bursts of one GPU, between gaps of its log, are few or differ.
func (b *Bursts) Add(t time.Duration) bool {
	gap := t - b.last
	b.last = t
	b.rows++
	if b.rows == 1 {
		b.pause, b.size = math.MaxInt64, 1
		return false
	}
	// Stamps are rounded to milliseconds: those of one GPU may be equal, too.
	if gap >= 0 && gap < smiRound && b.pause/10 > max(gap, time.Millisecond) {
		b.size++
		return false
	}
	size := b.size
	b.pause, b.size = gap, 1
	if size < 2 || size > smiMostGPUs {
		return false
	}
	b.sizes[size]++
	n := b.sizes[size]
	return n >= 3 && 2*n*size >= b.rows
}
