// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// A forecast by hand: 1000 MiB at 1 MiB/s. z is 1.645·1.5 for five troughs, and 1.645·2.5 for three or fewer.
func TestForecastByHand(t *testing.T) {
	const square = mib * mib
	for _, c := range []struct {
		d      drift
		factor float64
	}{
		{drift{points: 5, variance: 0.01 * square}, math.Exp(0.1 * 1.645 * 1.5)},
		{drift{points: 3, variance: 0.01 * square}, math.Exp(0.1 * 1.645 * 2.5)},
		{drift{points: 1, variance: 0.01 * square}, math.Exp(0.1 * 1.645 * 2.5)},
		{drift{points: 152, variance: 0.01 * square}, math.Exp(0.1 * 1.645 * 1.01)},
		// With u = t/1000 s and z²·wander = 500 MiB²/s: (1 − u)² = u/2, and u is 2 or ½.
		{drift{points: 5, wander: 500 * square / (2.4675 * 2.4675)}, 2},
		{drift{points: 5, variance: 0.01 * square, wander: 500 * square / (2.4675 * 2.4675)}, math.Exp(math.Hypot(math.Ln2, 0.24675))},
	} {
		c.d.rate = mib
		h := c.d.horizon(1000 * mib)
		near(t, "time", h.eta, 1000, 1e-9)
		near(t, "lower bound", h.lower, 1000/math.Pow(c.factor, conformal), 1e-9)
		near(t, "upper bound", h.upper, 1000*math.Pow(c.factor, conformal), 1e-9)
	}
}

func TestForecastAtTheEnds(t *testing.T) {
	never := math.Inf(1)
	for name, c := range map[string]struct {
		d             drift
		headroom, eta float64
	}{
		"no leak":                        {drift{}, gib, never},
		"it shrinks":                     {drift{rate: -mib}, gib, never},
		"it is no number":                {drift{rate: math.NaN()}, gib, never},
		"no leak, and no headroom":       {drift{}, 0, never},
		"no headroom":                    {drift{rate: mib, points: 9}, 0, 0},
		"less than none":                 {drift{rate: mib, points: 9}, -gib, 0},
		"a thousand seconds, exactly so": {drift{rate: mib, points: 9}, 1000 * mib, 1000},
	} {
		if h := c.d.horizon(c.headroom); h.eta != c.eta || h.lower != c.eta || h.upper != c.eta {
			t.Errorf("%s: %+v, want %+v", name, h, c)
		}
	}
}

// However absurd what it is asked, a forecast is no NaN, not negative and inside of
// its bounds.
func TestForecastIsNeverNaN(t *testing.T) {
	values := []float64{0, 1e-9, 1, mib, 1e15, MaxBytes, 1e30, 1e60}
	rooms := []float64{-1, 0, 1e-9, 1, mib, MaxBytes}
	for _, rate := range []float64{-1, 0, 1e-9, 1, mib, 1e15, 1e30} {
		for _, variance := range values {
			for _, wander := range values {
				for _, headroom := range rooms {
					d := drift{rate: rate, variance: variance, wander: wander, points: 12}
					if h := d.horizon(headroom); !(h.lower >= 0 && h.lower <= h.eta && h.eta <= h.upper) {
						t.Fatalf("%+v, headroom %g: %+v", d, headroom, h)
					}
				}
			}
		}
	}
}

// The drift of several leaks is their sum, and no surer than the one of the fewest troughs.
func TestDriftAdds(t *testing.T) {
	var d drift
	d.add(&stat.Trend{Rate: 10, Variance: 4, Wander: 5, N: 40})
	d.add(&stat.Trend{Rate: 30, Variance: 6, Wander: 7, N: 17})
	d.add(&stat.Trend{Rate: 20, N: 60})
	if d.rate != 60 || d.wander != 12 || d.points != 17 {
		t.Errorf("%+v", d)
	}
	near(t, "variance", d.variance, 10*2+30*math.Sqrt(6)+0.0025*(100+900+400), 1e-12)
}
