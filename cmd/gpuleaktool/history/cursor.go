// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// cursor walks along a series that has a point. The zero cursor has none.
type cursor struct {
	series *scalar
	next   int
}

// lookback is how long a Prometheus repeats the last value of a series that has ended.
const lookback = 5 * time.Minute

// add takes a series, or joins to that which is there one that goes on after it, as that of a GPU
// does whose exporter has got another pod. It is false where both go on for longer than the last
// value may be repeated.
func (c *cursor) add(x *scalar) bool {
	if c.series == nil {
		c.series = x
		return true
	}
	old, begins := c.series.points, x.points[0].t
	if begins < old[0].t || old[len(old)-1].t-begins > lookback {
		return false
	}
	n, _ := slices.BinarySearchFunc(old, begins, func(p scalarPoint, t time.Duration) int { return cmp.Compare(p.t, t) })
	c.series = &scalar{name: x.name, labels: c.series.labels, points: slices.Concat(old[:n], x.points)}
	return true
}

// step goes to the last point until t, or stays at the first one; nil is no series. t does not decrease.
func (c *cursor) step(t time.Duration) *scalarPoint {
	if c.series == nil || len(c.series.points) == 0 {
		return nil
	}
	points := c.series.points
	for c.next+1 < len(points) && points[c.next+1].t <= t {
		c.next++
	}
	return &points[c.next]
}

// latest returns the last amount until t, the first one before that, and when it was read. t does
// not decrease.
func (c *cursor) latest(h *scalars, t time.Duration) (v gpu.Opt[uint64], read time.Duration, err error) {
	p := c.step(t)
	if p == nil {
		return v, 0, nil
	}
	v, err = h.bytes(c.series, *p, h.capacityUnit)
	return v, p.t, err
}

// until returns the last value until t, if there is one. t does not decrease.
func (c *cursor) until(t time.Duration) (v float64, ok bool) {
	if p := c.step(t); p != nil && p.t <= t {
		return p.v, true
	}
	return 0, false
}

// exactly returns the value at t, if there is one. t does not decrease.
func (c *cursor) exactly(t time.Duration) (v float64, ok bool) {
	if p := c.step(t); p != nil && p.t == t {
		return p.v, true
	}
	return 0, false
}

// amountExactly returns the amount at t, absent if there is none. t does not decrease.
func (c *cursor) amountExactly(h *scalars, t time.Duration) (gpu.Opt[uint64], error) {
	if _, ok := c.exactly(t); !ok {
		return gpu.Opt[uint64]{}, nil
	}
	return h.bytes(c.series, c.series.points[c.next], h.unit)
}

// first returns when the series begins; one that is not there, never.
func (c *cursor) first() time.Duration {
	if c.series == nil {
		return math.MaxInt64
	}
	return c.series.points[0].t
}

// ended reports whether the series has nothing after t.
func (c *cursor) ended(t time.Duration) bool {
	return c.series.points[len(c.series.points)-1].t <= t
}
