// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"math"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
)

// mb is the MB of rates.
const mb = 1e6

// leakFamilies are the families with a leak: shapes of a leak over the memory that
// a program needs besides.
var leakFamilies = []exams.Family[*plan]{
	{Kind: "linear", Count: 3, Build: over(nil, leakLinear, 0.8, 15)},
	{Kind: "linear slow", Count: 5, Build: over(nil, leakLinear, 0.15, 0.9)},
	{Kind: "from start", Count: 4, Build: fromStart},
	{Kind: "small stairs", Count: 2, Build: over(nil, leakStairs, 0.8, 15)},
	{Kind: "small stairs slow", Count: 3, Build: over(nil, leakStairs, 0.1, 0.8)},
	{Kind: "large stairs", Count: 5, Build: over(nil, leakLargeStairs, 0.5, 10)},
	{Kind: "with traffic", Count: 9, Build: over(nil, leakTraffic, 0.6, 12)},
	{Kind: "with traffic slow", Count: 5, Build: over(nil, leakTraffic, 0.1, 0.9)},
	{Kind: "in bursts", Count: 3, Build: over(nil, leakBursts, 0.5, 10)},
	{Kind: "accelerating", Count: 8, Build: over(nil, leakAccelerating, 0.4, 10)},
	{Kind: "linear in training", Count: 2, Build: over(inTraining, leakLinear, 0.3, 10)},
	{Kind: "traffic in training", Count: 7, Build: over(inTraining, leakTraffic, 0.2, 6)},
	{Kind: "stairs in epochs", Count: 2, Build: over(inEpochs, leakStairs, 1, 15)},
	{Kind: "bursts in epochs", Count: 4, Build: over(inEpochs, leakBursts, 1, 15)},
	{Kind: "linear in serving", Count: 2, Build: over(inServing, leakLinear, 1, 15)},
	{Kind: "stairs in serving", Count: 2, Build: over(inServing, leakStairs, 1, 15)},
	{Kind: "traffic in serving", Count: 5, Build: over(inServing, leakTraffic, 1, 15)},
	{Kind: "linear under sawtooth", Count: 3, Build: over(inSawtooth, leakLinear, 2, 15)},
	{Kind: "traffic under sawtooth", Count: 2, Build: over(inSawtooth, leakTraffic, 2, 15)},
	{Kind: "linear under noise", Count: 2, Build: over(inNoise, leakLinear, 1, 15)},
	{Kind: "over high water", Count: 2, Build: over(inHighWater, leakLinear, 0.8, 15)},
}

// over returns a family: a background, and a leak with a rate in MB/s. A leak that is
// full within minutes would be a crash, and nobody's to foretell.
func over(background func(p *plan), leak func(p *plan, rate float64), slowest, fastest float64) func(p *plan) {
	return func(p *plan) {
		p.begin(0.2, 0.7)
		p.steady = background == nil
		if background != nil {
			background(p)
		}
		p.rate = min(p.About(slowest, fastest)*mb, (p.ceiling-p.crest)/p.Between(1800, 3600))
		leak(p, p.rate)
	}
}

// begin begins a leaky series: a program that holds level. It was there before
// the series mostly.
func (p *plan) begin(a, b float64) {
	level := p.share(a, b)
	p.crest = level
	p.length = p.Between(6, 10) * 3600
	p.onset = p.Between(1200, 5400)
	if p.Chance(0.8) {
		p.add(constant(level))
		return
	}
	context := p.Between(0.3, 0.6) * gib
	p.add(constant(context), ramp(p.Between(5, 60), p.About(20, 120), max(level-context, 0), 8+p.IntN(60)))
}

// leakLinear leaks a little with each of many small steps.
func leakLinear(p *plan, rate float64) {
	p.leak = func(x float64) float64 { return rate * x }
}

// leakStairs leaks a segment of the allocator at a time, of 20 MiB mostly: by
// chance, or regularly.
func leakStairs(p *plan, rate float64) {
	p.stairs(rate, p.Pick([]float64{4, 20, 20, 20, 40, 64})*mib, p.Chance(0.3))
}

