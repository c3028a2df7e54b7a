// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"testing"
	"time"
)

// TestWithheld has growth that is no leak yet: the reason is told, and the time that it says is
// what it takes.
func TestWithheld(t *testing.T) {
	const quiet = 1800
	cases := []struct {
		name   string
		begins float64 // second at which the growth begins
		rate   float64 // bytes per second
		base   float64
		sm     float64
		want   Withheld
		at     int // the second at which the reason is looked at
	}{
		{"it has not lasted", quiet, 50 * mib / 60, 10 * gib, 0.5, WithheldMinSpan, quiet + 240},
		{"a ramp of load", quiet, 1024 * mib / 60, 10 * gib, 0.5, WithheldLoadRamp, quiet + 240},
		{"the begin of a program", 0, 400 * mib / 60, 2 * gib, 0.5, WithheldProgramBegin, 900},
		{"a program that loads", 0, 20 * mib, 0.25 * gib, 0, WithheldProgramLoad, 240 + 120},
		{"it computes while it fills", 0, 20 * mib, 0.25 * gib, 0.5, WithheldProgramBegin, 240 + 120},
		{"a daily load", 0, 0, 10 * gib, 0.5, WithheldDailyLoad, 3 * 3600},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			d := newDomain(t)
			var seen Verdict
			found := 0
			for s := 1; s < 30*3600 && found == 0; s++ {
				used := round(c.base + max(0, float64(s)-c.begins)*c.rate)
				if c.want == WithheldDailyLoad {
					used = round(c.base + 10*gib*(1-math.Cos(2*math.Pi*float64(s)/86400)))
				}
				if used > 78*gib {
					break
				}
				f := Frame[int]{T: start + time.Duration(s)*time.Second, Used: Of(used), Capacity: Of(80 * gib), Complete: true}
				f.Members = []Member[int]{{Key: 1, Used: Of(used), Started: start, SM: Of(c.sm)}}
				j, err := look(d, &f)
				if err != nil {
					t.Fatal(err)
				}
				v := &j.Members[0].Verdict
				if v.Leak {
					found = s
				}
				if s == c.at {
					seen = *v
					if d := &j.Device; d.Withheld != v.Withheld || d.WithheldFor != v.WithheldFor || d.Lasted != v.Lasted {
						t.Errorf("the device says %s, its process %s", d.Withheld, v.Withheld)
					}
				}
				if v.Withheld == WithheldNone && v.Lasted != 0 {
					t.Fatalf("second %d: nothing is withheld, and lasted for %s", s, v.Lasted)
				}
				if v.Leak && v.Withheld != WithheldNone {
					t.Fatalf("second %d: a leak is withheld because of %s", s, v.Withheld)
				}
			}
			if seen.Withheld != c.want || seen.WithheldFor <= 0 {
				t.Fatalf("withheld because of %q for %s, want %q", seen.Withheld, seen.WithheldFor, c.want)
			}
			lasted := time.Duration(float64(c.at)-c.begins) * time.Second
			if d := lasted - seen.Lasted; seen.Lasted <= 0 || d < -time.Minute || d > max(2*time.Minute, lasted/3) {
				t.Errorf("it says that it has lasted for %s; it began %s ago", seen.Lasted, lasted)
			}
			if found == 0 {
				return // the memory was full before
			}
			told := time.Duration(found-c.at) * time.Second
			if d := told - seen.WithheldFor; d < -5*time.Minute || d > max(5*time.Minute, told/2) {
				t.Errorf("it said that it takes %s; it took %s", seen.WithheldFor, told)
			}
		})
	}
}

// TestWithheldNothing has memory in which nothing is suspected.
func TestWithheldNothing(t *testing.T) {
	for name, used := range map[string]func(s int) float64{
		"flat":     func(int) float64 { return 10 * gib },
		"sawtooth": func(s int) float64 { return 10*gib + float64(s%300)*10*mib },
	} {
		d := newDomain(t)
		for s := 1; s < 7200; s++ {
			if v := observe(t, d, s, 512*mib, map[int]float64{1: round(used(s))}).Members[0].Verdict; s > 3600 && v.Withheld != WithheldNone {
				t.Fatalf("%s: second %d: withheld because of %s", name, s, v.Withheld)
			}
		}
	}
}
