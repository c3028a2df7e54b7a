// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"math/rand/v2"
	"testing"
)

// noises hide growth: from second to second, and such as forgets itself in half a minute (Ornstein and
// Uhlenbeck). They must be asked second by second.
var noises = map[string]func(memory func(s int) float64, seed uint64) func(s int) float64{
	"white": func(memory func(s int) float64, seed uint64) func(s int) float64 {
		rng := rand.New(rand.NewPCG(seed, 71))
		return func(s int) float64 { return memory(s) + 100*mib*rng.NormFloat64() }
	},
	"wandering": func(memory func(s int) float64, seed uint64) func(s int) float64 {
		rng, x, keep := rand.New(rand.NewPCG(seed, 92)), 0.0, math.Exp(-1.0/30)
		return func(s int) float64 {
			x = keep*x + 200*mib*math.Sqrt(1-keep*keep)*rng.NormFloat64()
			return memory(s) + x
		}
	},
}

// A leak that would fill the memory within hours and begins after 40 quiet minutes, under noise which gives
// back more than it gains in a minute or more, is told within the hour, but for a minute of all that follows, and its rate
// is right in the end.
func TestLeakIsToldUnderNoise(t *testing.T) {
	const begins = 2400
	for noise, add := range noises {
		for _, rate := range []float64{4.5, 6} { // MiB/s
			for seed := range uint64(4) {
				memory := add(func(s int) float64 { return 20*gib + rate*mib*float64(max(0, s-begins)) }, seed)
				silent := 0
				told, last := follow(t, begins+2*3600, 1, memoryOf(memory), func(s int, v *Verdict) { silent += btoi(s > begins+3600 && !v.Leak) })
				if len(told) > 3 || !told.on() || told[0] < begins || silent > 60 {
					t.Errorf("%s, %g MiB/s, seed %d: a leak from and to %v", noise, rate, seed, told)
					continue
				}
				near(t, "rate", last.Rate.V, rate*mib, 0.2)
			}
		}
	}
}

// What is under noise and no leak, is none: nothing, jobs that come, a load, traffic and epochs.
func TestNoLeakUnderNoise(t *testing.T) {
	for name, memory := range map[string]func(s int) float64{
		"nothing":        func(int) float64 { return 20 * gib },
		"one step":       func(s int) float64 { return 20*gib + gib*float64(btoi(s > 9000)) },
		"one small step": func(s int) float64 { return 20*gib + 0.4*gib*float64(btoi(s > 9000)) },
		"three steps":    func(s int) float64 { return 20*gib + gib*float64(min(3, max(0, s-3600)/3600)) },
		"a ramp":         func(s int) float64 { return 20*gib + 4*gib*share(float64(s-9000)/180) },
		"low traffic":    func(s int) float64 { return 20*gib + 0.5*gib*math.Sin(2*math.Pi*float64(s)/7200) },
		"high traffic":   func(s int) float64 { return 20*gib + 4*gib*math.Cos(2*math.Pi*float64(s)/7200) },
		"epochs":         func(s int) float64 { return 10*gib + 4*gib*float64(s%600)/600 },
	} {
		for noise, add := range noises {
			for seed := range uint64(2) {
				if told, _ := follow(t, 6*3600, 1, memoryOf(add(memory, seed)), nil); len(told) > 0 {
					t.Errorf("%s, %s noise, seed %d: a leak from and to %v", name, noise, seed, told)
				}
			}
		}
	}
}
