// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"math"
	"testing"
	"time"
)

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-9*math.Max(1, math.Abs(want))) {
		t.Errorf("%s: %g, want %g", what, got, want)
	}
}

// feed gives a rule n samples of used(i), every so often from 0 on.
func feed(r Rule, n int, every time.Duration, capacity int64, used func(i int) float64) {
	for i := range n {
		r.Observe(time.Duration(i)*every, int64(used(i)), capacity)
	}
}

func TestFit(t *testing.T) {
	f, ok := fitOf([]point{{0, 1}, {1, 3}, {2, 5}})
	if !ok {
		t.Fatal("no fit")
	}
	near(t, "slope", f.slope, 2)
	near(t, "end", f.end, 5)
	near(t, "r", f.r, 1)
	// Means 1 and 1; sums of products: tt 2, tv 3, vv 6.
	f, _ = fitOf([]point{{0, 0}, {1, 0}, {2, 3}})
	near(t, "slope", f.slope, 1.5)
	near(t, "end", f.end, 2.5)
	near(t, "r", f.r, 3/math.Sqrt(12))
	f, _ = fitOf([]point{{0, 7}, {1, 7}})
	near(t, "r of a constant", f.r, 0)
	for _, points := range [][]point{nil, {{1, 1}}, {{1, 1}, {1, 2}}} {
		if _, ok := fitOf(points); ok {
			t.Errorf("%v has a fit", points)
		}
	}
}

func TestRecord(t *testing.T) {
	r := record{age: 10}
	for i := range 100 {
		r.add(time.Duration(i)*time.Second, int64(i))
	}
	if p := r.last(); len(p) != 10 || p[0].t != 90 || p[9].v != 99 {
		t.Errorf("%v", p)
	}
	r = record{most: 3}
	for i := range 100 {
		r.add(time.Duration(i)*time.Second, int64(i))
	}
	if p := r.last(); len(p) != 3 || p[0].t != 97 || len(r.points) > 10 {
		t.Errorf("%v of %d", p, len(r.points))
	}
}

func TestGpulse(t *testing.T) {
	const interval = 30 * time.Second
	rising := func(mb float64) func(int) float64 {
		return func(i int) float64 { return 1e10 + mb*1e6*30*float64(i) }
	}
	// 1 MB/s and R² of 0.8, from 20 samples on.
	for _, c := range []struct {
		name string
		n    int
		used func(i int) float64
		leak bool
	}{
		{"19 samples", 19, rising(2), false},
		{"20 samples", 20, rising(2), true},
		{"just steep enough", 60, rising(1.01), true},
		{"not steep enough", 60, rising(0.99), false},
		// R² of L equal levels is about 1 - 1/L².
		{"one step", 60, func(i int) float64 { return 1e10 + 1e10*float64(i/30) }, false},
		{"two steps", 60, func(i int) float64 { return 1e10 + 1e10*float64(i/20) }, true},
		{"a spike alone", 60, func(i int) float64 { return 1e10 + 5e9*float64(i/59) }, false},
		{"falls", 60, rising(-2), false},
	} {
		g := NewGpulse()
		feed(g, c.n, interval, 80e9, c.used)
		leak, eta, _, _ := g.Verdict()
		if leak != c.leak || leak == math.IsNaN(eta) {
			t.Errorf("%s: %t, forecast %g", c.name, leak, eta)
		}
	}
	g := NewGpulse()
	feed(g, 31, interval, 80e9, rising(2)) // 11.8 GB now
	_, eta, lower, upper := g.Verdict()
	near(t, "forecast", eta, 68.2e9/2e6)
	if !math.IsNaN(lower) || !math.IsNaN(upper) {
		t.Error("gpulse has no interval")
	}
	// Samples come each 30 s, however often there are some.
	g = NewGpulse()
	feed(g, 19*30, time.Second, 80e9, func(i int) float64 { return 1e10 + 2e6*float64(i) })
	if leak, _, _, _ := g.Verdict(); leak {
		t.Error("a leak from 19 samples")
	}
}

func TestOLS(t *testing.T) {
	rising := func(i int) float64 { return 1e10 + 1e6*float64(i) }
	for _, c := range []struct {
		name string
		n    int
		used func(i int) float64
		leak bool
	}{
		{"not a quarter of an hour", 90, rising, false},
		{"a quarter of an hour", 91, rising, true},
		{"falls", 200, func(i int) float64 { return 1e10 - 1e6*float64(i) }, false},
		// R² of a single step in the middle is 3/4.
		{"one step", 135, func(i int) float64 { return 1e10 + 1e10*float64(i/90) }, false},
	} {
		o := NewOLS()
		feed(o, c.n, 10*time.Second, 80e9, c.used)
		leak, eta, _, _ := o.Verdict()
		if leak != c.leak || leak == math.IsNaN(eta) {
			t.Errorf("%s: %t, forecast %g", c.name, leak, eta)
		}
	}
	o := NewOLS()
	feed(o, 101, 10*time.Second, 80e9, rising)
	_, eta, _, _ := o.Verdict()
	near(t, "forecast", eta, (70e9-1e8)/1e5)
}

