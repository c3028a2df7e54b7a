// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// These are chosen, not fitted.
const (
	// minCycle is the least height of a cycle.
	minCycle = 8 * quantum
	// A cycle ends with a fall by half of a typical cycle. The next one begins with a rise by cycleTurn of that fall.
	cycleTurn = 0.25
	// cycleMemory is the weight of the last cycle in the typical one.
	cycleMemory = 0.2
	// The cycles before a cycle of noiseCycle times their height were noise.
	noiseCycle = 3
	// A series is in cycles from sawtoothCycles on, until cyclesGone typical lengths pass without one.
	sawtoothCycles = 3
	cyclesGone     = 3
)

// Cycles finds the cycles of a series, such as the steps, epochs or requests of a program.
type Cycles struct {
	Falling bool
	Low     stat.Point // of the present fall
	High    stat.Bytes
	Size    float64       // typical height, bytes
	Length  time.Duration // typical length
	Ended   stat.Point    // the trough between the last cycle and the present one
	N       int64         // ended so far
}

func (c *Cycles) add(t time.Duration, v stat.Bytes) {
	if !c.Falling {
		c.High = max(c.High, v)
		if float64(c.High-v) >= max(float64(minCycle), c.Size/2) {
			c.Falling, c.Low = true, stat.Point{At: t, V: v}
		}
		return
	}
	if v <= c.Low.V {
		c.Low = stat.Point{At: t, V: v}
	}
	height := float64(c.High - c.Low.V)
	if float64(v-c.Low.V) < max(float64(minCycle), cycleTurn*height) {
		return
	}
	c.Falling, c.High = false, v
	if c.Size == 0 || height > noiseCycle*c.Size {
		*c = Cycles{High: v, Low: c.Low, Size: height, N: c.N}
	}
	c.Size += cycleMemory * (height - c.Size)
	if length := c.Low.At - c.Ended.At; c.Ended.At > 0 {
		if c.Length == 0 {
			c.Length = length
		}
		c.Length += time.Duration(cycleMemory * float64(length-c.Length))
	}
	c.Ended = c.Low
	c.N++
}

// cycling reports whether the series is in cycles at time t.
func (c *Cycles) cycling(t time.Duration) bool {
	return c.N >= sawtoothCycles && t-c.Ended.At < cyclesGone*c.Length
}
