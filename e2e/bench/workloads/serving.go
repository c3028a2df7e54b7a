// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import "math"

// kvCache holds the caches of requests: mean-reverting with a time constant of
// 1 to 60 min.
func kvCache(d *draw) spec {
	sd := d.part(0.01, 0.15)
	n := &bounded{inner: d.noise(d.logBetween(minute, hour), sd), mid: sd * d.between(1, 3)}
	n.top = 2 * n.mid
	return healthy(d.begin(sum{level(d.part(0.1, 0.4)), &segments{d.logBetween(quantum, 64), n}}))
}

// bounded keeps a process about mid between 0 and top.
type bounded struct {
	inner    memory
	mid, top float64
}

func (b *bounded) at(t float64) float64 { return min(max(b.mid+b.inner.at(t), 0), b.top) }

// daily follows the load of a day, from any hour of it. The noise is that of 50 to
// 2000 sessions that come and go independently.
func daily(d *draw) spec {
	w := &wave{rise: d.part(0.03, 0.5), phase: d.between(0, 2*math.Pi)}
	n := d.noise(d.logBetween(30, 30*minute), w.rise*d.logBetween(0.02, 0.15))
	return healthy(sum{level(d.part(0.1, 0.3)), &bounded{inner: sum{w, n}, mid: w.rise / 10, top: d.room}})
}

// wave is a sine from 0 to rise with the period of a day.
type wave struct{ rise, phase float64 }

func (w *wave) at(t float64) float64 {
	return w.rise * (0.5 + 0.5*math.Sin(2*math.Pi*t/(24*hour)+w.phase))
}

// loadRamps goes between a low and a high load within 2 to 15 min and stays at
// each for 10 min to 2 h.
func loadRamps(d *draw) spec {
	r := &ramps{r: d.source(), rise: d.part(0.05, 0.5), stay: d.logBetween(10*minute, 2*hour), took: d.logBetween(2*minute, 12*minute)}
	n := d.noise(d.logBetween(5, 2*minute), r.rise*d.logBetween(0.01, 0.06))
	return healthy(sum{level(d.part(0.05, 0.3)), &bounded{inner: sum{r, n}, mid: r.rise / 8, top: d.room}})
}

// ramps alternates between two levels.
type ramps struct {
	r                *rng
	rise, stay, took float64
	high             bool
	next, begun, now float64
	from, to         float64
}

func (p *ramps) at(t float64) float64 {
	for t >= p.next {
		p.from = p.to
		if p.high = !p.high; p.high {
			p.to = p.rise * p.r.between(0.8, 1)
		} else {
			p.to = p.rise * p.r.between(0, 0.1)
		}
		p.begun = p.next + p.r.about(p.stay, 0.5)
		p.now = p.r.about(p.took, 0.3)
		p.next = p.begun + p.now
	}
	return p.from + (p.to-p.from)*min(max(t-p.begun, 0)/p.now, 1)
}

// tenants share the GPU; each comes, stays for minutes to hours and goes.
func tenants(d *draw) spec {
	c := &crowd{r: d.source(), most: 0.85 * d.room, arrive: d.logBetween(2*minute, 20*minute)}
	c.size = [2]float64{0.01 * d.room, 0.2 * d.room}
	c.stay = [2]float64{5 * minute, d.logBetween(20*minute, 4*hour)}
	if d.chance(0.7) {
		c.settle()
	}
	return healthy(sum{level(d.part(0.005, 0.1)), c})
}

// crowd are users that come at random, take an amount of memory, if there is as
// much, and give it back when they go. Amounts and times are log-uniform.
type crowd struct {
	r            *rng
	most, arrive float64
	size, stay   [2]float64
	users        []user
	total        float64
	next, leaves float64 // the next arrival and the next departure
}

type user struct{ until, size float64 }

// settle lets the crowd become what it is in the long run.
func (c *crowd) settle() {
	const before = 12 * hour
	c.at(before)
	for i := range c.users {
		c.users[i].until -= before
	}
	c.next -= before
	c.leaves -= before
}

func (c *crowd) at(t float64) float64 {
	for {
		switch {
		case len(c.users) > 0 && c.leaves <= t && c.leaves <= c.next:
			c.leave()
		case c.next <= t:
			c.come()
		default:
			return c.total
		}
	}
}

func (c *crowd) come() {
	u := user{c.next + c.r.logBetween(c.stay[0], c.stay[1]), c.r.logBetween(c.size[0], c.size[1])}
	c.next += c.r.exp(c.arrive)
	if c.total+u.size > c.most {
		return
	}
	c.users = append(c.users, u)
	c.total += u.size
	c.leaves = c.first()
}

// leave lets all go whose time has come.
func (c *crowd) leave() {
	kept := c.users[:0]
	c.total = 0
	for _, u := range c.users {
		if u.until > c.leaves {
			kept = append(kept, u)
			c.total += u.size
		}
	}
	c.users = kept
	c.leaves = c.first()
}

func (c *crowd) first() float64 {
	t := math.Inf(1)
	for _, u := range c.users {
		t = min(t, u.until)
	}
	return t
}
