// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"math"
	"time"
)

const (
	// smiRound is the longest time between the rows of two GPUs in one round of nvidia-smi.
	smiRound = 100 * time.Millisecond
	// burstDiffers is the ratio of the highest to the lowest memory of a burst from which on they differ.
	burstDiffers = 1.02
	// smiMostGPUs is the most that share a node. A longer burst is of one GPU that is sampled fast, between two gaps.
	smiMostGPUs = 64
)

// smiBursts finds out that rows without a GPU's name are of several: they come in bursts, one for each round of nvidia-smi,
// with a row for each GPU. The rows of a burst are less than smiRound apart, and less than a tenth of the pause before it.
type smiBursts struct {
	rows        int
	last, pause time.Duration        // stamp of the last row, pause before the burst
	size        int                  // of the burst so far
	low, high   float64              // of the memory in the burst so far
	sizes       [smiMostGPUs + 1]int // how many bursts there were, by size; where memory is compared, of those in which it differs
}

// add takes the time of the next row, since the Unix epoch. It returns true if the rows are of several GPUs: three bursts had
// the same size, and most rows are of such bursts. The bursts of one GPU, between gaps of its log, are few or differ.
//
// compare is for programs that stamp rows in seconds and sample one GPU faster: bursts then count only if the used memory
// differs in them.
func (b *smiBursts) add(t time.Duration, used float64, compare bool) bool {
	gap := t - b.last
	b.last = t
	b.rows++
	if b.size == 0 {
		b.pause, b.size, b.low, b.high = math.MaxInt64, 1, used, used
		return false
	}
	// Stamps are rounded to milliseconds: those of one GPU may be equal, too.
	if gap >= 0 && gap < smiRound && b.pause/10 > max(gap, time.Millisecond) {
		b.size++
		b.low, b.high = min(b.low, used), max(b.high, used)
		return false
	}
	size, same := b.size, compare && b.high <= burstDiffers*b.low
	b.pause, b.size, b.low, b.high = gap, 1, used, used
	if size < 2 || size > smiMostGPUs {
		return false
	}
	if same {
		if b.sizes == [smiMostGPUs + 1]int{} {
			b.rows = 1 // only those count from the first burst on that differs
		}
		return false
	}
	b.sizes[size]++
	n := b.sizes[size]
	return n >= 3 && 2*n*size >= b.rows
}
