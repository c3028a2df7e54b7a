// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// wanderRoot returns a root of (bytes − r·t)² = z²·wander·t, at or before bytes/r or at or after it, by
// bisection of the logarithm of t.
func wanderRoot(bytes, r, zz float64, late bool) float64 {
	above := func(t float64) bool { return (bytes-r*t)*(bytes-r*t) > zz*t }
	in, out := bytes/r, bytes/r // above holds beyond out only
	for above(out) == above(in) {
		if late {
			out *= 4
		} else {
			out /= 4
		}
	}
	for range 200 {
		mid := math.Sqrt(in) * math.Sqrt(out)
		if above(mid) {
			out = mid
		} else {
			in = mid
		}
	}
	return out
}

// solved checks that the time until so many bytes are used up and its bound solve the equations that
// they are defined by.
func solved(t *testing.T, d *drift, bytes float64) {
	t.Helper()
	at, bound := d.timeTo(bytes)
	near(t, "growth until then", d.rate*at+d.bend*at*at/2, bytes, 1e-9)
	z, r := 1.645*(1+1.5/float64(max(d.points-2, 1))), bytes/at
	wandering, changing := 0.0, z*math.Sqrt(d.variance)/d.rate // logarithms of the factors
	if d.wander > 0 {
		late := wanderRoot(bytes, r, z*z*d.wander, true)
		near(t, "the early root, mirrored", at*at/wanderRoot(bytes, r, z*z*d.wander, false), late, 1e-6)
		wandering = math.Log(late / at)
	}
	want := conformal * math.Sqrt(wandering*wandering+changing*changing)
	if math.Abs(bound-want) > 1e-6*want+1e-7 { // what is next to nothing is lost in rounding
		t.Errorf("%+v, %g bytes: a factor of e^%.9g, want e^%.9g, of %g and %g", d, bytes, bound, want, wandering, changing)
	}
	eta, lower, upper := d.secondsTo(bytes, bytes)
	if eta != at {
		t.Errorf("%+v, %g bytes: %g, want %g", d, bytes, eta, at)
	}
	near(t, "the lower end", lower, at*math.Exp(-bound), 1e-9)
	near(t, "the upper end", upper, at*math.Exp(bound), 1e-9)
}

// The interval is made of that of a leak that wanders and that of one whose rate changes.
func TestForecastSolvesItsEquation(t *testing.T) {
	for _, d := range []drift{
		{rate: mib, points: 96},
		{rate: mib, variance: 0.01 * mib * mib, points: 96},
		{rate: mib, variance: 0.01 * mib * mib, points: 4},
		{rate: mib, variance: 0.01 * mib * mib, wander: 1e15, points: 30},
		{rate: mib, variance: 10 * mib * mib, points: 30},
		{rate: mib, wander: 1e13, points: 30},
		{rate: mib, bend: 100, variance: 1e8, wander: 1e13, points: 96},
		{rate: 1, bend: 1e4, variance: 0.01, points: 96},
		{rate: 1e-9, variance: 1e-20, points: 1},
	} {
		for _, bytes := range []float64{1, mib, gib, 80 * gib, MaxBytes} {
			solved(t, &d, bytes)
		}
	}
	rng := rand.New(rand.NewPCG(77, 78))
	for range 2000 {
		between := func(least, most float64) float64 { return least * math.Pow(most/least, rng.Float64()) }
		d := drift{rate: between(1, 1e10), points: 1 + rng.IntN(96)}
		d.variance = d.rate * d.rate * between(1e-6, 10) * float64(rng.IntN(2))
		d.wander = between(1, 1e18) * float64(rng.IntN(2))
		d.bend = d.rate * between(1e-7, 1e-2) * float64(rng.IntN(2))
		solved(t, &d, between(mib, MaxBytes))
	}
}

// A forecast by hand: 1000 MiB at 1 MiB/s. z is 1.645·1.5 for five troughs, and 1.645·2.5 for
// three or fewer.
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
		eta, lower, upper := c.d.secondsTo(1000*mib, 3000*mib)
		near(t, "time", eta, 1000, 1e-9)
		near(t, "lower bound", lower, 1000/math.Pow(c.factor, conformal), 1e-9)
		if c.d.wander == 0 { // that wanders less over a longer time
			near(t, "upper bound", upper, 3000*math.Pow(c.factor, conformal), 1e-9)
		}
	}
}

func TestForecastAtTheEnds(t *testing.T) {
	never := math.Inf(1)
	for name, c := range map[string]struct {
		d                 drift
		headroom, most    float64
		eta, lower, upper float64
	}{
		"no leak":                        {drift{}, gib, gib, never, never, never},
		"it shrinks":                     {drift{rate: -mib}, gib, gib, never, never, never},
		"it is no number":                {drift{rate: math.NaN()}, gib, gib, never, never, never},
		"no leak, and no headroom":       {drift{}, 0, 0, never, never, never},
		"no headroom":                    {drift{rate: mib, points: 9}, 0, 10 * mib, 0, 0, 10},
		"less than none":                 {drift{rate: mib, points: 9}, -gib, 10 * mib, 0, 0, 10},
		"a thousand seconds, exactly so": {drift{rate: mib, points: 9}, 1000 * mib, 1000 * mib, 1000, 1000, 1000},
		"most is less":                   {drift{rate: mib, points: 9}, 1000 * mib, 10 * mib, 1000, 1000, 1000},
	} {
		eta, lower, upper := c.d.secondsTo(c.headroom, c.most)
		if eta != c.eta || lower != c.lower || upper != c.upper {
			t.Errorf("%s: %g in [%g, %g], want %+v", name, eta, lower, upper, c)
		}
	}
}

// However absurd what it is asked, a forecast is no NaN, not negative and inside of
// its bounds.
func TestForecastIsNeverNaN(t *testing.T) {
	values := []float64{0, 1e-9, 1, mib, 1e15, MaxBytes, 1e30, 1e60}
	rooms := []float64{-1, 0, 1e-9, 1, mib, MaxBytes}
	for _, rate := range []float64{-1, 0, 1e-9, 1, mib, 1e15, 1e30} {
		for _, bend := range values {
			for _, variance := range values {
				for _, wander := range values {
					for i, headroom := range rooms {
						d := drift{rate: rate, bend: bend, variance: variance, wander: wander, points: 12}
						eta, lower, upper := d.secondsTo(headroom, rooms[len(rooms)-1-i])
						if !(lower >= 0 && lower <= eta && eta <= upper) {
							t.Fatalf("%+v, headroom %g: %g in [%g, %g]", d, headroom, eta, lower, upper)
						}
					}
				}
			}
		}
	}
}

// The drift of several leaks is their sum, and no surer than the one of the fewest troughs.
func TestDriftAdds(t *testing.T) {
	var d drift
	d.add(&stat.Trend{Rate: 10, Bend: 1, Variance: 4, Wander: 5, N: 40})
	d.add(&stat.Trend{Rate: 30, Bend: 2, Variance: 6, Wander: 7, N: 17})
	d.add(&stat.Trend{Rate: 20, N: 60})
	if d.rate != 60 || d.bend != 3 || d.wander != 12 || d.points != 17 {
		t.Errorf("%+v", d)
	}
	near(t, "variance", d.variance, 10*2+30*math.Sqrt(6)+0.0025*(100+900+400), 1e-12)
}