func TestGpumemprof(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		leak   bool
	}{
		{"four", []float64{0, 1, 2, 3}, false},
		{"five", []float64{0, 1, 2, 3, 4}, true},
		// r = 2/sqrt(10 * 0.8) = 0.71, but t = 0.71 sqrt(3/0.5) = 1.7 < 3.18.
		{"p above 0.05", []float64{0, 0, 0, 0, 1}, false},
		{"falls", []float64{4, 3, 2, 1, 0}, false},
		{"constant", []float64{1, 1, 1, 1, 1}, false},
	} {
		g := NewGpumemprof()
		feed(g, len(c.values), time.Second, 80e9, func(i int) float64 { return 1e9 * c.values[i] })
		if leak, eta, _, _ := g.Verdict(); leak != c.leak || !math.IsNaN(eta) {
			t.Errorf("%s: %t, %g", c.name, leak, eta)
		}
	}
	// t = 0.55 sqrt(13/(1-0.3025)) = 2.37 > 2.160; 0.5 sqrt(13/0.75) = 2.08 is not.
	if !significant(0.55, 15) || significant(0.5, 15) || !significant(0.5, 16) || !significant(1, 5) {
		t.Error("p < 0.05 is not where it is in the table")
	}
}

func TestPredictLinear(t *testing.T) {
	for _, c := range []struct {
		rate float64
		leak bool
	}{
		// From 10 GB, an hour and four hours more: 5 h at 3.9 MB/s are 70.2 GB.
		{3.9e6, true},
		{3.8e6, false},
		{-1e6, false},
		{0, false},
	} {
		p := NewPredictLinear()
		feed(p, 3601, time.Second, 80e9, func(i int) float64 { return 1e10 + c.rate*float64(i) })
		leak, eta, _, _ := p.Verdict()
		if leak != c.leak {
			t.Errorf("%g B/s: %t", c.rate, leak)
		}
		if c.rate > 0 {
			near(t, "forecast", eta, (7e10-c.rate*3600)/c.rate)
		} else if !math.IsNaN(eta) {
			t.Errorf("%g B/s: %g s", c.rate, eta)
		}
	}
	p := NewPredictLinear()
	p.Observe(0, 1e9, 80e9)
	if leak, _, _, _ := p.Verdict(); leak {
		t.Error("a leak from one sample")
	}
}

func points(values ...float64) []point {
	var list []point
	for i, v := range values {
		list = append(list, point{float64(i), v})
	}
	return list
}

func TestKendall(t *testing.T) {
	// S = 45, var = 10*9*25/18 = 125.
	near(t, "z", kendall(points(1, 2, 3, 4, 5, 6, 7, 8, 9, 10)), 44/math.Sqrt(125))
	near(t, "z", kendall(points(10, 9, 8, 7, 6, 5, 4, 3, 2, 1)), -44/math.Sqrt(125))
	// S = 4, var = (4*3*13 - 2*2*1*9)/18 = 120/18.
	near(t, "z with ties", kendall(points(1, 1, 2, 2)), 3/math.Sqrt(120.0/18))
	near(t, "z of a constant", kendall(points(3, 3, 3, 3)), 0)
	// Slopes 1, 2 and 3.
	near(t, "Sen's slope", sen(points(0, 1, 4)), 2)
	// Slopes 1, 0, 1, -1, 1 and 3.
	near(t, "Sen's slope", sen(points(0, 1, 0, 3)), 1)
}

func TestMannKendall(t *testing.T) {
	m := NewMannKendall()
	feed(m, 10*60, time.Second, 80e9, func(i int) float64 { return 1e10 + 1e6*float64(i) })
	if leak, _, _, _ := m.Verdict(); leak {
		t.Error("a leak from 9 full minutes")
	}
	// 60 full minutes: the forecast is (80 - 13.66) GB at 1 MB/s.
	m = NewMannKendall()
	feed(m, 61*60+1, time.Second, 80e9, func(i int) float64 { return 1e10 + 1e6*float64(i) })
	leak, eta, _, _ := m.Verdict()
	if !leak {
		t.Error("no leak")
	}
	near(t, "forecast", eta, (80e9-1.366e10)/1e6)
	m = NewMannKendall()
	feed(m, 7200, time.Second, 80e9, func(i int) float64 { return 1e10 - 1e5*float64(i) })
	if leak, _, _, _ := m.Verdict(); leak {
		t.Error("a leak that falls")
	}
}
