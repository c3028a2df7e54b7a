// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// maxGPUs bounds the GPUs of a recording. More are a sign that a column is not what its name says.
const maxGPUs = 1024

var errManyGPUs = fmt.Errorf("more than %d GPUs: check that the columns are what their names say", maxGPUs)

// addGPU returns the sample of a row of a GPU.
func (c *csvLog) addGPU(r *csvRow) (*reading, error) {
	if r.info.UUID == gpu.Unnamed && c.bursts.add(r.stamp.t, float64(r.sample.Memory.Used.V)) {
		return nil, logError("the rows come in bursts, as of several GPUs, and no column tells which: record index or uuid, too, or name their column; if they are of one GPU, keep one row of each moment")
	}
	last := c.last[r.info.UUID]
	if last == nil {
		if len(c.last) == maxGPUs {
			return nil, errManyGPUs
		}
		last = new(stamp)
		c.last[r.info.UUID] = last
	}
	r.stamp.settle(last.t)
	if r.stamp.t <= last.t {
		return nil, r.notAfter(last)
	}
	*last = r.stamp
	r.sample.Time, r.sample.T = time.Unix(0, int64(r.stamp.t)).UTC(), r.stamp.t
	return &r.reading, nil
}

const (
	// smiRound is the longest time between the rows of two GPUs in one round of nvidia-smi.
	smiRound = 100 * time.Millisecond
	// burstDiffers is the ratio of the highest to the lowest memory of a burst from which on they differ.
	burstDiffers = 1.02
	// smiMostGPUs is the most that share a node. A longer burst is of one GPU that is sampled fast, between two gaps.
	smiMostGPUs = 64
)

// bursts finds out that rows without a GPU's name are of several: they come in bursts, one for each round of nvidia-smi,
// with a row for each GPU. The rows of a burst are less than smiRound apart, and less than a tenth of the pause before it.
// Their memory differs: a program that stamps rows in seconds may sample one GPU faster.
type bursts struct {
	rows        int
	last, pause time.Duration        // stamp of the last row, pause before the burst
	size        int                  // of the burst so far
	low, high   float64              // of the memory in the burst so far
	sizes       [smiMostGPUs + 1]int // how many bursts there were in which it differs, by size
}

// add takes the time of the next row, since the Unix epoch. It returns true if the rows are of several GPUs: three bursts had
// the same size, and most rows from the first one on are of such bursts. The bursts of one GPU, between gaps of its log, are
// few or differ.
func (b *bursts) add(t time.Duration, used float64) bool {
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
	size, same := b.size, b.high <= burstDiffers*b.low
	b.pause, b.size, b.low, b.high = gap, 1, used, used
	switch {
	case size < 2 || size > smiMostGPUs:
		return false
	case same && b.sizes == [smiMostGPUs + 1]int{}:
		b.rows = 1
		return false
	case same:
		return false
	}
	b.sizes[size]++
	n := b.sizes[size]
	return n >= 3 && 2*n*size >= b.rows
}
