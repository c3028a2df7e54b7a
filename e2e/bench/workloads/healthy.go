// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import "math"

// made is a kind with its name.
type made struct {
	name string
	make func(d *draw) spec
}

// healthyKinds are the kinds without a leak.
var healthyKinds = []made{
	{"constant", constant},
	{"model-load", modelLoad},
	{"warm-up", warmUp},
	{"autotune", autotune},
	{"allocator", allocator},
	{"epochs-grow", epochsGrow},
	{"epochs-eval", epochsEval},
	{"sawtooth", sawtooth},
	{"kv-cache", kvCache},
	{"daily", daily},
	{"load-ramps", loadRamps},
	{"tenants", tenants},
	{"restarts", restarts},
	{"batch-queue", batchQueue},
	{"steps", steps},
	{"desktop", desktop},
	{"random-walk", randomWalk},
}

func healthy(m memory) spec { return spec{background: m} }

// constant loads once and stays.
func constant(d *draw) spec { return healthy(d.begin(level(d.part(0.05, 1)))) }

// modelLoad reads a model in a straight line for 1 to 20 min, in whole shards
// or tensor by tensor.
func modelLoad(d *draw) spec {
	fill := &line{from: d.logBetween(1, hour), rise: d.part(0.1, 0.9), took: d.logBetween(minute, 20*minute)}
	m := sum{level(d.between(0, 500)), &segments{d.logBetween(quantum, 500), fill}}
	return healthy(m)
}

// straightFill is modelLoad for 15 to 90 min, or a cache that fills as fast as
// it is asked.
func straightFill(d *draw) spec {
	fill := &line{from: d.logBetween(1, hour), rise: d.part(0.1, 0.8), took: d.between(15*minute, 90*minute)}
	return healthy(sum{level(d.part(0.02, 0.2)), &segments{d.logBetween(quantum, 100), fill}})
}

// line rises in a straight line and stays.
type line struct{ from, rise, took, now float64 }

func (l *line) at(t float64) float64 {
	l.now = t
	return l.rise * min(max(t-l.from, 0)/l.took, 1)
}

func (l *line) fills() bool {
	return l.took > straightFrom && l.now >= l.from && l.now < l.from+l.took
}

// warmUp fills a cache whose misses become rare: exponential, with a time
// constant of 1 to 20 min.
func warmUp(d *draw) spec {
	w := &warm{rise: d.part(0.05, 0.6), tau: d.logBetween(minute, 20*minute)}
	m := sum{level(d.part(0.05, 0.3)), &segments{d.segment(), w}}
	if d.chance(0.3) {
		m = append(m, d.noise(d.logBetween(10, 5*minute), w.rise*d.logBetween(0.002, 0.05)))
	}
	return healthy(d.fromIdle(m))
}

// segment returns a size of segments of PyTorch's caching allocator: 2 MiB for
// small blocks, 20 MiB for those of 1 to 10 MiB, multiples of 2 MiB above.
func (d *draw) segment() float64 {
	return []float64{2, 20, 2 * math.Ceil(d.logBetween(5, 100))}[d.r.IntN(3)]
}

// warm approaches a level exponentially.
type warm struct{ rise, tau float64 }

func (w *warm) at(t float64) float64 { return w.rise * (1 - math.Exp(-t/w.tau)) }

// autotune tries algorithms with a work space of their own, often at first and
// later for each new shape.
func autotune(d *draw) spec {
	p := &spikes{r: d.source(), often: d.logBetween(2, 30), rare: d.logBetween(5*minute, hour), busy: d.logBetween(minute, 10*minute)}
	p.height, p.width = d.part(0.02, 0.2), d.logBetween(0.5, 20)
	return healthy(d.begin(sum{level(d.part(0.05, 0.7)), p}))
}

// spikes come every often seconds while busy, every rare seconds afterwards.
type spikes struct {
	r                                *rng
	often, rare, busy, height, width float64
	next, end, now                   float64
}

func (s *spikes) at(t float64) float64 {
	for t >= s.next {
		gap := s.rare
		if s.next < s.busy {
			gap = s.often
		}
		s.end = s.next + s.r.about(s.width, 0.8)
		s.now = s.height * s.r.between(0.2, 1)
		s.next = s.end + s.r.exp(gap)
	}
	if t < s.end {
		return s.now
	}
	return 0
}

