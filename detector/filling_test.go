// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// What foretells that the memory will be full is there from the fifth minute of growth on, and only where the crest itself
// grows; a leak foretells it, too, once it is known.
func TestFull(t *testing.T) {
	const onset, rate = 1800, 100 * mib / 60.0
	grown := func(s float64) float64 { return max(0, s-onset) * rate }
	noise := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name  string
		hours float64
		used  func(s float64) float64
		ends  Evidence
		rate  float64 // that the time in the end stands for
		never bool    // it may never come
		by    int     // the last second at which it may be told first
	}{
		{"flat", 2, func(float64) float64 { return 10 * gib }, EvidenceNone, 0, false, 0},
		{"noise", 2, func(float64) float64 { return 10*gib + noise.Float64()*gib }, EvidenceNone, 0, false, 0},
		{"steady", 1, func(s float64) float64 { return 10*gib + grown(s) }, EvidenceLeak, rate, false, onset + 8*60},
		{"steps each three minutes", 2, func(s float64) float64 {
			return 10*gib + math.Floor(grown(s)/(300*mib))*300*mib
		}, EvidenceLeak, rate, false, onset + 60*60},
		{"a sawtooth of twenty minutes", 3, func(s float64) float64 { return 10*gib + math.Mod(s, 1200)/1200*20*gib }, EvidenceNone, 0, false, 0},
		{"a sawtooth of five minutes that rises", 3, func(s float64) float64 {
			return 10*gib + math.Mod(s, 300)/300*4*gib + grown(s)
		}, EvidenceLeak, rate, false, onset + 70*60},
		{"growth that ends", 1, func(s float64) float64 {
			return 10*gib + 20*gib*(1-math.Exp(-max(0, s-onset)/1200))
		}, EvidenceFilling, 20 * gib / 1200 * math.Exp(-1.35), true, onset + 8*60},
		{"growth that has ended", 2, func(s float64) float64 { return 10*gib + min(grown(s), 2*gib) }, EvidenceNone, 0, false, 0},
		{"below an earlier crest", 1, func(s float64) float64 {
			if s < 600 {
				return 40 * gib
			}
			return 10*gib + grown(s)
		}, EvidenceNone, 0, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, first := newDomain(t), -1
			var j *Judgement[int]
			for s := 1; s <= int(c.hours*3600); s++ {
				j = show(t, d, frame(s, gib, proc(1, c.used(float64(s))), proc(2, 20*gib)))
				if j.Evidence != EvidenceNone && first < 0 {
					first = s
				}
				if finite := j.Device.SecondsToOOM.OK && !math.IsInf(j.Device.SecondsToOOM.V, 1); finite != (j.Evidence != EvidenceNone) || finite != j.Rate.OK {
					t.Fatalf("second %d: full in %g s at %v, evidence %q", s, j.Device.SecondsToOOM.V, j.Rate, j.Evidence)
				}
				if j.Evidence != EvidenceNone && c.by == onset+8*60 {
					namesWhoGrows(t, s, j)
				}
			}
			v := &j.Device
			if j.Evidence != c.ends {
				t.Fatalf("evidence %q; first at %d s", j.Evidence, first)
			}
			if c.rate == 0 {
				return
			}
			if first < onset+4*60 || first > c.by {
				t.Errorf("it was told first at %d s, want between %d and %d", first, onset+4*60, c.by)
			}
			near(t, "rate", j.Rate.V, c.rate, 0.25)
			near(t, "headroom over rate", j.Headroom.V/j.Rate.V, v.SecondsToOOM.V, 1e-9)
			if v.Lower.V > v.SecondsToOOM.V || v.Upper.V < v.SecondsToOOM.V || math.IsInf(v.Upper.V, 1) != c.never {
				t.Errorf("the interval [%g, %g] around %g; may never come: %t", v.Lower.V, v.Upper.V, v.SecondsToOOM.V, c.never)
			}
		})
	}
}

// namesWhoGrows checks that the first process, which grows, carries the time of the memory, leak or not, and that the second one and
// what nobody owns never end.
func namesWhoGrows(t *testing.T, s int, j *Judgement[int]) {
	t.Helper()
	v, m, other, rest := &j.Device, &j.Members[0], &j.Members[1], &j.Residual
	if m.SecondsToOOM != v.SecondsToOOM || m.Lower != v.Lower || m.Upper != v.Upper || !math.IsInf(other.SecondsToOOM.V, 1) || !math.IsInf(rest.SecondsToOOM.V, 1) {
		t.Fatalf("second %d: the memory ends in %v, who grows in %v, the other one in %v, the rest in %v", s, v.SecondsToOOM, m.SecondsToOOM, other.SecondsToOOM, rest.SecondsToOOM)
	}
}

// Somebody is woken for a leak that has filled the memory within Config.PageWithin, and for what fills it within
// Config.FillsWithin and does not slow down. The page goes on until the memory is full.
func TestPages(t *testing.T) {
	const begins = 1800
	grows := func(rate float64) func(s int) float64 { // MiB/s
		return func(s int) float64 { return 20*gib + rate*mib*float64(max(0, s-begins)) }
	}
	for _, c := range []struct {
		name   string
		memory func(s int) float64
		change func(*Config)
		pages  bool
		within float64 // s before the memory is full
		why    Evidence
	}{
		{"a leak", grows(4), nil, true, 3600, EvidenceLeak},
		{"as late as that is asked for", grows(4), func(c *Config) { c.PageWithin, c.FillsWithin = 10*time.Minute, 0 }, true, 600, EvidenceLeak},
		{"nobody is ever woken", grows(4), func(c *Config) { c.PageWithin, c.FillsWithin = 0, 0 }, false, 0, EvidenceNone},
		{"growth that nobody may call a leak", grows(20), func(c *Config) { c.Mute = true }, true, 900, EvidenceFilling},
		{"it slows down, and ends below", func(s int) float64 { return 20*gib + exp(max(0, s-begins), 52, 2400) }, nil, false, 0, EvidenceNone},
		{"the same, so fast that a line is full soon", func(s int) float64 { return 20*gib + exp(max(0, s-begins), 42, 600) }, func(c *Config) { c.Mute = true }, false, 0, EvidenceNone},
		{"a leak with hours to go", grows(1), nil, false, 0, EvidenceNone},
	} {
		d := newDomainOf(t, func(Subject[int]) Config {
			cfg := DefaultConfig()
			if c.change != nil {
				c.change(&cfg)
			}
			return cfg
		})
		var pages toggles
		var first Judgement[int]
		for s := 0; s < 6*3600 && c.memory(s) < 79*gib; s += 5 {
			j := show(t, d, frame(s, 0, proc(1, c.memory(s))))
			if j.Page && len(pages) == 0 {
				first = *j
			}
			pages.note(s, j.Page)
		}
		if !c.pages && len(pages) > 0 || c.pages && (len(pages) != 1 || first.Evidence != c.why) {
			t.Errorf("%s: a page from and to %v, by evidence %q", c.name, pages, first.Evidence)
		}
		if eta := first.Device.SecondsToOOM.V; c.pages && (eta >= c.within || eta < 0.6*c.within) {
			t.Errorf("%s: paged %g s before the memory is full", c.name, eta)
		}
	}
}
