// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"math/rand/v2"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
)

// families are all families of the exam.
var families = exams.Families[*builder]{Leaks: leakFamilies, Healthy: healthyFamilies}

// builder holds what is drawn for a series while it is made.
type builder struct {
	*recording
	exams.Random
	capacity float64 // MiB
	plan     float64 // seconds
	taken    float64 // MiB that the job takes without a leak
}

// cards are what NVML tells of the memory of common cards, in MiB: T4, A10, RTX
// 4090, V100, A100, L40S, H100, RTX PRO 6000, H200.
var cards = []float64{15360, 23028, 24564, 32768, 40960, 46068, 81558, 97886, 143770}

// intervals are the sampling intervals in seconds, as often as they are listed.
var intervals = []float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 5, 5, 5, 5, 5, 5, 10, 10, 10, 10, 15, 15, 15, 30, 60}

// build draws the series, without its out-of-memory.
func build(seed uint64, index int) *recording {
	late := rand.New(rand.NewPCG(seed, 1<<32+uint64(index)))
	b := &builder{recording: &recording{late: late}, Random: exams.NewRandom(seed, uint64(index))}
	b.capacity = b.Pick(cards)
	b.Capacity = int64(b.capacity) * mib
	b.Interval = seconds(b.Pick(intervals))
	b.plan = b.Between(2*hour, 12*hour)
	b.Length = seconds(b.plan)
	b.Kind = Kind(index)
	families.At(index).Build(b)
	b.Leak = b.lost != nil
	return b.recording
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// stream returns a source of random numbers for one part.
func (b *builder) stream() *rand.Rand { return rand.New(rand.NewPCG(b.Uint64(), b.Uint64())) }

func (b *builder) add(p part) { b.parts = append(b.parts, p) }

// base puts in the memory of a job that is at work: with the load of the model at
// the begin, or already there when the recording begins. It returns when the load
// is over.
func (b *builder) base(size, loaded float64) float64 {
	b.taken += size
	if !b.Chance(loaded) {
		b.add(level(size))
		return 0
	}
	context := b.Between(250, 550)
	from := b.Between(0, 60)
	end := from
	b.add(level(3))
	b.add(&steps{events: []event{{from, context}}})
	rest := size - context
	for n := 1 + b.IntN(3); n > 0 && rest > 0; n-- {
		part := rest
		if n > 1 {
			part *= b.Between(0.2, 0.8)
		}
		from = end + b.Between(1, 10)
		end = from + b.About(2, 60)
		b.add(rise(from, end-from, part))
		rest -= part
	}
	return end
}

// background puts in what a job does beside its leak: nothing, evaluations or long
// requests. All of it is given back.
func (b *builder) background() {
	b.add(&jitter{rng: b.stream(), chance: b.About(0.02, 0.5), amplitude: b.About(3, 8)})
	height := b.capacity * b.About(0.01, 0.12)
	switch x := b.Between(0, 1); {
	case x < 0.4:
		return
	case x < 0.7:
		b.add(&pulses{rng: b.stream(), gap: b.About(2*minute, 20*minute), length: b.About(20, 3*minute), height: height, vary: 0.05})
	default:
		b.add(&pulses{rng: b.stream(), gap: b.About(minute, 10*minute), length: b.About(2, 30), height: height, vary: 0.5, poisson: true})
	}
	b.taken += height
}

// lead draws how long the recording runs before something happens: not at all, or
// for about as long as a rule looks back.
func (b *builder) lead() float64 {
	if b.Chance(0.5) {
		return 0
	}
	return b.Between(30*minute, 90*minute)
}

// steadyNoise puts in what hardly moves: nothing, or a workspace.
func (b *builder) steadyNoise() {
	if b.Chance(0.15) {
		b.add(&jitter{rng: b.stream(), chance: b.About(0.005, 0.3), amplitude: b.About(2, 64)})
	}
}
