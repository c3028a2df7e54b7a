// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "testing"

// dips is a memory of 75 GiB that falls by so much for so many seconds at the end of each period.
func dips(period, seconds int, by float64) func(s int) float64 {
	return func(s int) float64 { return 75*gib - by*float64(btoi(s%period >= period-seconds)) }
}

func TestFragmentation(t *testing.T) {
	constant := func(held float64) func(int) float64 { return func(int) float64 { return held } }
	less := func(f func(int) float64, by float64) func(int) float64 {
		return func(s int) float64 { return f(s) - by }
	}
	for name, c := range map[string]struct {
		memory, other func(s int) float64
		found         bool
	}{
		"empties its cache every 10 minutes":        {dips(600, 5, 30*gib), constant(0), true},
		"does so beside another one":                {less(dips(600, 5, 30*gib), 20*gib), constant(20 * gib), true},
		"once":                                      {dips(3000, 5, 30*gib), constant(0), false},
		"less than a tenth":                         {dips(600, 5, 7*gib), constant(0), false},
		"stays away, as in an evaluation":           {dips(1200, 300, 30*gib), constant(0), false},
		"never full":                                {less(dips(600, 5, 30*gib), 8*gib), constant(0), false},
		"epochs that end at the top":                {func(s int) float64 { return 20*gib + float64(s%100)/100*58*gib }, constant(0), false},
		"long epochs that end at the top":           {func(s int) float64 { return 20*gib + float64(s%900)/900*58*gib }, constant(0), false},
		"crowded GPU, small epochs":                 {func(s int) float64 { return float64(s%200) / 200 * 14 * gib }, constant(65 * gib), false},
		"another one falls":                         {constant(45 * gib), less(dips(600, 5, 20*gib), 45*gib), false},
		"flat at the top, as a server that has all": {constant(78 * gib), constant(0), false},
		"a cache is emptied while there is room":    {less(dips(600, 5, 30*gib), 30*gib), constant(0), false},
	} {
		patterns := patternsOf(t, 4000, func(s int) []Member[int] { return []Member[int]{proc(0, c.memory(s)), proc(1, c.other(s))} })
		if at := first(patterns, PatternFragmentation); (at >= 0) != c.found {
			t.Errorf("%s: fragmentation from second %d on", name, at)
		}
	}
}

// The pattern goes when there have been no two flushes in the longest window.
func TestFragmentationEnds(t *testing.T) {
	patterns := patternsOf(t, 8000, func(s int) []Member[int] { return []Member[int]{proc(0, dips(600, 4, 35*gib)(min(s, 1999)))} })
	if last := 2*600 - 4 + 3600; patterns[last] != PatternFragmentation || patterns[last+1] == PatternFragmentation {
		t.Errorf("%s, then %s", patterns[last], patterns[last+1])
	}
}

// What leaks is a leak, whatever its allocator did before.
func TestLeakIsNoFragmentation(t *testing.T) {
	patterns := patternsOf(t, 3500, func(s int) []Member[int] {
		return []Member[int]{proc(0, dips(600, 4, 35*gib)(min(s, 1300))+float64(max(0, s-1300))*mib)}
	})
	if patterns[1400] != PatternFragmentation || patterns[3499] != PatternLeakLinear {
		t.Errorf("%s before the leak, %s while it lasts", patterns[1400], patterns[3499])
	}
}

// Without a list of processes nobody knows whose memory fell.
func TestFragmentationNeedsMembers(t *testing.T) {
	d := newDomain(t)
	for s := range 3000 {
		f := frame(s, dips(600, 4, 35*gib)(s))
		f.Complete = false
		if j := show(t, d, f); j.Device.Pattern == PatternFragmentation {
			t.Fatalf("second %d", s)
		}
	}
}
