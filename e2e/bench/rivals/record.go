// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"math"
	"time"
)

// point is a sample: seconds and bytes.
type point struct{ t, v float64 }

// record holds the last samples of a series: those that are younger than age
// seconds, and most of them at most. 0 is no bound.
type record struct {
	age    float64
	most   int
	points []point
	head   int
}

func (r *record) add(t time.Duration, used int64) {
	p := point{t.Seconds(), float64(used)}
	r.points = append(r.points, p)
	for (r.age > 0 && r.points[r.head].t <= p.t-r.age) || (r.most > 0 && len(r.points)-r.head > r.most) {
		r.head++
	}
	if r.head > len(r.points)/2 {
		r.points = r.points[:copy(r.points, r.points[r.head:])]
		r.head = 0
	}
}

func (r *record) last() []point { return r.points[r.head:] }

// fit is a least-squares line: v = end + slope (t - t of the last point).
type fit struct {
	slope, end float64
	r          float64 // Pearson's correlation of t and v; 0 for constant v
}

// fitOf fits a line to points. ok is false for fewer than two times.
func fitOf(points []point) (f fit, ok bool) {
	if len(points) < 2 {
		return fit{}, false
	}
	origin, n := points[len(points)-1], float64(len(points))
	var mt, mv float64
	for _, p := range points {
		mt += p.t - origin.t
		mv += p.v - origin.v
	}
	mt, mv = mt/n, mv/n
	var tt, tv, vv float64
	for _, p := range points {
		t, v := p.t-origin.t-mt, p.v-origin.v-mv
		tt += t * t
		tv += t * v
		vv += v * v
	}
	if tt == 0 {
		return fit{}, false
	}
	f.slope = tv / tt
	f.end = origin.v + mv - f.slope*mt
	if vv > 0 {
		f.r = tv / math.Sqrt(tt*vv)
	}
	return f, true
}

// until returns the seconds in which a line that is at now and rises by slope
// reaches the capacity; NaN for one that does not rise.
func until(capacity, now, slope float64) float64 {
	if !(slope > 0) {
		return none
	}
	return max(capacity-now, 0) / slope
}
