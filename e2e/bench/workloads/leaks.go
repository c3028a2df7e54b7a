// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import "math"

// leakKinds are the kinds of leaks, each in one of the healthy backgrounds.
var leakKinds = []made{
	{"linear", leakLinear},
	{"linear-allocator", leakLinearAllocator},
	{"after-load", leakAfterLoad},
	{"late", leakLate},
	{"stairs-small", leakStairsSmall},
	{"stairs-large", leakStairsLarge},
	{"stairs-poisson", leakStairsPoisson},
	{"bursts", leakBursts},
	{"sawtooth", leakSawtooth},
	{"epochs", leakEpochs},
	{"noise", leakNoise},
	{"tenants", leakTenants},
	{"accelerating", leakAccelerating},
	{"evaluation", leakEvaluation},
	{"paused", leakPaused},
}

// onset returns when a leak begins: 20 to 90 min into the series.
func (d *draw) onset() float64 { return d.between(20*minute, 90*minute) }

// rate returns a rate in MiB/s between lo and hi at which the GPU lasts for 40
// min at least.
func (d *draw) rate(lo, hi float64) float64 {
	hi = min(hi, (d.capacity-d.room)/(40*minute))
	return d.logBetween(min(lo, hi), hi)
}

// leaking returns a spec that lasts for 4 to 8 h after the onset.
func (d *draw) leaking(background, leak memory, onset float64) spec {
	return spec{background: background, leak: leak, end: onset + d.between(4*hour, 8*hour)}
}

// straight returns a leak at a constant rate in whole segments of 2 MiB, or of 20
// where it fills one each 200 s at least.
func (d *draw) straight(onset, rate float64) memory {
	size := 2.0
	if rate >= 0.1 && d.chance(0.5) {
		size = 20
	}
	return &segments{size, &growth{from: onset, rate: rate}}
}

// steadily is leaking with a straight leak.
func (d *draw) steadily(background memory, onset, rate float64) spec {
	s := d.leaking(background, d.straight(onset, rate), onset)
	s.steady = true
	return s
}

// growth is a leak at a constant rate.
type growth struct{ from, rate float64 }

func (g *growth) at(t float64) float64 { return g.rate * max(t-g.from, 0) }

func leakLinear(d *draw) spec {
	return d.steadily(constant(d).background, d.onset(), d.rate(0.02, 10))
}

func leakLinearAllocator(d *draw) spec {
	return d.steadily(allocator(d).background, d.onset(), d.rate(0.1, 10))
}

// leakAfterLoad leaks from the moment at which the model is loaded.
func leakAfterLoad(d *draw) spec {
	load := &line{from: d.between(1, 10*minute), rise: d.part(0.1, 0.9), took: d.logBetween(5, 5*minute)}
	return d.steadily(load, load.from+load.took, d.rate(0.05, 5))
}

// leakLate begins to leak after hours.
func leakLate(d *draw) spec {
	return d.steadily(allocator(d).background, d.between(3*hour, 12*hour), d.rate(0.05, 5))
}

// stairs is a leak in steps of about size MiB, about gap seconds apart.
type stairs struct {
	r                 *rng
	size, gap, jitter float64
	poisson           bool
	count             int     // steps in a burst
	within            float64 // seconds between the steps of a burst
	next, lost        float64
	left              int // of the burst
}

func (s *stairs) at(t float64) float64 {
	for t >= s.next {
		s.lost += s.r.about(s.size, s.jitter)
		if s.left--; s.left > 0 {
			s.next += s.within
			continue
		}
		s.left = s.count
		if s.poisson {
			s.next += s.r.exp(s.gap)
		} else {
			s.next += s.r.about(s.gap, s.jitter)
		}
	}
	return s.lost
}

// stairs returns a leak of one step of size MiB each gap seconds.
func (d *draw) stairs(onset, size, gap, jitter float64) *stairs {
	// The GPU lasts for 40 min at least.
	gap = max(gap, size*40*minute/(d.capacity-d.room))
	return &stairs{r: d.source(), size: size, gap: gap, jitter: jitter, next: onset}
}

func leakStairsSmall(d *draw) spec {
	onset := d.onset()
	return d.leaking(constant(d).background, d.stairs(onset, d.logBetween(20, 100), d.logBetween(10, 5*minute), d.between(0, 0.1)), onset)
}

func leakStairsLarge(d *draw) spec {
	onset := d.onset()
	return d.leaking(allocator(d).background, d.stairs(onset, d.logBetween(100, 500), d.logBetween(30, 15*minute), d.between(0, 0.2)), onset)
}

