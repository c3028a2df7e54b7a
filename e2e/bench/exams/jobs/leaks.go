// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"math"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
)

// leakFamilies are the families with a leak. Plain ones are most, as in what is
// reported; those that are hard to see, under a sawtooth or noise, are a sixth.
var leakFamilies = []exams.Family[*builder]{
	{Kind: "linear", Count: 12, Build: linear},
	{Kind: "from start", Count: 5, Build: fromStart},
	{Kind: "after load", Count: 1, Build: afterLoad},
	{Kind: "late onset", Count: 10, Build: lateOnset},
	{Kind: "small stairs", Count: 9, Build: smallStairs},
	{Kind: "Poisson stairs", Count: 15, Build: poissonStairs},
	{Kind: "large stairs", Count: 6, Build: largeStairs},
	{Kind: "sawtooth", Count: 7, Build: sawtoothLeak},
	{Kind: "noisy", Count: 6, Build: noisyLeak},
	{Kind: "accelerating", Count: 4, Build: accelerating},
	{Kind: "bursts", Count: 2, Build: burstLeak},
	{Kind: "evaluation only", Count: 1, Build: evaluationLeak},
	{Kind: "paused", Count: 2, Build: pausedLeak},
}

// onset draws when the leak begins, after the load.
func (b *builder) onset(low, high float64) float64 {
	at := b.About(low, high)
	b.Onset = seconds(at)
	b.plan = max(b.plan, at+2*hour)
	b.Length = seconds(min(b.plan, longest.Seconds()))
	return at
}

// rate draws a rate in MiB/s. Those who look for a leak mostly do as it has killed
// a job, after hours: the rate then goes with the memory that is free. The others
// are of any size.
func (b *builder) rate() float64 {
	if b.Chance(killers) {
		return b.deadly()
	}
	r := b.About(rateLow, rateHigh)
	b.Rate = r * mib
	return r
}

// deadly draws a rate in MiB/s that fills the memory in hours: where much else
// goes to and fro, a leak that does not is nothing that anybody could label.
func (b *builder) deadly() float64 {
	r := min(max((b.capacity-b.taken)/b.About(killsFrom, killsTo), rateLow), rateHigh)
	b.Rate = r * mib
	return r
}

// share draws how much of the card the job takes by itself.
func (b *builder) share(low, high float64) float64 { return b.capacity * b.Between(low, high) }

// busy returns the leak as one that goes with the traffic.
func (b *builder) busy(leak part) part {
	return &traffic{
		leak: leak, onset: b.Onset.Seconds(),
		load: reverting{rng: b.stream(), sd: b.Between(0.1, 0.35), tau: b.About(20*minute, 3*hour)},
	}
}

// line is a leak at a constant rate.
func line(onset, rate float64) part {
	return partFunc(func(t float64) float64 { return rate * max(t-onset, 0) })
}

// linear is the plain leak: a tensor kept alive each step, and steps of less than
// a sample. Expandable segments map 2 MiB at a time, so it looks like a line.
func linear(b *builder) {
	b.base(b.share(0.1, 0.6), loadedLeaks)
	b.steadyNoise()
	b.Steady = true
	b.lost = line(b.onset(15*minute, 2*hour), b.rate())
}

// fromStart is a recording that begins while the leak is on: the exporter was
// started later than the job.
func fromStart(b *builder) {
	b.base(b.share(0.1, 0.6), 0)
	b.steadyNoise()
	b.Steady, b.FromStart = true, true
	b.lost = line(0, b.deadly())
}

// afterLoad leaks from the first request on: no flat stretch lies between the load
// of the model and the leak.
func afterLoad(b *builder) {
	end := b.base(b.share(0.2, 0.6), 1)
	b.steadyNoise()
	b.FromStart = true
	b.Onset = seconds(end)
	b.lost = line(end, b.rate())
}

// lateOnset leaks after hours of work: a code path that is seldom taken, such as
// a change of the schedule or a client of a new kind.
func lateOnset(b *builder) {
	b.base(b.share(0.1, 0.6), loadedLeaks)
	b.background()
	b.lost = b.busy(line(b.onset(2*hour, 7*hour), b.rate()))
}

// stairs returns a leak of so many MiB at a time. Sizes differ by the share vary,
// and so do gaps, unless the leak is a Poisson process.
func (b *builder) stairs(onset, size, gap, vary float64, poisson bool) part {
	var events []event
	for t := onset; t < exams.Horizon.Seconds(); {
		events = append(events, event{t, size * (1 + vary*b.Between(-1, 1))})
		if poisson {
			t += gap * b.ExpFloat64()
		} else {
			t += gap * (1 + vary*b.Between(-1, 1))
		}
	}
	return newSteps(events)
}

