// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "testing"

func TestFragmentation(t *testing.T) {
	// dip is a memory of 75 GiB that falls by so much for so many seconds at the end
	// of each period.
	dip := func(period, seconds int, by float64) func(s int) float64 {
		return func(s int) float64 {
			if s%period >= period-seconds {
				return 75*gib - by
			}
			return 75 * gib
		}
	}
	flat := func(float64) func(int) float64 { return func(int) float64 { return 0 } }(0)
	for name, c := range map[string]struct {
		memory, other func(s int) float64
		found         bool
	}{
		"empties its cache every 10 minutes":        {dip(600, 5, 30*gib), flat, true},
		"does so beside another one":                {func(s int) float64 { return dip(600, 5, 30*gib)(s) - 20*gib }, func(int) float64 { return 20 * gib }, true},
		"once":                                      {dip(3000, 5, 30*gib), flat, false},
		"less than a tenth":                         {dip(600, 5, 7*gib), flat, false},
		"stays away, as in an evaluation":           {dip(1200, 300, 30*gib), flat, false},
		"never full":                                {func(s int) float64 { return dip(600, 5, 30*gib)(s) - 8*gib }, flat, false},
		"epochs that end at the top":                {func(s int) float64 { return 20*gib + float64(s%100)/100*58*gib }, flat, false},
		"long epochs that end at the top":           {func(s int) float64 { return 20*gib + float64(s%900)/900*58*gib }, flat, false},
		"crowded GPU, small epochs":                 {func(s int) float64 { return float64(s%200) / 200 * 14 * gib }, func(int) float64 { return 65 * gib }, false},
		"another one falls":                         {func(int) float64 { return 45 * gib }, func(s int) float64 { return dip(600, 5, 20*gib)(s) - 45*gib }, false},
		"flat at the top, as a server that has all": {func(int) float64 { return 78 * gib }, flat, false},
		"a cache is emptied while there is room":    {func(s int) float64 { return dip(600, 5, 30*gib)(s) - 30*gib }, flat, false},
	} {
		t.Run(name, func(t *testing.T) {
			patterns := watch(t, 4000, func(s int) []Member[int] {
				return []Member[int]{{Key: 0, Used: Of(round(c.memory(s))), Started: start}, {Key: 1, Used: Of(round(c.other(s))), Started: start}}
			})
			if at := first(patterns, PatternFragmentation); (at >= 0) != c.found {
				t.Errorf("fragmentation from second %d on", at)
			}
		})
	}
}

// The pattern goes when there have been no two flushes in the longest window.
func TestFragmentationEnds(t *testing.T) {
	patterns := watch(t, 8000, func(s int) []Member[int] {
		used := 75.0 * gib
		if s < 2000 && s%600 > 595 {
			used = 40 * gib
		}
		return []Member[int]{{Key: 0, Used: Of(used), Started: start}}
	})
	if last := 2*600 - 4 + 3600; patterns[last] != "fragmentation" || patterns[last+1] == "fragmentation" {
		t.Errorf("%q, then %q", patterns[last], patterns[last+1])
	}
}

// What leaks is a leak, whatever its allocator did before.
func TestLeakIsNoFragmentation(t *testing.T) {
	memory := func(s int) float64 {
		if s < 1300 && s%600 > 595 {
			return 40 * gib
		}
		return 75*gib + float64(max(0, s-1300))*mib
	}
	patterns := watch(t, 3500, func(s int) []Member[int] {
		return []Member[int]{{Key: 0, Used: Of(round(memory(s))), Started: start}}
	})
	if patterns[1400] != "fragmentation" || patterns[3499] != "leak_linear" {
		t.Errorf("%q before the leak, %q while it lasts", patterns[1400], patterns[3499])
	}
}

// Without a list of processes nobody knows whose memory fell.
func TestFragmentationNeedsMembers(t *testing.T) {
	d := newDomain(t)
	for s := range 3000 {
		f := Frame[int]{T: seconds2026(s), Used: Of(75 * gib), Capacity: Of(80 * gib)}
		if s%600 > 595 {
			f.Used = Of(40 * gib)
		}
		if j, err := look(d, &f); err != nil || j.Device.Pattern == PatternFragmentation {
			t.Fatalf("second %d: %s %v", s, j.Device.Pattern, err)
		}
	}
}