// allocator is a caching allocator: each pool keeps the most that was ever asked
// of it, and inputs of changing length ask for more or less. Some pools come
// into use late: evaluation, another branch.
func allocator(d *draw) spec { return healthy(d.begin(d.pools())) }

func (d *draw) pools() memory {
	m := sum{level(d.context() + d.part(0.02, 0.3))}
	for i := range 1 + d.r.IntN(5) {
		p := &pool{r: d.source(), every: d.logBetween(0.2, 10), segment: d.segment(), tail: d.r.IntN(3)}
		p.scale = d.part(0.002, 0.03)
		if i > 0 && d.chance(0.4) {
			p.next = d.logBetween(minute, 2*hour)
		}
		m = append(m, p)
	}
	return m
}

// pool reserves the maximum of a stationary demand. Of independent demands only
// the records matter: with e the demand in units of its exponential order
// statistic, the next record comes after about every*exp(e) seconds and is
// higher by an exponential variable.
type pool struct {
	r                     *rng
	every, scale, segment float64
	tail                  int
	next, e, reserved     float64
}

func (p *pool) at(t float64) float64 {
	for t >= p.next {
		p.e += p.r.ExpFloat64()
		p.reserved = math.Ceil(p.demand()/p.segment) * p.segment
		p.next += p.r.exp(p.every * math.Exp(p.e))
	}
	return p.reserved
}

// demand returns the demand of the level e: with an exponential tail, a bounded
// one (inputs are cut at a length) or about a log-normal one.
func (p *pool) demand() float64 {
	switch p.tail {
	case 0:
		return p.scale * (1 + p.e)
	case 1:
		return p.scale * 8 * (1 - math.Exp(-p.e/6))
	default:
		return p.scale * math.Exp(0.4*math.Sqrt(2*p.e))
	}
}

// steps loads 3 to 6 models one after another.
func steps(d *draw) spec {
	n := 3 + d.r.IntN(4)
	same, size := d.chance(0.25), d.part(0.01, 0.15)
	m := sum{level(d.part(0.02, 0.2))}
	for range n {
		rise := d.part(0.01, 0.15)
		if same {
			rise = size
		}
		m = append(m, &line{from: d.between(minute, min(d.length, 6*hour)), rise: rise, took: d.logBetween(1, minute)})
	}
	return healthy(m)
}

// desktop is a screen: windows come and go, textures change.
func desktop(d *draw) spec {
	m := &crowd{
		r: d.source(), most: min(3*gib, d.room-1000), arrive: d.logBetween(20, 10*minute),
		size: [2]float64{4, 400}, stay: [2]float64{5, hour},
	}
	m.settle()
	return healthy(sum{level(d.between(200, 900)), m, &flicker{r: d.source(), often: d.logBetween(0.01, 0.5), size: d.logBetween(2, 20)}})
}

// flicker changes by a little now and then and does not add up.
type flicker struct {
	r           *rng
	often, size float64
	now         float64
}

func (f *flicker) at(float64) float64 {
	if f.r.Float64() < f.often {
		f.now = f.size * f.r.Float64()
	}
	return f.now
}

// randomWalk has steps of either sign with equal chance, between reflecting
// bounds: nothing leaks, yet nothing is given back for hours.
func randomWalk(d *draw) spec {
	w := &walk{r: d.source(), hi: min(d.logBetween(0.5*gib, 16*gib), 0.8*d.room), step: d.logBetween(2, 40), every: d.logBetween(1, minute)}
	w.now = w.hi * d.between(0, 1)
	return healthy(sum{level(d.part(0.05, 0.15)), w})
}

// walk is a random walk between 0 and hi.
type walk struct {
	r               *rng
	hi, step, every float64
	now, next       float64
}

func (w *walk) at(t float64) float64 {
	for ; t >= w.next; w.next += w.every {
		step := w.step * (0.5 + w.r.Float64())
		if w.r.Uint64()&1 == 0 {
			step = -step
		}
		w.now = math.Abs(w.now + step)
		if w.now > w.hi {
			w.now = 2*w.hi - w.now
		}
	}
	return w.now
}
