// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package exams_test

import (
	"math"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams/jobs"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams/layers"
)

var generators = []struct {
	name string
	kind func(index int) string
	make func(seed uint64, index int) *exams.Series
	// What the first of each kind hold with seed 301: published figures can be
	// compared only as long as this stays.
	hours, samples, used float64 // used is the mean of all samples, in GiB
}{
	{"jobs", jobs.Kind, jobs.New, 145.40325, 276406, 21.642327},
	{"layers", layers.Kind, layers.New, 222.77764, 297294, 43.930314},
}

// sum adds up what a set holds.
type sum struct{ hours, samples, used float64 }

func (s *sum) add(length time.Duration, samples int, used float64) {
	s.hours += length.Hours()
	s.samples += float64(samples)
	s.used += used / (1 << 30)
}

// TestSeries looks at the labels and the samples of one series of each kind, made
// twice. Where a machine computes a last digit otherwise, a sample may differ from
// another machine's: the sums have to agree nearly.
func TestSeries(t *testing.T) {
	for _, g := range generators {
		t.Run(g.name, func(t *testing.T) {
			var got sum
			for i := range exams.Leaks + exams.Healthy {
				if i > 0 && g.kind(i) == g.kind(i-1) {
					continue
				}
				s, again := g.make(301, i), g.make(301, i)
				if s.Labels != again.Labels || s.Kind != g.kind(i) || s.Leak != (i < exams.Leaks) {
					t.Fatalf("%d: %+v, and again %+v", i, s.Labels, again.Labels)
				}
				checkLabels(t, i, &s.Labels)
				n, used := checkSamples(t, i, s, again)
				got.add(s.Length, n, used)
			}
			got.used /= got.samples
			for _, v := range [][2]float64{{got.hours, g.hours}, {got.samples, g.samples}, {got.used, g.used}} {
				if math.Abs(v[0]-v[1]) > 1e-4*v[1] {
					t.Errorf("%g, want %g", v[0], v[1])
				}
			}
		})
	}
}

// checkSamples returns the number of the samples and the sum of what is used.
func checkSamples(t *testing.T, index int, s, again *exams.Series) (n int, sum float64) {
	t.Helper()
	last := time.Duration(-1)
	for {
		at, used, ok := s.Next()
		if at2, used2, ok2 := again.Next(); at2 != at || used2 != used || ok2 != ok {
			t.Fatalf("%d %s: the same seed gives another series at %s", index, s.Kind, at)
		}
		if !ok {
			break
		}
		if at <= last || used < 0 || used > s.Capacity || used%exams.Quantum != 0 {
			t.Fatalf("%d %s: %d of %d bytes at %s after %s", index, s.Kind, used, s.Capacity, at, last)
		}
		last = at
		n++
		sum += float64(used)
	}
	if last > s.Length || s.Length-last > 2*s.Interval || (s.OOM > 0 && last >= s.OOM) {
		t.Errorf("%d %s: ends at %s, said %s and out-of-memory at %s", index, s.Kind, last, s.Length, s.OOM)
	}
	return n, sum
}

func checkLabels(t *testing.T, index int, l *exams.Labels) {
	t.Helper()
	half := l.HalfLife()
	if (l.HalfLost > 0) != (l.OOM > 0) || l.HalfLost >= 1 {
		t.Errorf("%d: %g is lost by the half-life of %+v", index, l.HalfLost, l)
	}
	switch {
	case !l.Leak:
		if l.Onset != 0 || l.OOM != 0 || l.Rate != 0 || l.Steady || l.FromStart || half != 0 {
			t.Errorf("%d: a healthy series leaks: %+v", index, l)
		}
	case l.Rate <= 0 || l.Onset >= l.Length:
		t.Errorf("%d: %+v", index, l)
	case l.OOM == 0:
		if half != 0 {
			t.Errorf("%d: half-life %s of %+v", index, half, l)
		}
	case l.OOM <= l.Onset || l.OOM > exams.Horizon || l.Length > l.OOM || half-l.Onset > l.OOM-half || l.OOM-half > half-l.Onset+1:
		t.Errorf("%d: half-life %s of %+v", index, half, l)
	}
}

// An index behind the set is a mistake of the caller.
func TestNoSuchSeries(t *testing.T) {
	for _, g := range generators {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s has a series %d", g.name, exams.Leaks+exams.Healthy)
				}
			}()
			g.kind(exams.Leaks + exams.Healthy)
		}()
	}
}

// The median of a logarithmic range is the geometric mean of its ends.
func TestRandom(t *testing.T) {
	r := exams.NewRandom(1, 2)
	const n = 10000
	below, chances, firsts := 0, 0, 0
	for range n {
		if v := r.Between(-3, 5); v < -3 || v >= 5 {
			t.Fatalf("%g is not between", v)
		}
		v := r.About(1, 100)
		if v < 1 || v >= 100 {
			t.Fatalf("%g is not about", v)
		}
		if v < 10 {
			below++
		}
		if r.Chance(0.25) {
			chances++
		}
		if r.Pick([]float64{7, 8, 8, 8}) == 7 {
			firsts++
		}
	}
	for _, c := range [][2]float64{{float64(below), n / 2}, {float64(chances), n / 4}, {float64(firsts), n / 4}} {
		if math.Abs(c[0]-c[1]) > 5*math.Sqrt(n/4) {
			t.Errorf("%g, want about %g", c[0], c[1])
		}
	}
}
