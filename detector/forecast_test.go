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
		l      stat.Trend
		factor float64
	}{
		{stat.Trend{N: 5, Variance: 0.01 * square}, math.Exp(0.1 * 1.645 * 1.5)},
		{stat.Trend{N: 3, Variance: 0.01 * square}, math.Exp(0.1 * 1.645 * 2.5)},
		{stat.Trend{N: 1, Variance: 0.01 * square}, math.Exp(0.1 * 1.645 * 2.5)},
		{stat.Trend{N: 152, Variance: 0.01 * square}, math.Exp(0.1 * 1.645 * 1.01)},
		// With u = t/1000 s and z²·wander = 500 MiB²/s: (1 − u)² = u/2, and u is 2 or ½.
		{stat.Trend{N: 5, Wander: 500 * square / (2.4675 * 2.4675)}, 2},
		{stat.Trend{N: 5, Variance: 0.01 * square, Wander: 500 * square / (2.4675 * 2.4675)}, math.Exp(math.Hypot(math.Ln2, 0.24675))},
	} {
		c.l.Rate = mib
		h := leakHorizon(&c.l, 1000*mib)
		near(t, "time", h.eta, 1000, 1e-9)
		near(t, "lower bound", h.lower, 1000/math.Pow(c.factor, conformal), 1e-9)
		near(t, "upper bound", h.upper, 1000*math.Pow(c.factor, conformal), 1e-9)
	}
}

func TestForecastAtTheEnds(t *testing.T) {
	never := math.Inf(1)
	for name, c := range map[string]struct {
		l             stat.Trend
		headroom, eta float64
	}{
		"no leak":                        {stat.Trend{}, gib, never},
		"it shrinks":                     {stat.Trend{Rate: -mib}, gib, never},
		"it is no number":                {stat.Trend{Rate: math.NaN()}, gib, never},
		"no leak, and no headroom":       {stat.Trend{}, 0, never},
		"no headroom":                    {stat.Trend{Rate: mib, N: 9}, 0, 0},
		"less than none":                 {stat.Trend{Rate: mib, N: 9}, -gib, 0},
		"a thousand seconds, exactly so": {stat.Trend{Rate: mib, N: 9}, 1000 * mib, 1000},
	} {
		if h := leakHorizon(&c.l, c.headroom); h.eta != c.eta || h.lower != c.eta || h.upper != c.eta {
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
					l := stat.Trend{Rate: rate, Variance: variance, Wander: wander, N: 12}
					if h := leakHorizon(&l, headroom); !(h.lower >= 0 && h.lower <= h.eta && h.eta <= h.upper) {
						t.Fatalf("%+v, headroom %g: %+v", l, headroom, h)
					}
				}
			}
		}
	}
}

// The trend of several leaks is their sum, and no surer than the one of the fewest points.
func TestTrendsAdd(t *testing.T) {
	var s sum
	leak := Verdict{Leak: true}
	s.add(&leak, &stat.Trend{Rate: 10, Variance: 4, Wander: 5, N: 40})
	s.add(&leak, &stat.Trend{Rate: 30, Variance: 6, Wander: 7, N: 17})
	s.add(&leak, &stat.Trend{Rate: 20, N: 60})
	s.add(&Verdict{}, &stat.Trend{Rate: 90, N: 1})
	if s.trend.Rate != 60 || s.trend.Wander != 12 || s.trend.N != 17 {
		t.Errorf("%+v", s.trend)
	}
	near(t, "variance", s.trend.Variance, 10*2+30*math.Sqrt(6)+0.0025*(100+900+400), 1e-12)
}
