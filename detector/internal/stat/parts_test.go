// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

func TestSpikes(t *testing.T) {
	flat := func(n, level int) []int { return slices.Repeat([]int{level}, n) }
	ramp := func(n, from, step int) (levels []int) {
		for i := range n {
			levels = append(levels, from+i*step)
		}
		return levels
	}
	for _, c := range []struct {
		name   string
		levels []int // MiB, a second apart
		want   int
	}{
		{"flat", flat(300, 1000), 0},
		{"one sample up and back", slices.Concat(flat(60, 1000), flat(1, 1200), flat(60, 1000)), 1},
		{"half a minute", slices.Concat(flat(60, 1000), flat(30, 1200), flat(60, 1000)), 1},
		{"too low", slices.Concat(flat(60, 1000), flat(5, 1063), flat(60, 1000)), 0},
		{"stays: a step", slices.Concat(flat(60, 1000), flat(90, 1200), flat(60, 1200)), 0},
		{"stays two minutes, then falls", slices.Concat(flat(60, 1000), flat(120, 1200), flat(60, 1000)), 0},
		{"falls to a quarter of its height", slices.Concat(flat(60, 1000), flat(5, 1400), flat(200, 1100)), 1},
		{"falls not far enough", slices.Concat(flat(60, 1000), flat(5, 1400), flat(200, 1101)), 0},
		{"three", slices.Concat(flat(60, 1000), flat(5, 1200), flat(20, 1000), flat(5, 1200), flat(20, 1000), flat(5, 1300), flat(20, 1000)), 3},
		{"slow sawtooth", slices.Repeat(ramp(120, 1000, 10), 3), 0},
		{"ends far below its beginning", slices.Concat(flat(60, 1000), flat(5, 1200), flat(60, 500)), 0},
		{"steady growth", ramp(600, 1000, 1), 0},
		{"a rise of half a minute, and back", slices.Concat(flat(120, 1000), ramp(30, 1000, 4), flat(20, 1000)), 1},
		{"from the first sample on", flat(3, 1), 0},
	} {
		var s Spikes
		got := 0
		for i, level := range c.levels {
			if s.Add(start+time.Duration(i)*time.Second, Bytes(level)*mib, time.Minute, 64*mib) {
				got++
			}
		}
		testkit.Equal(t, got, c.want, "%s: spikes", c.name)
	}
	// Where it rises from is not known after a gap.
	var s Spikes
	s.Add(start, 1000*mib, time.Minute, 64*mib)
	if s.Add(start+2*time.Minute, 1200*mib, time.Minute, 64*mib); s.Active {
		t.Error("a spike begins after a gap")
	}
}

// A slot leaves the crest when the span is over since its begin, between the begins of two
// slots as well.
func TestCrestEnds(t *testing.T) {
	const span = time.Minute
	for at, want := range map[time.Duration]int64{span - 1: 100, span: 1, span + 1: 1} {
		var c Crest[int64]
		c.Add(0, span, 100)
		c.Add(span-span/crestSlots/2, span, 1)
		testkit.Equal(t, c.Add(at, span, 1), want, "%s after a peak", at)
	}
}

// The crest against the highest of all values of the span, which it may exceed by
// what a slot holds that is older by less than its width.
func TestCrest(t *testing.T) {
	const span = time.Minute
	rng := rand.New(rand.NewPCG(19, 20))
	var c Crest[int64]
	var times []time.Duration
	var values []int64
	now := time.Duration(0)
	for range 5000 {
		now += time.Duration(1 + rng.Int64N(int64(3*time.Second)))
		times, values = append(times, now), append(values, rng.Int64N(1000))
		got := c.Add(now, span, values[len(values)-1])
		least, most := int64(0), int64(0)
		for i := len(times) - 1; i >= 0 && times[i] > now-span-span/crestSlots; i-- {
			most = max(most, values[i])
			if times[i] > now-span+span/crestSlots {
				least = max(least, values[i])
			}
		}
		if got < least || got > most {
			t.Fatalf("at %s: %d, not in [%d, %d]", now, got, least, most)
		}
	}
}

func TestClampAndMedian(t *testing.T) {
	for x, want := range map[float64]float64{-1: 0, 0: 0, 0.3: 0.3, 1: 1, 7: 1} {
		testkit.Equal(t, Clamp(x), want, "%g, clamped", x)
	}
	zero := 0.0
	testkit.Equal(t, Clamp(zero/zero), 0, "NaN, clamped")
	for want, values := range map[float64][]float64{3: {3}, 2.5: {4, 1, 3, 2}, 5: {9, 5, 1}} {
		testkit.Equal(t, Median(values), want, "median of %v", values)
	}
}

// What an index, a division or a root would fail on is refused, and no more.
func TestChecks(t *testing.T) {
	for name, c := range map[string]struct {
		v  interface{ Check(time.Duration) bool }
		ok bool
	}{
		"a full crest":          {&Crest[Bytes]{Head: 59, Len: 60}, true},
		"a slot too far":        {&Crest[Bytes]{Head: 60}, false},
		"too many slots":        {&Crest[Bytes]{Len: 61}, false},
		"no spikes":             {&Spikes{}, true},
		"too many spike slots":  {&Spikes{Len: 13}, false},
		"no trend":              {&Trend{}, true},
		"it falls":              {&Trend{Rate: -1}, false},
		"a negative variance":   {&Trend{Variance: -1}, false},
		"a window":              {&Window{Span: time.Hour}, true},
		"a window of no length": {&Window{}, false},
		"a block":               {&Block{Moments: Moments{N: 2, Y: MaxBytes, XX: 1, XY: -5, YY: 7}}, true},
		"less than no samples":  {&Block{Moments: Moments{N: -1}}, false},
		"a negative square":     {&Block{Moments: Moments{YY: -1}}, false},
		"next to no time":       {&Block{Moments: Moments{N: 2, XX: math.SmallestNonzeroFloat64}}, false},
		"covered for too long":  {&Block{Covered: time.Hour + 1}, false},
		"a block of later":      {&Block{Moments: Moments{From: time.Hour + 1}}, false},
	} {
		testkit.Equal(t, c.v.Check(time.Hour), c.ok, "%s: whether it can be", name)
	}
}
