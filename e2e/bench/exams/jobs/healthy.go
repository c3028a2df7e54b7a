// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package jobs

import "github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"

// loadedHealthy is the share of the healthy series whose recording begins with the
// start of the job.
const loadedHealthy = 0.06

// healthyFamilies are the families without a leak. A third are easy, and the others
// grow for a time, as a leak does.
var healthyFamilies = []exams.Family[*builder]{
	{Kind: "constant", Count: 11, Build: constant},
	{Kind: "evaluation", Count: 12, Build: evaluation},
	{Kind: "spikes", Count: 12, Build: spikes},
	{Kind: "short sawtooth", Count: 5, Build: shortSawtooth},
	{Kind: "epochs that free all", Count: 12, Build: epochs},
	{Kind: "warm-up", Count: 18, Build: warmUp},
	{Kind: "load", Count: 13, Build: load},
	{Kind: "long load", Count: 7, Build: longLoad},
	{Kind: "cache fill", Count: 2, Build: cacheFill},
	{Kind: "steps", Count: 15, Build: stepsUp},
	{Kind: "high water", Count: 3, Build: reserve},
	{Kind: "serving", Count: 5, Build: serving},
	{Kind: "daily", Count: 5, Build: dailyLoad},
}

// constant is a server that takes its memory at the start, such as vLLM.
func constant(b *builder) {
	b.base(b.share(0.2, 0.95), loadedHealthy)
	b.steadyNoise()
}

// evaluation is training that needs more memory in evaluations.
func evaluation(b *builder) {
	b.base(b.share(0.2, 0.6), loadedHealthy)
	b.steadyNoise()
	b.add(&pulses{
		rng: b.stream(), gap: b.About(6*minute, 60*minute), length: b.About(20, 5*minute),
		height: b.share(0.01, 0.1), vary: b.Between(0, 0.1),
	})
}

// spikes are trials of cuDNN and long requests: seconds of more memory.
func spikes(b *builder) {
	b.base(b.share(0.2, 0.6), loadedHealthy)
	b.steadyNoise()
	b.add(&pulses{
		rng: b.stream(), gap: b.About(4*minute, 40*minute), length: b.About(2, 45),
		height: b.share(0.02, 0.12), vary: 0.5, poisson: true,
	})
}

// shortSawtooth is memory that grows over a batch and is freed: it has a floor.
func shortSawtooth(b *builder) {
	b.base(b.share(0.1, 0.5), loadedHealthy)
	b.add(&teeth{
		rng: b.stream(), period: b.About(20, 5*minute), height: b.share(0.03, 0.4),
		rest: b.Between(0, 0.4), up: b.Between(0.3, 0.6), vary: b.Between(0, 0.3), phase: b.Float64(),
	})
}

// epochs grow for many minutes and then free everything: lists of outputs that are
// dropped at the end of an epoch.
func epochs(b *builder) {
	b.base(b.share(0.1, 0.4), loadedHealthy)
	b.add(&teeth{
		rng: b.stream(), period: b.Between(5*minute, 50*minute), height: b.share(0.05, 0.5),
		up: b.Between(0.8, 1), vary: b.Between(0, 0.2), stairs: b.IntN(2) * (5 + b.IntN(40)),
	})
}

// warmUp is an allocator that finds its size: fast at first, ever slower.
func warmUp(b *builder) {
	end := b.base(b.share(0.1, 0.4), loadedHealthy)
	b.steadyNoise()
	b.add(saturate(end, b.About(4*minute, 20*minute), b.share(0.12, 0.4)))
}

// load reads a model from a disk in a straight line.
func load(b *builder) {
	b.straight(b.Between(0, 2*minute), b.About(5*minute, 14*minute))
}

// longLoad reads a large one from a slow share of the network.
func longLoad(b *builder) {
	b.straight(b.Between(0, 20*minute), b.About(14*minute, 60*minute))
}

// straight puts in a load in a straight line.
func (b *builder) straight(from, length float64) {
	b.add(level(b.Between(250, 550)))
	b.steadyNoise()
	b.add(rise(from, length, b.share(0.2, 0.85)))
}

// stepsUp takes memory in a few steps: models that are loaded one by one.
func stepsUp(b *builder) {
	b.base(b.share(0.1, 0.3), loadedHealthy)
	b.steadyNoise()
	var events []event
	span := b.About(20*minute, 2*hour)
	from := b.lead()
	for range 3 + b.IntN(5) {
		events = append(events, event{from + b.Between(0, span), b.capacity * b.About(0.02, 0.08)})
	}
	b.add(newSteps(events))
}

// reserve is what an allocator holds under batches of differing length: the
// largest demand so far.
func reserve(b *builder) {
	b.base(b.share(0.1, 0.4), loadedHealthy)
	b.add(&highWater{rng: b.stream(), each: b.About(0.5, 30), size: b.share(0.03, 0.12), spread: b.Between(0.2, 0.5)})
}

// serving is a server whose load comes and goes around a mean.
func serving(b *builder) {
	size := b.share(0.2, 0.6)
	b.base(size, loadedHealthy)
	b.add(&reverting{rng: b.stream(), sd: b.share(0.04, 0.14), tau: b.About(8*minute, 50*minute)})
}

// dailyLoad is a server whose load follows the day, and of which the recording
// sees a part.
func dailyLoad(b *builder) {
	size := b.share(0.1, 0.4)
	b.base(size, loadedHealthy)
	b.add(daily(b.share(0.35, 0.6), b.Float64()))
	b.add(&reverting{rng: b.stream(), sd: size * b.About(0.005, 0.1), tau: b.About(30, 10*minute)})
}

// cacheFill is a cache that fills with the first requests and then is full.
func cacheFill(b *builder) {
	end := b.base(b.share(0.1, 0.4), loadedHealthy)
	b.steadyNoise()
	b.add(rise(end+b.Between(0, 30*minute), b.About(8*minute, 60*minute), b.share(0.1, 0.5)))
}
