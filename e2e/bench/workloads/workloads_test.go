// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

type sample struct {
	t    time.Duration
	used int64
}

func all(s *Series) []sample {
	var list []sample
	for t, used, ok := s.Next(); ok; t, used, ok = s.Next() {
		list = append(list, sample{t, used})
	}
	return list
}

func TestSeries(t *testing.T) {
	for _, k := range Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			for i := range 8 {
				s := k.New(Tune, i, Mixed)
				samples := all(s)
				if !slices.Equal(samples, all(k.New(Tune, i, Mixed))) {
					t.Fatalf("%d: the same seed gives another series", i)
				}
				if slices.Equal(samples, all(k.New(Test, i, Mixed))) {
					t.Errorf("%d: the sets share a series", i)
				}
				checkSamples(t, s, samples)
				checkTruth(t, k, s, samples[len(samples)-1].t)
			}
		})
	}
}

func checkSamples(t *testing.T, s *Series, samples []sample) {
	t.Helper()
	for i, p := range samples {
		if nominal := time.Duration(i) * s.Interval; p.t < nominal || p.t > nominal+s.Interval/100 {
			t.Fatalf("%d: sample %d is at %s, every %s", s.Index, i, p.t, s.Interval)
		}
		if p.used < 0 || p.used > s.Capacity || p.used%(2<<20) != 0 {
			t.Fatalf("%d: %d bytes at %s", s.Index, p.used, p.t)
		}
	}
}

func checkTruth(t *testing.T, k Kind, s *Series, end time.Duration) {
	t.Helper()
	if s.Leak != k.Leak || s.Straight != k.Straight || s.Name != k.Name {
		t.Errorf("%d: %+v is not of its kind", s.Index, s)
	}
	if s.Length-end > 2*s.Interval || end-s.Length > s.Interval {
		t.Errorf("%d: ends at %s, said %s", s.Index, end, s.Length)
	}
	if !s.Leak {
		if s.Onset != 0 || s.OOM != 0 || s.Rate != 0 || s.HalfLife() != 0 {
			t.Errorf("%d: a healthy series leaks", s.Index)
		}
		return
	}
	if s.Onset <= 0 || s.Rate <= 0 || end < s.Onset+30*time.Minute {
		t.Errorf("%d: %g B/s from %s to %s", s.Index, s.Rate, s.Onset, end)
	}
	if s.OOM > 0 && (s.OOM > Horizon || s.HalfLife() > end || s.OOM-s.Onset < 30*time.Minute) {
		t.Errorf("%d: onset %s, out-of-memory %s, end %s", s.Index, s.Onset, s.OOM, end)
	}
}

