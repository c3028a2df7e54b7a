// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// series is one series of a metric: numbers in the order of time, in the metric's own unit.
type series struct {
	name   string
	labels Labels
	points []point
	until  time.Duration // of the last point, be it kept or not
}

type point struct {
	t time.Duration // since the Unix epoch
	v float64
}

// String names the series as Prometheus does.
func (x *series) String() string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(x.labels)) {
		pairs = append(pairs, fmt.Sprintf("%s=%q", name, x.labels[name]))
	}
	return x.name + "{" + strings.Join(pairs, ",") + "}"
}

// same reports whether both series have one and the same value all the time.
func (x *series) same(other *series) bool {
	differs := func(p point) bool { return p.v != x.points[0].v }
	return !slices.ContainsFunc(x.points, differs) && !slices.ContainsFunc(other.points, differs)
}

// toBytes turns the values into amounts of memory. unit is how many bytes one is.
func (x *series) toBytes(unit float64) error {
	for i := range x.points {
		p := &x.points[i]
		switch v := math.Round(p.v * unit); {
		case v > detector.MaxBytes:
			return fmt.Errorf("%s is %g at %s, more than any GPU has: check --unit", x, p.v, Wall(p.t).Format(time.RFC3339))
		case v < 0:
			return fmt.Errorf("%s is %g at %s: this is no used memory", x, p.v, Wall(p.t).Format(time.RFC3339))
		default:
			p.v = v
		}
	}
	return nil
}

// matrix joins the parts of a range.
type matrix struct {
	series map[string]*series // by name and labels
	order  []*series          // those with a point
	found  bool               // there was any
}

// add takes a part.
func (m *matrix) add(part model.Matrix) error {
	for _, stream := range part {
		if err := promapi.CheckTimes(stream); err != nil {
			return err
		}
		m.found = true
		x := seriesOf(stream.Metric)
		key := x.String()
		if known := m.series[key]; known != nil {
			x = known
		}
		for _, p := range stream.Values {
			t, v := time.Duration(p.Timestamp)*time.Millisecond, float64(p.Value)
			if t <= x.until {
				return fmt.Errorf("%s: %s is not after the point before it", x, Wall(t).Format(time.RFC3339))
			}
			x.until = t
			if !math.IsNaN(v) && !math.IsInf(v, 0) { // is no amount: the series has a gap there
				x.points = append(x.points, point{t, v})
			}
		}
		if m.series[key] == nil && len(x.points) > 0 {
			m.series[key] = x
			m.order = append(m.order, x)
		}
	}
	return nil
}

// seriesOf returns a series without points.
func seriesOf(metric model.Metric) *series {
	x := &series{name: string(metric[model.MetricNameLabel]), labels: Labels{}, until: -1}
	for name, value := range metric {
		if name != model.MetricNameLabel && value != "" {
			x.labels[string(name)] = string(value)
		}
	}
	return x
}

// cursor walks along a series that has a point. The zero cursor has none.
type cursor struct {
	series *series
	next   int
}

// lookback is how long a Prometheus repeats the last value of a series that has ended.
const lookback = 5 * time.Minute

// add takes a series, or joins to that which is there one that goes on after it, as that of a GPU does whose exporter has got
// another pod. It is false where both go on for longer than the last value may be repeated.
func (c *cursor) add(x *series) bool {
	if c.series == nil {
		c.series = x
		return true
	}
	old, begins := c.series.points, x.points[0].t
	if begins < old[0].t || c.series.until-begins > lookback {
		return false
	}
	n, _ := slices.BinarySearchFunc(old, begins, func(p point, t time.Duration) int { return cmp.Compare(p.t, t) })
	c.series = &series{name: x.name, labels: c.series.labels, points: slices.Concat(old[:n], x.points), until: x.until}
	return true
}

// until returns the last point until t, if there is one. t does not decrease.
func (c *cursor) until(t time.Duration) (p point, ok bool) {
	if c.series == nil {
		return point{}, false
	}
	points := c.series.points
	for c.next+1 < len(points) && points[c.next+1].t <= t {
		c.next++
	}
	return points[c.next], points[c.next].t <= t
}

// exactly returns the value at t, if there is one. t does not decrease.
func (c *cursor) exactly(t time.Duration) (v float64, ok bool) {
	p, ok := c.until(t)
	return p.v, ok && p.t == t
}

// is reports whether there is a value at t.
func (c *cursor) is(t time.Duration) bool {
	_, ok := c.exactly(t)
	return ok
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
