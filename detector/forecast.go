// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// drift is growth that several series contribute to.
type drift struct {
	rate         float64 // bytes per second
	bend         float64 // bytes per second²
	variance     float64 // of the rate to come
	wander       float64 // bytes² per second
	points       int     // of the contributor with the fewest
	contributors int
}

// Leaks change until they have filled the memory. rateError is the share by which the rate
// of one does that is as even as can be. For another, the square root of its relative
// standard error is the typical share: so the errors of forecasts grew on generated series, from a
// rate that was known to 0.5 % to one known to 30 %.
const rateError = 0.05

// add adds the growth of one more leaking series.
func (d *drift) add(t *stat.Trend) {
	d.rate += t.Rate
	d.bend += t.Bend
	d.variance += t.Rate * (math.Sqrt(t.Variance) + rateError*rateError*t.Rate)
	d.wander += t.Wander
	if d.contributors == 0 || t.N < d.points {
		d.points = t.N
	}
	d.contributors++
}

// conformal is by how much wider an interval is than its model says, on the logarithmic scale: on the
// families for tuning (`make bench-detect`) nine tenths of |ln(true/foretold)| were within so many times
// the bound of the model. That is split conformal prediction (Lei, G'Sell, Rinaldo, Tibshirani and
// Wasserman, Distribution-free predictive inference for regression, 2018).
const conformal = 2.0

// secondsTo returns the time until headroom (bytes) is used up and its 90 % interval. most is what could
// become headroom at the best: all that has not leaked.
//
// The time t solves headroom = rate·t + bend·t²/2; r is the mean rate until then. Two things
// make it uncertain. The growth wanders: after t it has mean r·t and variance wander·t, and
// (headroom − r·t)² = z²·wander·t has one root before t and one after it, with
// z = 1.645·(1 + 1.5/(n−2)) for the few points that wander was estimated from. And the rate is
// another one, by a factor of e to the power of ±z·√variance/rate. The two are independent, so that
// the squares of their logarithms add up.
//
// The interval is wider on the late side: when the memory is full, an allocator gives back its cache and
// goes on, and nobody sees from outside how large that is. What has leaked cannot be given back.
func (d *drift) secondsTo(headroom, most float64) (eta, lower, upper float64) {
	if !(d.rate > 0) {
		return math.Inf(1), math.Inf(1), math.Inf(1)
	}
	t, bound := 0.0, 0.0
	if headroom > 0 {
		t, bound = d.timeTo(headroom)
	}
	late, _ := d.timeTo(max(most, headroom, 1))
	return t, t * math.Exp(-bound), late * math.Exp(bound)
}

// timeTo returns the time until so many bytes are used up, and the bound on its logarithm.
func (d *drift) timeTo(bytes float64) (t, bound float64) {
	t = 2 * bytes / (d.rate + math.Sqrt(d.rate*d.rate+2*d.bend*bytes))
	z := 1.645 * (1 + 1.5/float64(max(d.points-2, 1)))
	// The roots are t/x and t·x with (x + 1/x)/2 = 1 + z²·wander/(2·r·bytes).
	wandered := math.Acosh(1 + z*z*d.wander*t/(2*bytes*bytes))
	return t, conformal * math.Hypot(wandered, z*math.Sqrt(d.variance)/d.rate)
}