// smallStairs leaks in the segments of PyTorch's allocator: 2 MiB for small
// blocks and 20 MiB for those up to 10 MiB.
func smallStairs(b *builder) {
	b.base(b.share(0.1, 0.6), loadedLeaks)
	b.steadyNoise()
	b.Steady = true
	size := b.Pick([]float64{2, 20, 20, 20, 40})
	b.lost = b.stairs(b.onset(15*minute, 2*hour), size, size/b.rate(), 0.1, false)
}

// poissonStairs leaks with requests that come at random.
func poissonStairs(b *builder) {
	b.base(b.share(0.1, 0.6), loadedLeaks)
	b.background()
	size := b.About(10, 80)
	b.lost = b.busy(b.stairs(b.onset(15*minute, 2*hour), size, size/b.rate(), 0.3, true))
}

// largeStairs leaks a buffer of hundreds of MiB an epoch.
func largeStairs(b *builder) {
	b.base(b.share(0.1, 0.5), loadedLeaks)
	b.background()
	size := b.About(150, 800)
	gap := size / b.deadly()
	b.lost = b.busy(b.stairs(b.onset(15*minute, 2*hour), size, gap, b.Between(0, 0.3), b.Chance(0.3)))
}

// sawtoothLeak is a floor that rises under the sawtooth of batches: all but a
// little is freed at the end of each.
func sawtoothLeak(b *builder) {
	b.base(b.share(0.1, 0.3), loadedLeaks)
	height := b.capacity * b.About(0.05, 0.4)
	b.taken += height
	b.add(&teeth{
		rng: b.stream(), period: b.About(minute, 15*minute), height: height,
		rest: b.Between(0.1, 0.4), up: b.Between(0.3, 0.6), vary: b.Between(0, 0.3), phase: b.Float64(),
	})
	b.lost = b.busy(line(b.onset(15*minute, 2*hour), b.deadly()))
}

// noisyLeak is a leak under the load of a server, which comes and goes.
func noisyLeak(b *builder) {
	size := b.share(0.2, 0.5)
	b.base(size, loadedLeaks)
	b.add(&reverting{rng: b.stream(), sd: size * b.About(0.01, 0.07), tau: b.About(5, 90)})
	b.lost = b.busy(line(b.onset(15*minute, 2*hour), b.deadly()))
}

// accelerating leaks the more the longer it lasts: lists that are copied as they
// grow, retries that pile up.
func accelerating(b *builder) {
	b.base(b.share(0.1, 0.6), loadedLeaks)
	b.background()
	onset, rate, power := b.onset(15*minute, 2*hour), b.rate(), b.Between(1.3, 2)
	// It has lost after an hour what the rate says.
	b.lost = partFunc(func(t float64) float64 { return rate * hour * math.Pow(max(t-onset, 0)/hour, power) })
}

// windows returns what a leak at a rate has lost if it is on in the first part of
// each period only.
func windows(onset, rate, period, share float64) part {
	return partFunc(func(t float64) float64 {
		if t <= onset {
			return 0
		}
		n, rest := math.Modf((t - onset) / period)
		return rate / share * period * (n*share + min(rest, share))
	})
}

// burstLeak leaks while there is traffic, for some minutes at a time.
func burstLeak(b *builder) {
	b.base(b.share(0.1, 0.6), loadedLeaks)
	b.background()
	b.lost = b.busy(windows(b.onset(15*minute, 2*hour), b.rate(), b.About(3*minute, 15*minute), b.Between(0.15, 0.5)))
}

// evaluationLeak leaks in evaluations only: losses kept as tensors.
func evaluationLeak(b *builder) {
	b.base(b.share(0.1, 0.5), loadedLeaks)
	period, share := b.About(5*minute, 20*minute), b.Between(0.05, 0.2)
	onset := b.onset(15*minute, 2*hour)
	height := b.capacity * b.Between(0.02, 0.1)
	b.add(partFunc(func(t float64) float64 {
		if _, rest := math.Modf((t - onset) / period); t > onset && rest < share {
			return height
		}
		return 0
	}))
	b.lost = windows(onset, b.deadly(), period, share)
}

// pausedLeak stops for a while, as traffic does, and goes on.
func pausedLeak(b *builder) {
	b.base(b.share(0.1, 0.6), loadedLeaks)
	b.background()
	b.lost = b.busy(windows(b.onset(15*minute, 2*hour), b.rate(), b.Between(1, 2)*hour, b.Between(0.5, 0.8)))
}

const (
	// rateLow and rateHigh bound the rates, in MiB/s.
	rateLow, rateHigh = 0.1, 6
	// killers is the share of the leaks of which the time to out-of-memory is drawn
	// and not the rate: from killsFrom to killsTo seconds.
	killers            = 0.6
	killsFrom, killsTo = hour, 10 * hour
	// loadedLeaks is the share of the leaks whose recording begins with the start
	// of the job.
	loadedLeaks = 0.5
)
