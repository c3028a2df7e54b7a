// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package layers

import "github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"

// healthyFamilies are the families without a leak.
var healthyFamilies = []exams.Family[*plan]{
	{Kind: "constant", Count: 17, Build: flat},
	{Kind: "training", Count: 2, Build: training},
	{Kind: "epochs with evaluation", Count: 9, Build: evaluation},
	{Kind: "spikes", Count: 9, Build: spiky},
	{Kind: "sawtooth", Count: 8, Build: teeth},
	{Kind: "restarts", Count: 5, Build: restarting},
	{Kind: "long straight load", Count: 8, Build: longLoad},
	{Kind: "cache fill", Count: 3, Build: cacheFill},
	{Kind: "load ramp", Count: 3, Build: loadRamp},
	{Kind: "warm-up", Count: 14, Build: warming},
	{Kind: "steps", Count: 12, Build: stepping},
	{Kind: "allocator high water", Count: 6, Build: watermark},
	{Kind: "growing epochs", Count: 10, Build: growing},
	{Kind: "serving", Count: 3, Build: serve},
	{Kind: "slow serving", Count: 5, Build: serveSlow},
	{Kind: "daily load", Count: 4, Build: day},
	{Kind: "shared card", Count: 2, Build: shared},
}

// start begins a healthy series: the program holds level in the end. Few of these
// series begin with their program, of which the load is then seen.
func (p *plan) start(level float64) { p.load(level, 0.12) }

// server begins a series with a server, of which mostly the load is seen.
func (p *plan) server(level float64) { p.load(level, 0.9) }

// load begins a series with the load of a model, which takes up to a quarter of an
// hour, with probability q; otherwise it is over.
func (p *plan) load(level, q float64) {
	if !p.Chance(q) {
		p.add(constant(level))
		return
	}
	context := min(p.Between(0.3, 0.6)*gib, level)
	p.add(constant(context),
		ramp(p.Between(5, 60), p.About(240, 900), level-context, 8+p.IntN(60)))
}

// later returns a part that begins with the first work, which may come a while
// after the begin of the series.
func (p *plan) later(f part) part {
	if p.Chance(0.3) {
		return f
	}
	start := p.Between(1200, 5400)
	return func(t float64) float64 {
		if t < start {
			return 0
		}
		return f(t - start)
	}
}

// flat is a server that takes its memory at once, or a device that idles.
func flat(p *plan) { p.start(p.share(0.2, 0.92)) }

// training reaches its plateau in a few steps: workspaces, the optimiser's state,
// the longest batch.
func training(p *plan) {
	p.start(p.share(0.3, 0.85))
	p.add(steps([]float64{p.About(20, 600), p.About(20, 2400), p.About(20, 7200)},
		[]float64{p.About(0.002, 0.03) * p.capacity, p.About(0.001, 0.02) * p.capacity, p.About(0.001, 0.01) * p.capacity}))
}

// evaluation needs more at the end of each epoch and gives it back: it comes and
// goes, but each hour has as much of it.
func evaluation(p *plan) {
	p.start(p.share(0.3, 0.7))
	p.add(p.later(p.epochs(p.About(120, 2400), p.Between(0.05, 0.25), p.share(0.01, 0.1))))
}

// spiky has short large requests, or trials of algorithms.
func spiky(p *plan) {
	p.start(p.share(0.2, 0.7))
	p.add(p.later(p.spikes(p.About(60, 1200), p.About(2, 40), p.share(0.02, 0.2))))
}

// longLoad reads a model for minutes to an hour and a half, from a network disk.
func longLoad(p *plan) {
	level := p.share(0.3, 0.9)
	p.add(constant(p.Between(0.3, 0.6)*gib),
		ramp(p.Between(10, 1200), p.About(360, 5400), level, 30+p.IntN(400)), p.jitter(1))
}

// cacheFill is a server whose cache fills in a straight line and is then full.
func cacheFill(p *plan) {
	p.server(p.share(0.2, 0.5))
	p.add(ramp(p.Between(600, 3600), p.About(600, 5400), p.share(0.1, 0.4), 100+p.IntN(1000)), p.jitter(1+p.IntN(4)))
}

// loadRamp is a second model that is loaded beside the first.
func loadRamp(p *plan) {
	p.server(p.share(0.05, 0.4))
	p.add(ramp(p.Between(600, 7200), p.About(60, 600), p.share(0.1, 0.5), 20+p.IntN(100)))
}

// warming makes its caches, graphs and workspaces when they are first needed: fast
// growth that slowly ends.
func warming(p *plan) {
	p.server(p.share(0.1, 0.4))
	p.add(warmUp(p.Between(60, 300), p.About(60, 1200), p.share(0.05, 0.4)), p.jitter(1+p.IntN(4)))
}

// stepping takes a further model, worker or longer context now and then. Two steps
// within an hour are enough for a good straight line.
func stepping(p *plan) {
	p.server(p.share(0.1, 0.4))
	var at, sizes []float64
	for range 3 + p.IntN(4) {
		at = append(at, p.Between(300, 3*3600))
		sizes = append(sizes, p.share(0.02, 0.1))
	}
	p.add(steps(at, sizes))
}

// watermark has an allocator that reserves the most that was ever needed: its new
// maxima get rarer with its age.
func watermark(p *plan) {
	p.server(p.share(0.1, 0.4))
	for range 1 + p.IntN(3) {
		p.add(p.highWater(p.About(5, 120), p.share(0.01, 0.06), p.Between(0.2, 0.7)))
	}
}

// teeth collects its garbage, or ends a batch, after seconds to ten minutes.
func teeth(p *plan) {
	p.start(p.share(0.1, 0.5))
	p.add(p.sawtooth(p.About(20, 600), p.share(0.01, 0.3), p.Between(0, 0.2), p.Between(0, 0.3)))
}

// growing are epochs that hold all their results, for 5 to 50 minutes, and then
// free everything.
func growing(p *plan) {
	p.server(p.share(0.1, 0.4))
	p.add(p.sawtooth(p.About(300, 3000), p.share(0.08, 0.45), p.Between(0, 0.15), 0))
}

// serve has a KV cache whose load returns to its mean within minutes.
func serve(p *plan) {
	p.server(p.share(0.2, 0.5))
	p.add(p.serving(p.share(0.005, 0.07), p.About(20, 300)))
}

// serveSlow is the same with load that takes up to 40 minutes to return, so that it
// looks like a trend for as long.
func serveSlow(p *plan) {
	p.server(p.share(0.2, 0.5))
	p.add(p.serving(p.share(0.01, 0.1), p.About(300, 2400)))
}

// day is load that follows the clock, with the wobble of its requests.
func day(p *plan) {
	p.length = p.Between(8, 16) * 3600
	p.server(p.share(0.1, 0.4))
	p.add(daily(p.share(0.15, 0.45), p.Float64()), p.serving(p.share(0.002, 0.02), p.About(60, 900)))
}

// shared is a card on which jobs of several users come and go.
func shared(p *plan) {
	p.add(constant(p.share(0.02, 0.2)))
	p.add(p.jobs(p.About(300, 3600), p.About(300, 5400), p.share(0.05, 0.2)))
}

// restarting is a program that ends now and then, begins anew and loads again.
func restarting(p *plan) {
	p.add(constant(0.4*gib), p.restarts(p.About(1800, 9000), p.About(20, 150), p.share(0.2, 0.6)))
}
