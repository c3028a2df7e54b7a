// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	kendallWindow = time.Hour
	// kendallPoints is from how many points on Kendall's S is near enough to
	// normal: 10 (Kendall, Rank Correlation Methods).
	kendallPoints = 10
	// kendallZ is the 0.995 quantile of the normal distribution: p < 0.01 in the
	// two-sided test.
	kendallZ = 2.5758
)

// mannKendall is the test of Mann and Kendall for a trend with p < 0.01, and the
// slope of Sen, on the means of the minutes of the last hour. Its variance is
// corrected for ties.
//
// It is the textbook's test, for independent values: no pre-whitening. A leak is
// a significant trend with a slope of Sen above 0. The forecast is what is free
// over that slope.
type mannKendall struct {
	means         record
	minute        time.Duration // the begin of the one that is open
	sum, n        float64
	now, capacity float64
}

// NewMannKendall returns the rule of Mann and Kendall.
func NewMannKendall() Rule { return &mannKendall{means: record{age: kendallWindow.Seconds()}} }

// Observe implements Rule.
func (m *mannKendall) Observe(t time.Duration, used, capacity int64) {
	minute := t.Truncate(time.Minute)
	if minute != m.minute && m.n > 0 {
		m.means.add(m.minute, int64(m.sum/m.n))
		m.sum, m.n = 0, 0
	}
	m.minute = minute
	m.sum += float64(used)
	m.n++
	m.now, m.capacity = float64(used), float64(capacity)
}

// Verdict implements Rule.
func (m *mannKendall) Verdict() (leak bool, eta, lower, upper float64) {
	points := m.means.last()
	if len(points) < kendallPoints || !(kendall(points) > kendallZ) {
		return false, none, none, none
	}
	slope := sen(points)
	return slope > 0, until(m.capacity, m.now, slope), none, none
}

// kendall returns z of the test of Mann and Kendall: S, less 1 towards 0, over
// its standard deviation, with var S = (n(n-1)(2n+5) - sum over the groups of u
// equal values of u(u-1)(2u+5)) / 18.
func kendall(points []point) float64 {
	s := 0
	for i := range points {
		for j := range i {
			s += cmp.Compare(points[i].v, points[j].v)
		}
	}
	variance := (pairs(len(points)) - ties(points)) / 18
	switch {
	case variance <= 0 || s == 0:
		return 0
	case s > 0:
		return float64(s-1) / math.Sqrt(variance)
	default:
		return float64(s+1) / math.Sqrt(variance)
	}
}

// pairs returns n(n-1)(2n+5).
func pairs(n int) float64 { return float64(n) * float64(n-1) * float64(2*n+5) }

// ties returns the sum of u(u-1)(2u+5) over the groups of u equal values.
func ties(points []point) float64 {
	values := make([]float64, len(points))
	for i, p := range points {
		values[i] = p.v
	}
	slices.Sort(values)
	sum, run := 0.0, 0
	for i := range values {
		run++
		if i+1 == len(values) || values[i+1] != values[i] {
			sum += pairs(run)
			run = 0
		}
	}
	return sum
}

// sen returns the median of the slopes of all pairs of points.
func sen(points []point) float64 {
	var slopes []float64
	for i := range points {
		for j := range i {
			slopes = append(slopes, (points[i].v-points[j].v)/(points[i].t-points[j].t))
		}
	}
	slices.Sort(slopes)
	n := len(slopes)
	return (slopes[(n-1)/2] + slopes[n/2]) / 2
}
