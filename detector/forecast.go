// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "math"

// drift is growth that several series contribute to.
type drift struct {
	rate         float64 // bytes per second
	bend         float64 // bytes per second²
	variance     float64 // of rate
	wander       float64 // bytes² per second
	points       int     // of the contributor with the fewest
	contributors int
}

// rateError is the share by which the rate of a leak is taken to change until it
// has filled the memory, beside what its troughs tell.
const rateError = 0.14

// add adds the growth of one more leaking series.
func (d *drift) add(t *trend) {
	d.rate += t.rate
	d.bend += t.bend
	d.variance += t.variance + rateError*rateError*t.rate*t.rate
	d.wander += t.wander
	if d.contributors == 0 || t.n < d.points {
		d.points = t.n
	}
	d.contributors++
}

// secondsTo returns the time until headroom (bytes) is used up and its 90 %
// interval.
//
// The time t solves headroom = rate·t + bend·t²/2. After t the growth has mean r·t,
// where r is the mean rate until then, and variance w·t + s²·t², w that of its
// wandering and s that of the estimated rate. The bounds solve
// (headroom − r·t)² = z²(w·t + s²t²) for t, with z = 1.645·(1 + 1.5/(n−2)) for the
// few points that the variances were estimated from.
func (d *drift) secondsTo(headroom float64) (eta, lower, upper float64) {
	if !(d.rate > 0) {
		return math.Inf(1), math.Inf(1), math.Inf(1)
	}
	if headroom <= 0 {
		return 0, 0, 0
	}
	eta = 2 * headroom / (d.rate + math.Sqrt(d.rate*d.rate+2*d.bend*headroom))
	rate := headroom / eta
	variance := d.variance * (rate * rate) / (d.rate * d.rate)
	z := 1.645 * (1 + 1.5/float64(max(d.points-2, 1)))
	a := rate*rate - z*z*variance
	b := 2*headroom*rate + z*z*d.wander
	root := math.Sqrt(max(0, b*b-4*a*headroom*headroom))
	// The smaller root in the form that loses no digits and holds for a ≤ 0 too.
	lower = 2 * headroom * headroom / (b + root)
	upper = math.Inf(1)
	if a > 0 {
		upper = (b + root) / (2 * a)
	}
	return eta, min(lower, eta), max(upper, eta)
}
