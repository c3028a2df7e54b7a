// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"testing"
	"time"
)

// Of growth that is no leak yet the reason is told, and the time that it says is what it takes.
func TestWithheld(t *testing.T) {
	const quiet = 1800
	for _, c := range []struct {
		name             string
		begins           float64 // second at which the growth begins
		rate, base, busy float64 // bytes per second, bytes, utilisation
		want             Withheld
		at               int // the second at which the reason is looked at
	}{
		{"it has not lasted", quiet, 50 * mib / 60, 10 * gib, 0.5, WithheldMinSpan, quiet + 240},
		{"the begin of a program", 0, 400 * mib / 60, 2 * gib, 0.5, WithheldProgramBegin, 900},
		{"it computes while it fills", 0, 20 * mib, 0.25 * gib, 0.5, WithheldProgramBegin, 240 + 120},
		{"a daily load", 0, 0, 10 * gib, 0.5, WithheldDailyLoad, 3 * 3600},
	} {
		d, seen, found := newDomain(t), Verdict{}, 0
		for s := 1; s < 30*3600 && found == 0; s += 2 {
			used := c.base + max(0, float64(s)-c.begins)*c.rate
			if c.want == WithheldDailyLoad {
				used = c.base + 10*gib*(1-math.Cos(2*math.Pi*float64(s)/86400))
			}
			if used > 78*gib {
				break
			}
			m := proc(1, used)
			m.Started, m.SM = start, Of(c.busy)
			j := show(t, d, frame(s, 0, m))
			v := &j.Members[0].Verdict
			if v.Leak {
				found = s
			}
			if s == c.at+1 {
				seen = *v
			}
			if d := &j.Device; !v.Leak && (d.Withheld != v.Withheld || d.WithheldFor != v.WithheldFor || d.Lasted != v.Lasted) {
				t.Errorf("%s: the device says %s, its process %s", c.name, d.Withheld, v.Withheld)
			}
			if v.Withheld == WithheldNone && v.Lasted != 0 || v.Leak && v.Withheld != WithheldNone {
				t.Fatalf("%s: second %d: a leak: %t, withheld because of %q, lasted for %s", c.name, s, v.Leak, v.Withheld, v.Lasted)
			}
		}
		if seen.Withheld != c.want || seen.WithheldFor <= 0 {
			t.Fatalf("%s: withheld because of %q for %s, want %q", c.name, seen.Withheld, seen.WithheldFor, c.want)
		}
		lasted := time.Duration(float64(c.at)-c.begins) * time.Second
		if d := lasted - seen.Lasted; seen.Lasted <= 0 || d < -time.Minute || d > max(2*time.Minute, lasted/3) {
			t.Errorf("%s: it says that it has lasted for %s; it began %s ago", c.name, seen.Lasted, lasted)
		}
		if found == 0 {
			continue // the memory was full before
		}
		told := time.Duration(found-c.at) * time.Second
		if d := told - seen.WithheldFor; d < -5*time.Minute || d > max(5*time.Minute, told/2) {
			t.Errorf("%s: it said that it takes %s; it took %s", c.name, seen.WithheldFor, told)
		}
	}
}
