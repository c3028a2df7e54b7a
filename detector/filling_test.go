// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The time until the memory is full is there from the fifth minute of growth on, and only where the
// crest itself grows.
func TestFull(t *testing.T) {
	const onset, rate = 1800, 100 * mib / 60.0
	grown := func(s float64) float64 { return max(0, s-onset) * rate }
	noise := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name  string
		hours float64
		used  func(s float64) float64
		rate  float64 // that the time in the end stands for; 0 there is none
		never bool    // and it may never come
		by    int     // the last second at which it may begin
	}{
		{"flat", 2, func(float64) float64 { return 10 * gib }, 0, false, 0},
		{"noise", 2, func(float64) float64 { return 10*gib + noise.Float64()*gib }, 0, false, 0},
		{"steady", 1, func(s float64) float64 { return 10*gib + grown(s) }, rate, false, onset + 8*60},
		{"steps each three minutes", 2, func(s float64) float64 {
			return 10*gib + math.Floor(grown(s)/(300*mib))*300*mib
		}, rate, false, onset + 60*60},
		{"a sawtooth of twenty minutes", 3, func(s float64) float64 { return 10*gib + math.Mod(s, 1200)/1200*20*gib }, 0, false, 0},
		{"a sawtooth of five minutes that rises", 3, func(s float64) float64 {
			return 10*gib + math.Mod(s, 300)/300*4*gib + grown(s) // uneven: it may end
		}, rate, true, onset + 70*60},
		{"growth that ends", 1, func(s float64) float64 {
			return 10*gib + 20*gib*(1-math.Exp(-max(0, s-onset)/1200))
		}, 20 * gib / 1200 * math.Exp(-1.35), true, onset + 8*60},
		{"growth that has ended", 2, func(s float64) float64 { return 10*gib + min(grown(s), 2*gib) }, 0, false, 0},
		{"below an earlier crest", 1, func(s float64) float64 {
			if s < 600 {
				return 40 * gib
			}
			return 10*gib + grown(s)
		}, 0, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, first := newDomain(t), -1
			var j *Judgement[int]
			for s := 1; s <= int(c.hours*3600); s++ {
				j = show(t, d, frame(s, gib, proc(1, c.used(float64(s))), proc(2, 20*gib)))
				if j.Device.SecondsToFull.OK && first < 0 {
					first = s
				}
			}
			v := &j.Device
			if v.SecondsToFull.OK != (c.rate > 0) {
				t.Fatalf("a time until it is full: %v; first at %d s", v.SecondsToFull, first)
			}
			if c.rate == 0 {
				return
			}
			if first < onset+4*60 || first > c.by {
				t.Errorf("it was told first at %d s, want between %d and %d", first, onset+4*60, c.by)
			}
			near(t, "rate", j.Headroom.V/v.SecondsToFull.V, c.rate, 0.25)
			if v.FullLower.V > v.SecondsToFull.V || v.FullUpper.V < v.SecondsToFull.V || math.IsInf(v.FullUpper.V, 1) != c.never {
				t.Errorf("the interval [%g, %g] around %g; may never come: %t", v.FullLower.V, v.FullUpper.V, v.SecondsToFull.V, c.never)
			}
		})
	}
}

// A process that grows beside another carries the time of the memory, leak or not; the other one has
// none, nor has what nobody owns.
func TestFullNamesWhoGrows(t *testing.T) {
	d, seen := newDomain(t), 0
	for s := range 2400 {
		j := show(t, d, frame(s, gib, proc(1, 10*gib+float64(max(0, s-1200))*2*mib), proc(2, 20*gib)))
		v := &j.Device
		if m := &j.Members[0]; m.SecondsToFull != v.SecondsToFull || m.FullLower != v.FullLower || m.FullUpper != v.FullUpper {
			t.Fatalf("second %d: who grows has %v, the memory %v", s, m.SecondsToFull, v.SecondsToFull)
		}
		if j.Members[1].SecondsToFull.OK || j.Residual.SecondsToFull.OK {
			t.Fatalf("second %d: who does not grow has a time, or what nobody owns", s)
		}
		seen += btoi(v.SecondsToFull.OK)
	}
	if seen < 600 {
		t.Errorf("a time in %d frames only", seen)
	}
}

// Nothing is told without a capacity; and as growth need be no leak, muting does not matter.
func TestFullWithoutCapacity(t *testing.T) {
	for _, c := range []struct {
		name           string
		capacity, mute bool
	}{{"both", true, false}, {"no capacity", false, false}, {"muted", true, true}} {
		d := newDomainOf(t, func(Subject[int]) Config {
			cfg := DefaultConfig()
			cfg.Mute = c.mute
			return cfg
		})
		var j *Judgement[int]
		for s := range 1800 {
			f := frame(s, gib+float64(s)*mib)
			f.Capacity.OK = c.capacity
			j = show(t, d, f)
		}
		if got := j.Device.SecondsToFull.OK; got != c.capacity {
			t.Errorf("%s: a time until it is full: %t", c.name, got)
		}
	}
}
