// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9*math.Max(1, math.Abs(want))) {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

// feed gives a rule n samples of used(i), every so often from 0 on, on a GPU of 80 GB.
func feed(r *Rule, n int, every time.Duration, used func(i int) float64) {
	for i := range n {
		r.Observe(time.Duration(i)*every, uint64(used(i)), 80e9)
	}
}

// rising is 10 GB and so many bytes more with each sample.
func rising(each float64) func(int) float64 {
	return func(i int) float64 { return 1e10 + each*float64(i) }
}

// levels are 10 GB, and as much again after each so many samples.
func levels(each int) func(int) float64 {
	return func(i int) float64 { return 1e10 + 1e10*float64(i/each) }
}

func TestRules(t *testing.T) {
	none := math.NaN()
	for _, c := range []struct {
		name  string // of the rule, and what it is given
		n     int
		every time.Duration
		used  func(i int) float64
		leak  bool
		eta   float64 // 0 for any
	}{
		// 1 MB/s and R² of 0.8, from 20 samples on; R² of L equal levels is about 1 - 1/L².
		{"gpulse, 19 samples", 19, 30 * time.Second, rising(6e7), false, none},
		{"gpulse, 31 samples", 31, 30 * time.Second, rising(6e7), true, 68.2e9 / 2e6},
		{"gpulse, steep enough", 60, 30 * time.Second, rising(3.03e7), true, 0},
		{"gpulse, not steep enough", 60, 30 * time.Second, rising(2.97e7), false, none},
		{"gpulse, one step", 60, 30 * time.Second, levels(30), false, none},
		{"gpulse, two steps", 60, 30 * time.Second, levels(20), true, 0},
		{"gpulse, 19 samples of each second", 19 * 30, time.Second, rising(2e6), false, none},
		{"gpumemprof, four", 4, time.Second, rising(1e9), false, none},
		{"gpumemprof, five", 5, time.Second, rising(1e9), true, none},
		// r = 2/sqrt(10 * 0.8) = 0.71, but t = 0.71 sqrt(3/0.5) = 1.7 < 3.18.
		{"gpumemprof, p above 0.05", 5, time.Second, levels(4), false, none},
		{"gpumemprof, falls", 5, time.Second, rising(-1e9), false, none},
		{"gpumemprof, constant", 5, time.Second, rising(0), false, none},
		// From 10 GB, an hour and four hours more: 5 h at 3.9 MB/s are 70.2 GB.
		{"predict_linear, to the end", 3601, time.Second, rising(3.9e6), true, (7e10 - 3.9e6*3600) / 3.9e6},
		{"predict_linear, not to the end", 3601, time.Second, rising(3.8e6), false, (7e10 - 3.8e6*3600) / 3.8e6},
		{"predict_linear, falls", 3601, time.Second, rising(-1e6), false, none},
		{"predict_linear, one sample", 1, time.Second, rising(1e9), false, none},
		{"OLS, not a quarter of an hour", 90, 10 * time.Second, rising(1e6), false, none},
		{"OLS, a quarter of an hour", 101, 10 * time.Second, rising(1e6), true, (70e9 - 1e8) / 1e5},
		{"OLS, one step", 135, 10 * time.Second, levels(90), false, none},
		{"OLS, falls", 200, 10 * time.Second, rising(-1e6), false, none},
		{"Mann-Kendall, 9 full minutes", 10 * 60, time.Second, rising(1e6), false, none},
		{"Mann-Kendall, 61 full minutes", 61*60 + 1, time.Second, rising(1e6), true, (80e9 - 1.366e10) / 1e6},
		{"Mann-Kendall, falls", 7200, time.Second, rising(-1e5), false, none},
	} {
		rule, _, _ := strings.Cut(c.name, ",")
		all := All()
		r := all[slices.IndexFunc(all, func(r *Rule) bool { return r.Name == rule })]
		feed(r, c.n, c.every, c.used)
		leak, eta := r.Verdict()
		if leak != c.leak || math.IsNaN(eta) != math.IsNaN(c.eta) {
			t.Errorf("%s: %t, forecast %g", c.name, leak, eta)
		}
		if c.eta > 0 {
			near(t, c.name, eta, c.eta)
		}
	}
}

func TestFit(t *testing.T) {
	// Means 1 and 1; sums of products: tt 2, tv 3, vv 6.
	f, ok := fitOf([]point{{0, 0}, {1, 0}, {2, 3}})
	if !ok {
		t.Fatal("no fit")
	}
	near(t, "slope", f.slope, 1.5)
	near(t, "end", f.end, 2.5)
	near(t, "r", f.r, 3/math.Sqrt(12))
	for _, points := range [][]point{nil, {{1, 1}}, {{1, 1}, {1, 2}}} {
		if _, ok := fitOf(points); ok {
			t.Errorf("%v has a fit", points)
		}
	}
	// t = 0.55 sqrt(13/(1-0.3025)) = 2.37 > 2.160; 0.5 sqrt(13/0.75) = 2.08 is not.
	if !significant(0.55, 15) || significant(0.5, 15) || !significant(0.5, 16) || !significant(1, 5) {
		t.Error("p < 0.05 is not where it is in the table")
	}
}

func TestPoints(t *testing.T) {
	old, few := Rule{age: 10 * time.Second}, Rule{most: 3}
	for _, r := range []*Rule{&old, &few} {
		feed(r, 100, time.Second, func(i int) float64 { return float64(i) })
	}
	if p := old.points; len(p) != 10 || p[0].t != 90 || p[9].v != 99 {
		t.Errorf("%v", p)
	}
	if p := few.points; len(p) != 3 || p[0].t != 97 || cap(few.points) > 10 {
		t.Errorf("%v of %d", p, cap(few.points))
	}
}

func TestKendall(t *testing.T) {
	points := func(values ...float64) (list []point) {
		for i, v := range values {
			list = append(list, point{float64(i), v})
		}
		return list
	}
	// S = 45, var = 10*9*25/18 = 125.
	near(t, "z", kendall(points(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)), 44/math.Sqrt(125))
	near(t, "z", kendall(points(10, 9, 8, 7, 6, 5, 4, 3, 2, 1)), -44/math.Sqrt(125))
	// S = 4, var = (4*3*13 - 2*2*1*9)/18 = 120/18.
	near(t, "z with ties", kendall(points(1, 1, 2, 2)), 3/math.Sqrt(120.0/18))
	near(t, "z of a constant", kendall(points(3, 3, 3, 3)), 0)
	near(t, "Sen's slope", sen(points(0, 1, 4)), 2)    // of 1, 2 and 3
	near(t, "Sen's slope", sen(points(0, 1, 0, 3)), 1) // of 1, 0, 1, -1, 1 and 3
}
