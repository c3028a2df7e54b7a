// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// part is one contribution to used memory: MiB at t seconds since the start. It
// is asked with rising times only, so that it can hold a state.
type part interface{ at(t float64) float64 }

// partFunc is a part without a state.
type partFunc func(t float64) float64

func (f partFunc) at(t float64) float64 { return f(t) }

// level is memory that is always there.
func level(size float64) part { return partFunc(func(float64) float64 { return size }) }

// rise returns a part that goes from 0 to size in a straight line.
func rise(from, length, size float64) part {
	return partFunc(func(t float64) float64 { return size * min(max((t-from)/length, 0), 1) })
}

// saturate returns a part that tends to size as 1 - exp(-t/tau).
func saturate(from, tau, size float64) part {
	return partFunc(func(t float64) float64 {
		if t < from {
			return 0
		}
		return size * (1 - math.Exp(-(t-from)/tau))
	})
}

// event is a change of memory that stays.
type event struct{ t, size float64 }

// steps is the sum of the events so far.
type steps struct {
	events []event
	sum    float64
}

func (s *steps) at(t float64) float64 {
	for len(s.events) > 0 && s.events[0].t <= t {
		s.sum += s.events[0].size
		s.events = s.events[1:]
	}
	return s.sum
}

// newSteps puts the events in order.
func newSteps(events []event) *steps {
	slices.SortFunc(events, func(a, b event) int { return cmp.Compare(a.t, b.t) })
	return &steps{events: events}
}

// reverting is load that comes and goes: an Ornstein-Uhlenbeck process around 0.
// It is exact for any step of time.
type reverting struct {
	rng     *rand.Rand
	sd, tau float64
	t, v    float64
	begun   bool
}

func (o *reverting) at(t float64) float64 {
	if !o.begun {
		o.begun, o.t, o.v = true, t, o.sd*o.rng.NormFloat64()
		return o.v
	}
	keep := math.Exp(-(t - o.t) / o.tau)
	o.v = o.v*keep + o.sd*math.Sqrt(1-keep*keep)*o.rng.NormFloat64()
	o.t = t
	return o.v
}

// jitter is memory that differs from one sample to the next: workspaces that are
// alive or not at the moment of the sample.
type jitter struct {
	rng       *rand.Rand
	chance    float64
	amplitude float64
}

func (j *jitter) at(float64) float64 {
	if j.rng.Float64() >= j.chance {
		return 0
	}
	return j.amplitude * j.rng.Float64()
}

// teeth is a sawtooth: memory rests for a share of a period, grows for the share
// up, stays, and all of it is freed at the end. Periods and heights differ from
// one to the next by the share vary.
type teeth struct {
	rng                       *rand.Rand
	period, height, vary      float64
	rest, up                  float64
	stairs                    int // grows in so many stairs; 0 for a line
	from, length, tall, phase float64
	begun                     bool
}

func (w *teeth) at(t float64) float64 {
	if !w.begun {
		w.begun = true
		w.draw(t - w.phase*w.period)
	}
	for t >= w.from+w.length {
		w.draw(w.from + w.length)
	}
	x := min(max((t-w.from)/w.length-w.rest, 0)/w.up, 1)
	if w.stairs > 0 {
		x = math.Floor(x*float64(w.stairs)) / float64(w.stairs)
	}
	return w.tall * x
}

func (w *teeth) draw(from float64) {
	about := func(v float64) float64 { return v * (1 + w.vary*(2*w.rng.Float64()-1)) }
	w.from, w.length, w.tall = from, about(w.period), about(w.height)
}

// pulses are stretches with more memory: evaluations, spikes, jobs. Gaps and
// lengths are fixed up to the share vary, or exponential if poisson.
type pulses struct {
	rng                       *rand.Rand
	gap, length, height, vary float64
	poisson                   bool
	start, stop, tall         float64
	begun                     bool
}

func (p *pulses) at(t float64) float64 {
	if !p.begun {
		p.begun = true
		p.draw(0)
	}
	for t >= p.stop {
		p.draw(p.stop)
	}
	if t < p.start {
		return 0
	}
	return p.tall
}

func (p *pulses) draw(from float64) {
	about := func(v float64) float64 { return v * (1 + p.vary*(2*p.rng.Float64()-1)) }
	gap := about(p.gap)
	if p.poisson {
		gap = p.gap * p.rng.ExpFloat64()
	}
	p.start = from + gap
	p.stop = p.start + max(about(p.length), 1e-3)
	p.tall = about(p.height)
}

// highWater is the largest demand so far, as PyTorch's allocator holds it: it
// takes what a batch needs and gives nothing back.
type highWater struct {
	rng           *rand.Rand
	each          float64 // seconds a batch
	size, spread  float64 // median demand, and sd of its logarithm
	next, highest float64
}

func (h *highWater) at(t float64) float64 {
	for ; h.next <= t; h.next += h.each {
		h.highest = max(h.highest, h.size*math.Exp(h.spread*h.rng.NormFloat64()))
	}
	return 20 * math.Ceil(h.highest/20)
}

// daily is load that follows the clock.
func daily(height, phase float64) part {
	return partFunc(func(t float64) float64 {
		return height * (1 - math.Cos(2*math.Pi*(t/86400+phase))) / 2
	})
}

// traffic runs a leak by the work that is done and not by the clock: requests that
// come at a rate which wanders, with a mean of 1.
type traffic struct {
	leak   part
	onset  float64
	load   reverting // the logarithm of the rate
	last   float64
	worked float64 // seconds at the mean rate
}

func (c *traffic) at(t float64) float64 {
	if t <= c.onset {
		return c.leak.at(t)
	}
	c.worked += (t - max(c.last, c.onset)) * math.Exp(c.load.at(t)-c.load.sd*c.load.sd/2)
	c.last = t
	return c.leak.at(c.onset + c.worked)
}