func leakStairsPoisson(d *draw) spec {
	onset := d.onset()
	s := d.stairs(onset, d.logBetween(20, 500), d.logBetween(10, 8*minute), d.between(0, 0.5))
	s.poisson = true
	return d.leaking(constant(d).background, s, onset)
}

// leakBursts loses several steps within seconds, and then none for minutes.
func leakBursts(d *draw) spec {
	onset := d.onset()
	count := 3 + d.r.IntN(15)
	size := d.logBetween(4, 60)
	s := d.stairs(onset, size*float64(count), d.logBetween(2*minute, 15*minute), d.between(0, 0.3))
	s.size, s.count, s.left, s.within = size, count, count, d.logBetween(1, 10)
	return d.leaking(constant(d).background, s, onset)
}

// leakSawtooth leaks under a sawtooth of up to 8 GiB.
func leakSawtooth(d *draw) spec {
	onset := d.onset()
	rise := min(d.logBetween(0.2*gib, 8*gib), 0.5*d.room)
	return d.leaking(d.begin(d.sawtooth(rise)), d.straight(onset, d.rate(0.1, 5)), onset)
}

// leakEpochs leaks under epochs that grow for minutes and free the rest.
func leakEpochs(d *draw) spec {
	onset := d.onset()
	c := &cycle{r: d.source(), grow: d.logBetween(5*minute, 30*minute), rise: min(d.logBetween(0.5*gib, 8*gib), 0.5*d.room), jitter: d.between(0, 0.1)}
	return d.leaking(d.begin(sum{level(d.part(0.05, 0.3)), c}), d.straight(onset, d.rate(0.2, 5)), onset)
}

// leakNoise leaks under a load that comes and goes.
func leakNoise(d *draw) spec {
	onset := d.onset()
	sd := min(d.logBetween(30, gib), d.room/8)
	n := &bounded{inner: d.noise(d.logBetween(minute, 30*minute), sd), mid: 3 * sd, top: 6 * sd}
	return d.leaking(sum{level(d.part(0.1, 0.3)), n}, d.straight(onset, d.rate(0.1, 5)), onset)
}

// leakTenants leaks while others come and go.
func leakTenants(d *draw) spec {
	onset := d.onset()
	return d.leaking(tenants(d).background, d.straight(onset, d.rate(0.5, 5)), onset)
}

// leakAccelerating loses more with each round: a list that is walked and grown.
func leakAccelerating(d *draw) spec {
	onset := d.onset()
	leak := &accelerating{from: onset, rate: d.rate(0.02, 1), tau: d.between(hour, 3*hour)}
	return d.leaking(constant(d).background, &segments{quantum, leak}, onset)
}

// accelerating is a leak whose rate grows exponentially, up to 5-fold.
type accelerating struct{ from, rate, tau float64 }

func (a *accelerating) at(t float64) float64 {
	x := max(t-a.from, 0) / a.tau
	const most = 1.6 // e^1.6 = 5
	if x <= most {
		return a.rate * a.tau * math.Expm1(x)
	}
	return a.rate * a.tau * (math.Expm1(most) + math.Exp(most)*(x-most))
}

// leakEvaluation keeps something of each evaluation.
func leakEvaluation(d *draw) spec {
	e := d.epochs()
	e.epoch = d.logBetween(minute, 15*minute)
	onset := math.Ceil(d.onset()/e.epoch) * e.epoch
	s := d.stairs(onset, d.logBetween(20, 400), 0, 0)
	s.size = min(s.size, (d.capacity-d.room)*e.epoch/(40*minute))
	s.gap = e.epoch
	return d.leaking(sum{level(d.part(0.05, 0.4)), e}, s, onset)
}

// leakPaused leaks only while there is load.
func leakPaused(d *draw) spec {
	onset := d.onset()
	p := &paused{r: d.source(), rate: d.rate(0.1, 5), on: d.logBetween(5*minute, 40*minute), off: d.logBetween(5*minute, 40*minute), switches: onset}
	return d.leaking(constant(d).background, &segments{quantum, p}, onset)
}

// paused is a leak that goes on and off, from off.
type paused struct {
	r                     *rng
	rate, on, off         float64
	running               bool
	since, lost, switches float64
}

func (p *paused) at(t float64) float64 {
	for t >= p.switches {
		if p.running {
			p.lost += p.rate * (p.switches - p.since)
		}
		p.running, p.since = !p.running, p.switches
		if p.running {
			p.switches += p.r.about(p.on, 0.5)
		} else {
			p.switches += p.r.about(p.off, 0.5)
		}
	}
	if !p.running {
		return p.lost
	}
	return p.lost + p.rate*(t-p.since)
}