func TestOOM(t *testing.T) {
	seen := 0
	for _, k := range Kinds() {
		for i := range 10 {
			if s := k.New(Tune, i, Mixed); s.OOM > 0 && s.Length == s.OOM {
				seen++
				samples := all(s)
				last := samples[len(samples)-1]
				if gap := s.OOM - last.t; gap < s.Interval/2 || gap > s.Interval {
					t.Errorf("%s %d: last sample %s before the end", k.Name, i, gap)
				}
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d series ran out of memory", seen)
	}
}

// A steady leak loses what it says that it loses.
func TestRate(t *testing.T) {
	for _, k := range Kinds() {
		if k.Name != "leak-linear" {
			continue
		}
		for i := range 20 {
			s := k.New(Tune, i, Mixed)
			samples := all(s)
			first := samples[s.Onset/s.Interval]
			last := samples[len(samples)-1]
			took := (last.t - first.t).Seconds()
			// Each end is within a segment of 20 MiB and an interval.
			want, off := s.Rate*took, 2*(20*mib+s.Rate*s.Interval.Seconds())
			if lost := float64(last.used - first.used); math.Abs(lost-want) > off {
				t.Errorf("%d: %g bytes in %g s, said %g", i, lost, took, want)
			}
		}
	}
}

// A tooth or a load of more than 15 minutes is a straight fill as long as it rises, whatever wraps it.
func TestFills(t *testing.T) {
	tooth := func(grow float64, bent bool) memory {
		return &cycle{r: &rng{rand.New(rand.NewPCG(1, 2))}, grow: grow, pause: hour, rise: gib, bent: bent}
	}
	long := func() memory { return tooth(20*minute, false) }
	for _, c := range []struct {
		name     string
		m        memory
		from, to float64 // minutes in which it fills, of the first 30
	}{
		{"a tooth", long(), 0, 20},
		{"a short one", tooth(14*minute, false), 0, 0},
		{"a bent one", tooth(20*minute, true), 0, 0},
		{"a load", &line{from: 5 * minute, rise: gib, took: 16 * minute}, 5, 21},
		{"a short load", &line{from: 5 * minute, rise: gib, took: 14 * minute}, 0, 0},
		{"beside others", sum{level(1), tooth(minute, false), &segments{20, long()}}, 0, 20},
		{"in the midst of it", &aged{5 * minute, long()}, 0, 15},
		{"later", &started{0, 3 * minute, minute, long()}, 3, 23},
		{"a level", level(1), 0, 0},
	} {
		for x := 0.0; x < 30; x++ {
			c.m.at(x * minute)
			if got, want := fills(c.m), x >= c.from && x < c.to; got != want {
				t.Errorf("%s after %g minutes: %t, want %t", c.name, x, got, want)
			}
		}
	}
}

func TestLengths(t *testing.T) {
	k := Kinds()[0]
	for i := range 20 {
		mixed, long := k.New(Tune, i, Mixed), k.New(Tune, i, Long)
		if long.Length < 24*time.Hour || long.Length > 72*time.Hour {
			t.Errorf("a long series of %s", long.Length)
		}
		if mixed.Length < 4*time.Hour || (mixed.Length > 12*time.Hour) != (i%6 == 5) {
			t.Errorf("%d: a mixed series of %s", i, mixed.Length)
		}
	}
}

func TestSetNamed(t *testing.T) {
	for _, s := range []Set{Tune, Test} {
		if got, err := SetNamed(s.String()); got != s || err != nil {
			t.Errorf("SetNamed(%q) = %v, %v", s, got, err)
		}
	}
	if _, err := SetNamed("all"); err == nil {
		t.Error("SetNamed accepts another name")
	}
	if got := Set(7).String(); got != "Set(7)" {
		t.Error(got)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, k := range Kinds() {
		b.Run(k.Name, func(b *testing.B) {
			s := k.build(Tune, 3, Long)
			s.step, s.length, s.capacity = 1, 1e18, 1e15
			for b.Loop() {
				s.Next()
			}
		})
	}
}

// The hard kinds are as said, and the same beneath each noise.
func TestHardKinds(t *testing.T) {
	sds := []float64{0, 100, 200}
	for noise := range Noises {
		for j, k := range HardKinds(noise) {
			for i := range 4 {
				s := k.New(Test, i, Mixed)
				samples, bare := all(s), all(HardKinds(0)[j].New(Test, i, Mixed))
				checkSamples(t, s, samples)
				checkTruth(t, k, s, samples[len(samples)-1].t)
				if bare[0].used < 64*mib || slices.MaxFunc(bare, byUsed).used-bare[0].used < 100*mib {
					t.Errorf("%s %d: %d bytes at first, then never 100 MiB more", k.Name, i, bare[0].used)
				}
				sum, squares := 0.0, 0.0
				for n := range bare {
					d := float64(samples[n].used-bare[n].used)/mib - 4*sds[noise]
					sum, squares = sum+d, squares+d*d
				}
				n := float64(len(bare))
				if mean, sd := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 40 || math.Abs(sd-sds[noise]) > 0.1*sds[noise]+2 {
					t.Errorf("%s %d, noise %s: off by %.1f MiB, by %.1f in the root mean square", k.Name, i, Noises[noise], mean, sd)
				}
			}
		}
	}
}

func byUsed(a, b sample) int { return cmp.Compare(a.used, b.used) }