// leakLargeStairs leaks a batch or a model's copy at a time. Few steps tell little.
func leakLargeStairs(p *plan, rate float64) {
	p.steady = false
	p.stairs(rate, p.About(200, 1000)*mib, p.Chance(0.5))
}

// stairs leaks step bytes at a time, at the mean rate; by chance or regularly.
func (p *plan) stairs(rate, step float64, regular bool) {
	gap := step / rate
	sum, next := 0.0, 0.0
	p.leak = func(x float64) float64 {
		for x >= next {
			sum += step
			if regular {
				next += gap * p.Between(0.9, 1.1)
			} else {
				next += gap * p.ExpFloat64()
			}
		}
		return sum
	}
}

// leakTraffic leaks with each request: as fast as the traffic, which varies over
// minutes.
func leakTraffic(p *plan, rate float64) {
	p.steady = false
	tau, sigma := p.About(90, 1200), p.Between(0.5, 1.1)
	x, last, sum := p.NormFloat64(), 0.0, 0.0
	p.leak = func(t float64) float64 {
		a := math.Exp(-(t - last) / tau)
		x = a*x + math.Sqrt(1-a*a)*p.NormFloat64()
		sum += rate * (t - last) * math.Exp(sigma*x-sigma*sigma/2)
		last = t
		return sum
	}
}

// leakAccelerating leaks with each turn of sessions that add up themselves: from a
// part of the mean rate on, ever faster.
func leakAccelerating(p *plan, rate float64) {
	p.steady = false
	room, first := p.ceiling-p.crest, p.Between(0.2, 0.7)
	p.leak = func(x float64) float64 {
		u := rate * x / room
		return room * u * (first + (1-first)*u)
	}
}

// leakBursts leaks while a batch of work runs, and not between batches.
func leakBursts(p *plan, rate float64) {
	p.steady = false
	period, duty := p.About(200, 1500), p.Between(0.2, 0.7)
	p.leak = func(x float64) float64 {
		n, part := math.Modf(x / period)
		return rate * period * (n + min(part/duty, 1))
	}
}

// fromStart leaks from its first minute on: the series begins with the program,
// and the device is used by it alone.
func fromStart(p *plan) {
	p.length = p.Between(6, 10) * 3600
	p.add(constant(p.share(0.1, 0.4)))
	p.onset = math.Ceil(p.Between(0, 60)/p.interval) * p.interval
	p.fromStart, p.steady = true, true
	p.rate = p.About(0.8, 15) * mb
	leakLinear(p, p.rate)
}

// inTraining has jitter of up to 40 MiB.
func inTraining(p *plan) {
	p.steady = true
	p.add(p.jitter(1 + p.IntN(20)))
}

// inEpochs needs more at the end of each epoch.
func inEpochs(p *plan) {
	more := p.more(0.01, 0.08)
	p.add(p.epochs(p.About(120, 1800), p.Between(0.05, 0.25), more), p.jitter(1+p.IntN(4)))
}

// inServing has a KV cache whose load hides the first minutes of a leak.
func inServing(p *plan) {
	p.add(p.serving(p.more(0.008, 0.06)/5, p.About(20, 300)))
}

// inSawtooth collects its garbage, or ends a batch, after half a minute to ten.
func inSawtooth(p *plan) {
	spread := p.Between(0, 0.15)
	height := p.more(0.04, 0.17) / (1 + spread)
	p.add(p.sawtooth(p.About(30, 600), height, spread, p.Between(0, 0.3)))
}

// inNoise has short requests, of which each sample sees others.
func inNoise(p *plan) {
	p.add(p.noise(p.more(0.01, 0.1) / 3))
}

// inHighWater has an allocator whose reserve still grows now and then.
func inHighWater(p *plan) {
	p.onset = p.Between(2, 4) * 3600
	p.add(p.highWater(p.About(1, 60), p.more(0.05, 0.16)/2, p.Between(0.1, 0.25)))
}

// more returns from a to b of the capacity, by which the background may rise.
func (p *plan) more(a, b float64) float64 {
	v := p.share(a, b)
	p.crest += v
	return v
}
