// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"math"
	"math/rand/v2"
	"time"
)

// u draws from [lo, hi), each value as likely as any other.
func (w *world) u(lo, hi float64) float64 { return lo + (hi-lo)*w.r.Float64() }

// logu draws from [lo, hi), each factor as likely as any other.
func (w *world) logu(lo, hi float64) float64 { return lo * math.Pow(hi/lo, w.r.Float64()) }

// span draws a time, each factor as likely as any other.
func (w *world) span(lo, hi time.Duration) time.Duration {
	return time.Duration(w.logu(float64(lo), float64(hi)))
}

// around draws a time within half and twice of d.
func (w *world) around(d time.Duration) time.Duration { return w.span(d/2, 2*d) }

// wait draws the time until the next of events that come at random, d apart on average.
func (w *world) wait(d time.Duration) time.Duration {
	return max(time.Millisecond, time.Duration(w.r.ExpFloat64()*float64(d)))
}

// n draws a whole number from lo to hi.
func (w *world) n(lo, hi int) int { return lo + w.r.IntN(hi-lo+1) }

// chance reports true with probability p.
func (w *world) chance(p float64) bool { return w.r.Float64() < p }

// share draws a part of the memory of a domain, in bytes.
func (w *world) share(lo, hi float64) uint64 {
	return uint64(w.u(lo, hi) * float64(w.domains[0].dev.Capacity()))
}

// unused draws what recordings have and no rule reads, each time one of so many values. It is not kept, but what comes after it
// stays the scenario that was published.
func (w *world) unused(values ...int) {
	for _, n := range values {
		w.r.IntN(n)
	}
}

// poisson draws how many of events that come at random happen where mean are expected.
func poisson(r *rand.Rand, mean float64) int {
	if mean > 50 { // close to a normal distribution
		return max(0, int(math.Round(mean+math.Sqrt(mean)*r.NormFloat64())))
	}
	n, p := 0, r.Float64()
	for limit := math.Exp(-mean); p > limit; n++ {
		p *= r.Float64()
	}
	return n
}

// pick draws one of the values.
func pick[T any](w *world, values ...T) T { return values[w.r.IntN(len(values))] }

// lengths is a distribution of the lengths of inputs, relative to the longest that a program takes: it returns the length (0 to
// 1) below which a share u (0 to 1) of them lies.
type lengths func(u float64) float64

// fixed says that all inputs are padded to one length.
func fixed(float64) float64 { return 1 }

// lognormal is how the lengths of texts are spread: the middle one is median, a standard deviation is the factor e^sigma, and the
// longest are cut.
func lognormal(median, sigma float64) lengths {
	return func(u float64) float64 {
		return min(1, median*math.Exp(sigma*math.Sqrt2*math.Erfinv(2*u-1)))
	}
}

// longest draws the longest of n inputs.
func (l lengths) longest(r *rand.Rand, n int) float64 {
	u := math.Pow(r.Float64(), 1/float64(max(n, 1)))
	return l(min(max(u, 1e-9), 1-1e-9))
}

// traffic is how many requests come in the course of days.
type traffic struct {
	mean  float64 // requests per second over a day
	swing float64 // 0 is the same all day, 1 is none at the quietest hour
	peak  time.Duration
	noise float64 // standard deviation of the logarithm of the rate over minutes
	x     float64 // where the noise stands
	at    time.Duration
}

// traffic draws one of mean requests per second.
func (w *world) traffic(lo, hi float64) *traffic {
	return &traffic{
		mean: w.logu(lo, hi), swing: w.u(0.1, 0.95), noise: w.u(0.05, 0.4),
		peak: time.Duration(w.u(9, 21) * float64(time.Hour)),
	}
}

// calm is the time over which traffic forgets its noise.
const calm = 10 * time.Minute

// rate returns the requests per second now.
func (t *traffic) rate(w *world) float64 {
	old := math.Exp(-float64(w.now-t.at) / float64(calm))
	t.x = t.x*old + math.Sqrt(max(0, 1-old*old))*t.noise*w.r.NormFloat64()
	t.at = w.now
	return t.mean * t.day(w) * math.Exp(t.x-t.noise*t.noise/2)
}

// day returns the part of the daily curve now, 1 on average.
func (t *traffic) day(w *world) float64 {
	return 1 + t.swing*math.Cos(2*math.Pi*float64(w.clock()-t.peak)/float64(24*time.Hour))
}
