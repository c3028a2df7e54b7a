// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"math"
	"time"
)

// The thresholds of the insight "Memory Growth Trend" of gpu-memory-profiler's
// analyzer, and the ring of its tracker.
const (
	gpumemprofPoints = 5
	gpumemprofR      = 0.5
	gpumemprofRing   = 10_000
)

// student holds the 0.975 quantiles of Student's t with 3 to 13 degrees of
// freedom: where p of the two-sided test is 0.05. With 14 and more, r = 0.5 is
// beyond it.
var student = [...]float64{3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160}

// gpumemprof is the temporal rule of gpu-memory-profiler: the least-squares line
// of memory over time rises, |r| > 0.5 and p < 0.05, from 5 points on.
//
// The rule is made for a finished record of profiled calls. What it says of a
// record that grows is silent: it is asked of the last 10,000 samples, as many as
// the tracker's ring holds. It has no forecast.
type gpumemprof struct{ record record }

// NewGpumemprof returns the temporal rule of gpu-memory-profiler.
func NewGpumemprof() Rule { return &gpumemprof{record{most: gpumemprofRing}} }

// Observe implements Rule.
func (g *gpumemprof) Observe(t time.Duration, used, _ int64) { g.record.add(t, used) }

// Verdict implements Rule.
func (g *gpumemprof) Verdict() (leak bool, eta, lower, upper float64) {
	points := g.record.last()
	if len(points) < gpumemprofPoints {
		return false, none, none, none
	}
	f, ok := fitOf(points)
	leak = ok && f.slope > 0 && f.r > gpumemprofR && significant(f.r, len(points))
	return leak, none, none, none
}

// significant reports whether the correlation r > 0 of n points has p < 0.05.
func significant(r float64, n int) bool {
	df := n - 2
	if df-3 >= len(student) {
		return true
	}
	return r*math.Sqrt(float64(df)/max(1-r*r, 1e-300)) > student[df-3]
}
