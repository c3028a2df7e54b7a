// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"math"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
)

// constant is memory that is held all the time.
func constant(v float64) part { return func(float64) float64 { return v } }

// ramp grows by amount in a straight line, from start seconds on, within took
// seconds: a load from a slow disk or a cache that fills. Shards come one by one.
func ramp(start, took, amount float64, shards int) part {
	n := float64(shards)
	return func(t float64) float64 {
		x := min(max((t-start)/took, 0), 1)
		return amount * math.Floor(x*n) / n
	}
}

// warmUp approaches amount, fast at first: caches, graphs and workspaces that are
// made when they are first needed.
func warmUp(start, tau, amount float64) part {
	return func(t float64) float64 {
		return amount * (1 - math.Exp(-max(t-start, 0)/tau))
	}
}

// steps are a few allocations that stay: further models, a longer context, a
// second worker.
func steps(at, sizes []float64) part {
	return func(t float64) float64 {
		sum := 0.0
		for i, a := range at {
			if t >= a {
				sum += sizes[i]
			}
		}
		return sum
	}
}

// jitter is up to so many quanta that come and go, in training and on desktops.
func (p *plan) jitter(quanta int) part {
	now := 0.0
	return func(float64) float64 {
		if p.Chance(0.2) {
			now = float64(p.IntN(quanta+1)) * exams.Quantum
		}
		return now
	}
}

// noise is independent from one sample to the next: short requests, sampled at
// random.
func (p *plan) noise(sd float64) part {
	return func(float64) float64 { return sd * math.Abs(p.NormFloat64()) }
}

// serving is the KV cache under a load that returns to its mean within tau
// seconds: an Ornstein-Uhlenbeck process, of which memory can't fall below 0 nor
// rise above three deviations.
func (p *plan) serving(sd, tau float64) part {
	x, last := p.NormFloat64(), 0.0
	return func(t float64) float64 {
		a := math.Exp(-(t - last) / tau)
		x = a*x + math.Sqrt(1-a*a)*p.NormFloat64()
		last = t
		return sd * min(max(x+2.5, 0), 5)
	}
}

// sawtooth grows for a period and then gives all back; periods and heights vary
// by spread of their mean. rest is the share of a period after the growth at
// which it stays on top.
func (p *plan) sawtooth(period, height, spread, rest float64) part {
	begin, end, top := 0.0, 0.0, 0.0
	return func(t float64) float64 {
		for t >= end {
			begin = end
			end = begin + period*(1+spread*p.Between(-1, 1))
			top = height * (1 + spread*p.Between(-1, 1))
		}
		return top * min((t-begin)/(end-begin)/(1-rest), 1)
	}
}

// epochs is training with an evaluation at the end of each epoch, which needs
// more for share of the period.
func (p *plan) epochs(period, share, more float64) part {
	phase := p.Float64()
	return func(t float64) float64 {
		_, x := math.Modf(t/period + phase)
		if x > 1-share {
			return more
		}
		return 0
	}
}

// highWater is what a caching allocator reserves: the most that was ever asked
// for by then, of independent demands, one each every seconds.
func (p *plan) highWater(every, median, sigma float64) part {
	most, next := 0.0, 0.0
	return func(t float64) float64 {
		for t >= next {
			most = max(most, median*math.Exp(sigma*p.NormFloat64()))
			next += every
		}
		return math.Round(most/(20*mib)) * 20 * mib
	}
}

// daily is load that follows the clock, low at phase 0 of the day.
func daily(amount, phase float64) part {
	return func(t float64) float64 {
		return amount * (1 - math.Cos(2*math.Pi*(t/86400+phase))) / 2
	}
}

// spikes come at random, each mean seconds, and last wide seconds.
func (p *plan) spikes(mean, wide, height float64) part {
	begin, h := p.ExpFloat64()*mean, height
	return func(t float64) float64 {
		for t >= begin+wide {
			begin += wide + p.ExpFloat64()*mean
			h = height * p.Between(0.5, 1)
		}
		if t >= begin {
			return h
		}
		return 0
	}
}

// jobs come at random and go again: a shared card, or a worker for each request.
func (p *plan) jobs(gap, hold, size float64) part {
	type job struct{ end, size float64 }
	var open []job
	next := p.ExpFloat64() * gap
	return func(t float64) float64 {
		for t >= next {
			open = append(open, job{next + p.ExpFloat64()*hold, size * p.Between(0.3, 1)})
			next += p.ExpFloat64() * gap
		}
		sum, kept := 0.0, open[:0]
		for _, j := range open {
			if j.end > t {
				kept = append(kept, j)
				sum += j.size
			}
		}
		open = kept
		return sum
	}
}

// restarts is a program that begins anew each period or so and loads amount
// within took seconds.
func (p *plan) restarts(period, took, amount float64) part {
	begin, end := 0.0, -period*p.Float64()
	return func(t float64) float64 {
		for t >= end {
			begin = end
			end = begin + period*p.Between(0.7, 1.3)
		}
		return amount * min(max(t-begin-20, 0)/took, 1)
	}
}
