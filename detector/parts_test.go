// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestSpikes(t *testing.T) {
	const mib = 1 << 20
	flat := func(n int, level int64) []int64 {
		s := make([]int64, n)
		for i := range s {
			s[i] = level * mib
		}
		return s
	}
	join := func(parts ...[]int64) (all []int64) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	ramp := func(n int, from, step int64) []int64 {
		s := make([]int64, n)
		for i := range s {
			s[i] = (from + int64(i)*step) * mib
		}
		return s
	}
	for _, c := range []struct {
		name string
		ys   []int64
		want int
	}{
		{"flat", flat(300, 1000), 0},
		{"one sample up and back", join(flat(60, 1000), flat(1, 1200), flat(60, 1000)), 1},
		{"half a minute", join(flat(60, 1000), flat(30, 1200), flat(60, 1000)), 1},
		{"too low", join(flat(60, 1000), flat(5, 1063), flat(60, 1000)), 0},
		{"stays: a step", join(flat(60, 1000), flat(90, 1200), flat(60, 1200)), 0},
		{"stays two minutes, then falls", join(flat(60, 1000), flat(120, 1200), flat(60, 1000)), 0},
		{"falls to a quarter of its height", join(flat(60, 1000), flat(5, 1400), flat(200, 1100)), 1},
		{"falls not far enough", join(flat(60, 1000), flat(5, 1400), flat(200, 1101)), 0},
		{"three", join(flat(60, 1000), flat(5, 1200), flat(20, 1000), flat(5, 1200), flat(20, 1000), flat(5, 1300), flat(20, 1000)), 3},
		{"slow sawtooth", join(ramp(120, 1000, 10), ramp(120, 1000, 10), ramp(120, 1000, 10)), 0},
		{"ends far below its beginning", join(flat(60, 1000), flat(5, 1200), flat(60, 500)), 0},
		{"steady growth", ramp(600, 1000, 1), 0},
		{"from the first sample on", flat(3, 1), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s spikeCounter
			got := 0
			for i, y := range c.ys {
				if s.add(int64(i)*1e9, y, 60e9, 64*mib) {
					got++
				}
			}
			if got != c.want {
				t.Errorf("%d spikes, want %d", got, c.want)
			}
		})
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
		if got := c.Add(at, span, 1); got != want {
			t.Errorf("%s after a peak: %d, want %d", at, got, want)
		}
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
