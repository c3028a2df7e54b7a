// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "math"

// drift is growth that several series contribute to.
type drift struct {
	rate                   float64 // bytes per second
	variance, rateVariance float64 // as in growth
	levels                 int     // of the contributor with the fewest
}

// add adds the growth of one more leaking series.
func (d *drift) add(g *growth) {
	d.rate += g.rate
	d.variance += g.variance
	d.rateVariance += g.rateVariance
	if d.levels == 0 || g.levels < d.levels {
		d.levels = g.levels
	}
}

// secondsTo returns the time until headroom (bytes) is used up, headroom/rate,
// and its 90 % interval.
//
// Growth is taken for a compound renewal process: after t its amount has mean
// rate·t and variance w·t + s²·t², w the variance of steps and gaps and s that
// of the estimated rate. The bounds solve (headroom − rate·t)² = z²(w·t + s²t²)
// for t, with z = 1.645·(1 + 1.5/(levels−2)) for the few gaps that the variance
// was estimated from.
func (d *drift) secondsTo(headroom float64) (eta, lower, upper float64) {
	if !(d.rate > 0) {
		return math.Inf(1), math.Inf(1), math.Inf(1)
	}
	headroom = max(headroom, 0)
	eta = headroom / d.rate
	z := 1.645 * (1 + 1.5/float64(max(d.levels-2, 1)))
	a := d.rate*d.rate - z*z*d.rateVariance
	b := 2*headroom*d.rate + z*z*d.variance
	root := math.Sqrt(max(0, b*b-4*a*headroom*headroom))
	// The smaller root in the form that loses no digits and holds for a ≤ 0 too.
	lower = 2 * headroom * headroom / (b + root)
	if headroom == 0 {
		lower = 0
	}
	upper = math.Inf(1)
	if a > 0 {
		upper = (b + root) / (2 * a)
	}
	return eta, min(lower, eta), max(upper, eta)
}
