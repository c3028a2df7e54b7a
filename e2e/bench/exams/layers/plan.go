// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package layers

import "github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"

// part is a part of the used memory: the bytes at t seconds after the start. It is
// asked for each sample once, in their order.
type part func(t float64) float64

// families are all families of the exam.
var families = exams.Families[*plan]{Leaks: leakFamilies, Healthy: healthyFamilies}

// plan is what a series is made of.
type plan struct {
	exams.Random

	capacity, interval, length float64
	// ceiling is where an allocation fails: a little below the capacity, as a
	// driver keeps some memory for itself.
	ceiling float64
	// crest is how far a leak's background rises.
	crest float64
	parts []part

	leak              part // by the seconds since the onset; nil for none
	onset, rate       float64
	gone              float64 // what had leaked by the last sample, in bytes
	steady, fromStart bool
}

// cards holds the memory of usual cards in GiB, from T4 to H200, each as often as
// it is likely to be met.
var cards = []float64{16, 24, 24, 32, 40, 48, 48, 80, 80, 80, 80, 96, 141}

// intervals holds the seconds between samples: 15 s and finer, some coarser.
var intervals = []float64{1, 1, 1, 1, 1, 2, 2, 2, 5, 5, 5, 5, 10, 10, 10, 10, 15, 15, 30, 60}

// newPlan draws what each series has: a card, a sampling interval and a length.
func newPlan(r exams.Random) *plan {
	p := &plan{Random: r}
	p.capacity = p.Pick(cards) * gib
	p.ceiling = p.capacity - p.Between(0, 0.01)*p.capacity
	p.interval = p.Pick(intervals)
	p.length = p.Between(4, 8) * 3600
	return p
}

func (p *plan) add(parts ...part) { p.parts = append(p.parts, parts...) }

// used returns the memory in use at t seconds.
func (p *plan) used(t float64) float64 {
	sum := 0.0
	for _, f := range p.parts {
		sum += f(t)
	}
	if p.leak != nil && t >= p.onset {
		p.gone = p.leak(t - p.onset)
	}
	return sum + p.gone
}

// share returns from a to b of the capacity.
func (p *plan) share(a, b float64) float64 { return p.Between(a, b) * p.capacity }
