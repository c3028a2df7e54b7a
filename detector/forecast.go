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

// secondsTo returns the time until headroom (bytes) is used up and its 90 %
// interval.
//
// The time t solves headroom = rate·t + bend·t²/2; r is the mean rate until then. Two things
// make it uncertain. The growth wanders: after t it has mean r·t and variance wander·t, and
// (headroom − r·t)² = z²·wander·t has one root before t and one after it, with
// z = 1.645·(1 + 1.5/(n−2)) for the few points that wander was estimated from. And the rate is
// another one, by a factor of e to the power of ±z·√variance/rate. The two are independent, so that
// the squares of their logarithms add up.
//
// The time is taken as log-normal, with the median t and the standard deviation s =
// ln(upper/lower)/(2·z) of its logarithm. eta is the forecast whose error is the least share of the
// time on average: t·exp(−s²), the median of the density that is in proportion to 1/t times that of
// the time (T. Gneiting, Making and Evaluating Point Forecasts, 2011: the absolute percentage
// error). What is not sure is foretold sooner than at the middle, but in the interval.
func (d *drift) secondsTo(headroom float64) (eta, lower, upper float64) {
	if !(d.rate > 0) {
		return math.Inf(1), math.Inf(1), math.Inf(1)
	}
	if headroom <= 0 {
		return 0, 0, 0
	}
	t := 2 * headroom / (d.rate + math.Sqrt(d.rate*d.rate+2*d.bend*headroom))
	z := 1.645 * (1 + 1.5/float64(max(d.points-2, 1)))
	// The roots are t/x and t·x with (x + 1/x)/2 = 1 + z²·wander/(2·r·headroom).
	wandered := math.Acosh(1 + z*z*d.wander*t/(2*headroom*headroom))
	bound := math.Hypot(wandered, z*math.Sqrt(d.variance)/d.rate)
	s := bound / z
	return t * math.Exp(-min(s*s, bound)), t * math.Exp(-bound), t * math.Exp(bound)
}
