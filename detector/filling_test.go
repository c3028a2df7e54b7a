// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// filled runs a memory of 80 GiB, of which used tells the bytes at a second, for so many seconds,
// and returns the last judgement and when the device had a time until it is full first; -1 never.
func filled(t *testing.T, seconds int, used func(s float64) float64) (last *Judgement[int], first int) {
	t.Helper()
	d, first := newDomain(t), -1
	for s := 1; s <= seconds; s++ {
		last = observe(t, d, s, gib, map[int]float64{1: round(used(float64(s))), 2: 20 * gib})
		if v := &last.Device; v.SecondsToFull.OK && first < 0 {
			first = s
		}
	}
	return last, first
}

// TestFull has growth of several forms: the time until the memory is full is there from the fifth
// minute of growth on, and only where the crest itself grows.
func TestFull(t *testing.T) {
	const onset, rate = 1800, 100 * mib / 60.0
	grown := func(s float64) float64 { return max(0, s-onset) * rate }
	noise := rand.New(rand.NewPCG(1, 2))
	cases := []struct {
		name  string
		hours float64
		used  func(s float64) float64
		full  bool    // a time is told in the end
		rate  float64 // that it stands for
		never bool    // and it may never come
		by    int     // the last second at which it may begin
	}{
		{name: "flat", hours: 2, used: func(float64) float64 { return 10 * gib }},
		{name: "noise", hours: 2, used: func(float64) float64 { return 10*gib + noise.Float64()*gib }},
		{name: "steady", hours: 1, used: func(s float64) float64 { return 10*gib + grown(s) }, full: true, rate: rate, by: onset + 7*60 + 60},
		{name: "steps each three minutes", hours: 2, used: func(s float64) float64 {
			return 10*gib + math.Floor(grown(s)/(300*mib))*300*mib
		}, full: true, rate: rate, by: onset + 60*60},
		{name: "a sawtooth of twenty minutes", hours: 3, used: func(s float64) float64 { return 10*gib + math.Mod(s, 1200)/1200*20*gib }},
		{name: "a sawtooth of five minutes that rises", hours: 3, used: func(s float64) float64 {
			return 10*gib + math.Mod(s, 300)/300*4*gib + grown(s) // uneven: it may end
		}, full: true, rate: rate, never: true, by: onset + 70*60},
		{name: "growth that ends", hours: 1, used: func(s float64) float64 {
			return 10*gib + 20*gib*(1-math.Exp(-max(0, s-onset)/1200))
		}, full: true, rate: 20 * gib / 1200 * math.Exp(-1.35), never: true, by: onset + 7*60 + 60},
		{name: "growth that has ended", hours: 2, used: func(s float64) float64 { return 10*gib + min(grown(s), 2*gib) }},
		{name: "below an earlier crest", hours: 1, used: func(s float64) float64 {
			if s < 600 {
				return 40 * gib
			}
			return 10*gib + grown(s)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			j, first := filled(t, int(c.hours*3600), c.used)
			v := &j.Device
			if v.SecondsToFull.OK != c.full {
				t.Fatalf("a time until it is full: %v, want %v; first at %d s", v.SecondsToFull, c.full, first)
			}
			if !c.full {
				return
			}
			if first < onset+4*60 || first > c.by {
				t.Errorf("it was told first at %d s, want between %d and %d", first, onset+4*60, c.by)
			}
			near(t, "rate", j.Headroom.V/v.SecondsToFull.V, c.rate, 0.25)
			if v.FullLower.V > v.SecondsToFull.V || v.FullUpper.V < v.SecondsToFull.V {
				t.Errorf("the interval [%g, %g] is not around %g", v.FullLower.V, v.FullUpper.V, v.SecondsToFull.V)
			}
			if math.IsInf(v.FullUpper.V, 1) != c.never {
				t.Errorf("the upper end is %g; may never come: %v", v.FullUpper.V, c.never)
			}
		})
	}
}

// TestFullNamesWhoGrows has one process grow beside another: it carries the time of the memory,
// the other one none, and what owns nothing neither.
func TestFullNamesWhoGrows(t *testing.T) {
	j, _ := filled(t, 1200+430, func(s float64) float64 { return 10*gib + max(0, s-1200)*2*mib })
	v := &j.Device
	if m := &j.Members[0]; !v.SecondsToFull.OK || m.SecondsToFull != v.SecondsToFull || m.FullLower != v.FullLower || m.FullUpper != v.FullUpper {
		t.Errorf("who grows has %v, the memory %v", m.SecondsToFull, v.SecondsToFull)
	}
	if m := &j.Members[1]; m.SecondsToFull.OK || j.Residual.SecondsToFull.OK {
		t.Errorf("who does not grow has %v, what nobody owns %v", m.SecondsToFull, j.Residual.SecondsToFull)
	}
	if v.Leak {
		t.Error("the growth was called a leak already: this test shows nothing")
	}
}

// TestFullWithoutCapacity has no capacity, and a muted memory: nothing is told without the first,
// and growth is no leak, so that muting does not matter.
func TestFullWithoutCapacity(t *testing.T) {
	for _, c := range []struct {
		name           string
		capacity, mute bool
		want           bool
	}{{"both", true, false, true}, {"no capacity", false, false, false}, {"muted", true, true, true}} {
		d, err := NewDomain(func(Subject[int]) Config {
			cfg := DefaultConfig()
			cfg.Mute = c.mute
			return cfg
		})
		if err != nil {
			t.Fatal(err)
		}
		var j *Judgement[int]
		for s := range 1800 {
			f := Frame[int]{T: start + time.Duration(s)*time.Second, Used: Of(gib + float64(s)*mib), Complete: true}
			if c.capacity {
				f.Capacity = Of(80 * gib)
			}
			if j, err = look(d, &f); err != nil {
				t.Fatal(err)
			}
		}
		if got := j.Device.SecondsToFull.OK; got != c.want {
			t.Errorf("%s: a time until it is full: %v, want %v", c.name, got, c.want)
		}
	}
}
