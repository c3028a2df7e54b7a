// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import "math"

// epochsGrow collects for 5 to 50 min and then frees everything.
func epochsGrow(d *draw) spec {
	c := &cycle{r: d.source(), grow: d.logBetween(5*minute, 50*minute), rise: d.part(0.03, 0.7), jitter: d.between(0, 0.15)}
	c.pause = d.between(0, 3*minute)
	c.bent = d.chance(0.3)
	return healthy(d.begin(sum{level(d.part(0.02, 0.25)), &segments{d.logBetween(quantum, 200), c}}))
}

// sawtooth fills and empties every 20 s to 1 h.
func sawtooth(d *draw) spec { return healthy(d.begin(d.sawtooth(d.part(0.005, 0.6)))) }

// sawtooth returns one with the given height in MiB. A trough is never quite the
// one before it.
func (d *draw) sawtooth(rise float64) memory {
	c := &cycle{r: d.source(), grow: d.logBetween(20, hour), rise: rise, jitter: d.between(0, 0.3)}
	c.wander = rise * d.logBetween(0.001, 0.1)
	if d.chance(0.5) {
		c.pause = c.grow * d.between(0, 0.5)
	}
	return sum{level(d.part(0.02, 0.3)), c}
}

// cycle rises by about rise within about grow seconds, falls at once and waits.
type cycle struct {
	r                          *rng
	grow, pause, rise, jitter  float64
	bent                       bool    // it rises as a square root
	wander                     float64 // the range of the troughs
	begun, took, height, floor float64
	now, next                  float64
}

func (c *cycle) at(t float64) float64 {
	for t >= c.next {
		c.begun = c.next
		c.took = c.r.about(c.grow, c.jitter)
		c.height = c.r.about(c.rise, c.jitter)
		c.floor = c.wander * c.r.Float64()
		c.next += c.took + c.pause
	}
	c.now = t
	x := (t - c.begun) / c.took
	if x >= 1 {
		return c.floor
	}
	if c.bent {
		x = math.Sqrt(x)
	}
	return c.floor + c.height*x
}

func (c *cycle) fills() bool { return !c.bent && c.took > straightFrom && c.now < c.begun+c.took }

// epochsEval trains at a level, evaluates at another and writes checkpoints; in
// the first epochs the allocator still grows.
func epochsEval(d *draw) spec {
	e := d.epochs()
	e.jitter = d.between(0, 0.1)
	m := sum{level(d.part(0.05, 0.4)), e}
	for range d.r.IntN(3) {
		m = append(m, &pool{r: d.source(), every: d.logBetween(0.2, 10), segment: 20, scale: d.part(0.002, 0.02)})
	}
	return healthy(d.begin(m))
}

// epochs returns epochs of 2 to 30 min.
func (d *draw) epochs() *epochs {
	return &epochs{
		r: d.source(), epoch: d.logBetween(2*minute, 30*minute), share: d.between(0.05, 0.25), eval: d.part(0.02, 0.3),
		spike: d.part(0.01, 0.15), width: d.logBetween(2, 30),
	}
}

// epochs are of training, evaluation and a checkpoint.
type epochs struct {
	r                                         *rng
	epoch, jitter, share, eval, spike, width  float64
	next, evalFrom, saveFrom, height, saveTop float64
}

func (e *epochs) at(t float64) float64 {
	for t >= e.next {
		took := e.epoch
		if e.jitter > 0 {
			took = e.r.about(e.epoch, e.jitter)
		}
		e.next += took
		e.saveFrom = e.next - min(e.width, took/4)
		e.evalFrom = e.saveFrom - e.share*took
		e.height = e.r.about(e.eval, 0.03)
		e.saveTop = e.r.about(e.spike, 0.1)
	}
	switch {
	case t >= e.saveFrom:
		return e.saveTop
	case t >= e.evalFrom:
		return e.height
	default:
		return 0
	}
}

// restarts is a program that ends or dies every 10 min to 2 h and starts again.
func restarts(d *draw) spec {
	j := &jobs{r: d.source(), idle: d.between(0, 400), jitter: d.between(0.02, 0.5)}
	j.run = [2]float64{d.logBetween(10*minute, 2*hour), 0}
	j.top = [2]float64{d.part(0.1, 0.7), 0}
	j.gap = [2]float64{5, minute}
	j.load = [2]float64{10, 3 * minute}
	if d.chance(0.5) {
		j.warm = [2]float64{0.02, 0.3}
	}
	return healthy(j)
}

// batchQueue runs one job after another, each of another size.
func batchQueue(d *draw) spec {
	return healthy(&jobs{
		r: d.source(), idle: d.between(0, 400),
		run: [2]float64{minute, d.logBetween(5*minute, hour)}, top: [2]float64{0.02 * d.room, 0.7 * d.room},
		gap: [2]float64{2, 2 * minute}, load: [2]float64{3, 2 * minute}, warm: [2]float64{0.01, 0.3},
	})
}

// jobs run one after another. Each range holds the bounds of a log-uniform
// variable; with 0 as its upper bound it is about the lower one.
type jobs struct {
	r                            *rng
	idle, jitter                 float64
	run, top, gap, load          [2]float64
	warm                         [2]float64 // the share that is taken slowly
	next, begun, end, now, loads float64
	slow, tau                    float64
}

func (j *jobs) at(t float64) float64 {
	for t >= j.next {
		j.begun = j.next + j.draw(j.gap)
		j.end = j.begun + j.draw(j.run)
		j.next = j.end
		j.now, j.loads = j.draw(j.top), j.draw(j.load)
		if j.warm[1] > 0 {
			j.slow, j.tau = j.draw(j.warm), j.r.logBetween(20, 10*minute)
		}
	}
	x := t - j.begun
	if x < 0 {
		return j.idle
	}
	v := j.now * min(x/j.loads, 1)
	if j.slow > 0 {
		v *= 1 - j.slow*math.Exp(-x/j.tau)
	}
	return j.idle + v
}

func (j *jobs) draw(bounds [2]float64) float64 {
	if bounds[1] == 0 {
		return j.r.about(bounds[0], j.jitter)
	}
	return j.r.logBetween(bounds[0], bounds[1])
}
