// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The slope is that of exact arithmetic.
func TestLineIsThatOfExactRationals(t *testing.T) {
	rng := rand.New(rand.NewPCG(71, 72))
	for name, next := range map[string]func(i int) uint32{
		"straight":     func(i int) uint32 { return uint32(163840 + i*133) },
		"noise":        func(int) uint32 { return 163840 + rng.Uint32N(5000) },
		"stairs":       func(i int) uint32 { return uint32(163840 + i/7*1600) },
		"falls":        func(i int) uint32 { return uint32(1638400 - i*133) },
		"near the end": func(i int) uint32 { return math.MaxUint32 - uint32(100-i)*64 },
	} {
		for _, n := range []int{3, 4, 17, scaleBlocks} {
			var pts []point
			var exact []xy
			at := int32(rng.IntN(1e9))
			for i := range n {
				at += 100 + int32(rng.IntN(7))
				p := point{at: at, v: next(i)}
				pts, exact = append(pts, p), append(exact, xy{int64(p.at), int64(p.v)})
			}
			slope, _ := rational(exact)
			l := fitLine(pts)
			near(t, name+": rate", l.rate, slope*unit/seconds(tick), 1e-9)
			near(t, name+": span", l.span, float64(pts[n-1].at-pts[0].at)/10, 1e-12)
			if !(l.variance >= 0) || !(l.wander >= 0) || math.IsInf(l.variance, 0) {
				t.Errorf("%s: variance %g, wander %g", name, l.variance, l.wander)
			}
		}
	}
}

// The variance of the slope says how far off it is where noise is about a line. Of a
// walk, whose residuals are correlated, it says less than is true, but several times
// what it would if they were not; the wander makes up for that.
func TestVarianceOfTheRate(t *testing.T) {
	const trials, n, rate = 400, scaleBlocks, 20.0 // MiB a block
	for _, c := range []struct {
		name        string
		wanders     bool
		least, most float64 // actual variance over the stated one
	}{{"noise about a line", false, 0.6, 1.3}, {"a walk", true, 1, 7}} {
		rng := rand.New(rand.NewPCG(73, 74))
		var stated, actual float64
		for range trials {
			levels, walk := make([]float64, n), 0.0
			for i := range levels {
				e := 30 * rng.NormFloat64()
				walk += e
				levels[i] = 10000 + rate*float64(i) + e
				if c.wanders {
					levels[i] += walk - e
				}
			}
			l := fitLine(troughs(levels))
			stated += l.variance / trials
			actual += (l.rate - rate*mib/10) * (l.rate - rate*mib/10) / trials
		}
		if ratio := actual / stated; ratio < c.least || ratio > c.most {
			t.Errorf("%s: the variance is %.3g times what is stated", c.name, ratio)
		}
	}
}

// A leak accelerates only where chance does not explain it.
func TestBendIsSure(t *testing.T) {
	rng := rand.New(rand.NewPCG(75, 76))
	for _, c := range []struct {
		name string
		f    func(x float64) float64
		n    int
		bend bool
		rate float64 // at the end, in units of high per block; 0: not asked
	}{
		{"straight", line01, 96, false, 1},
		{"straight, with noise", func(x float64) float64 { return x + 0.02*rng.NormFloat64() }, 96, false, 0},
		{"quadratic", func(x float64) float64 { return x * x }, 96, true, 2},
		{"quadratic, with noise", func(x float64) float64 { return x*x + 0.02*rng.NormFloat64() }, 96, true, 0},
		{"a little faster", func(x float64) float64 { return x * (1 + 0.1*x) }, 96, false, 0},
		{"lost in noise", func(x float64) float64 { return x*x + 0.5*rng.NormFloat64() }, 96, false, 0},
		{"slows down", saturating, 96, false, 0},
		{"of few troughs", func(x float64) float64 { return x * x }, 11, false, 0},
		{"has just begun", func(x float64) float64 { return max(0, 3*x-2) }, 96, false, 0},
	} {
		levels := curve(c.n, 1e5, c.f)
		for i := range levels {
			levels[i] += 4e5 // no noise reaches down to 0
		}
		fit := fitTrend(troughs(levels))
		if (fit.bend > 0) != c.bend || fit.n != c.n {
			t.Errorf("%s: %+v", c.name, fit)
		}
		perBlock := 1e5 * mib / float64(c.n-1) / 10
		if c.rate > 0 {
			near(t, c.name+": rate at the end", fit.rate, c.rate*perBlock, 0.03)
		}
		if c.name == "quadratic" {
			near(t, "bend", fit.bend, 2*perBlock/float64(c.n-1)/10, 0.03)
		}
	}
	for n := range 4 {
		if fit := fitTrend(troughs(curve(n, 10, line01))); fit != (trend{n: n}) {
			t.Errorf("%d troughs: %+v", n, fit)
		}
	}
}

// solved checks that the time to out-of-memory and its bounds solve the equations
// that they are defined by.
func solved(t *testing.T, d *drift, headroom float64) {
	t.Helper()
	eta, lower, upper := d.secondsTo(headroom)
	near(t, "growth until then", d.rate*eta+d.bend*eta*eta/2, headroom, 1e-9)
	r := headroom / eta
	s2 := d.variance * r * r / (d.rate * d.rate)
	z := 1.645 * (1 + 1.5/float64(max(d.points-2, 1)))
	for _, x := range []float64{lower, upper} {
		if math.IsInf(x, 1) {
			if r*r > z*z*s2*(1+1e-9) {
				t.Errorf("%+v: no upper bound", d)
			}
			continue
		}
		left, right := (headroom-r*x)*(headroom-r*x), z*z*(d.wander*x+s2*x*x)
		if math.Abs(left-right) > 1e-6*(headroom*headroom+left) {
			t.Errorf("%+v, headroom %g: at %g s %g is not %g", d, headroom, x, left, right)
		}
	}
	if !(lower > 0 && lower <= eta && eta <= upper) {
		t.Errorf("%+v: %g is not in [%g, %g]", d, eta, lower, upper)
	}
}

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
		for _, headroom := range []float64{1, mib, gib, 80 * gib, MaxBytes} {
			solved(t, &d, headroom)
		}
	}
	rng := rand.New(rand.NewPCG(77, 78))
	for range 5000 {
		between := func(least, most float64) float64 { return least * math.Pow(most/least, rng.Float64()) }
		d := drift{rate: between(1, 1e10), points: 1 + rng.IntN(96)}
		d.variance = d.rate * d.rate * between(1e-6, 10) * float64(rng.IntN(2))
		d.wander = between(1, 1e18) * float64(rng.IntN(2))
		d.bend = d.rate * between(1e-7, 1e-2) * float64(rng.IntN(2))
		solved(t, &d, between(mib, MaxBytes))
	}
}

func TestForecastAtTheEnds(t *testing.T) {
	never := math.Inf(1)
	for name, c := range map[string]struct {
		d                 drift
		headroom          float64
		eta, lower, upper float64
	}{
		"no leak":                        {drift{}, gib, never, never, never},
		"it shrinks":                     {drift{rate: -mib}, gib, never, never, never},
		"it is no number":                {drift{rate: math.NaN()}, gib, never, never, never},
		"no leak, and no headroom":       {drift{}, 0, never, never, never},
		"no headroom":                    {drift{rate: mib, points: 9}, 0, 0, 0, 0},
		"less than none":                 {drift{rate: mib, points: 9}, -gib, 0, 0, 0},
		"a thousand seconds, exactly so": {drift{rate: mib, points: 9}, 1000 * mib, 1000, 1000, 1000},
	} {
		eta, lower, upper := c.d.secondsTo(c.headroom)
		if eta != c.eta || lower != c.lower || upper != c.upper {
			t.Errorf("%s: %g in [%g, %g], want %+v", name, eta, lower, upper, c)
		}
	}
}

// However absurd what it is asked, a forecast is no NaN, not negative and inside of
// its bounds.
func TestForecastIsNeverNaN(t *testing.T) {
	values := []float64{0, 1e-9, 1, mib, 1e15, MaxBytes, 1e30, 1e60}
	for _, rate := range []float64{-1, 0, 1e-9, 1, mib, 1e15, 1e30} {
		for _, bend := range values {
			for _, variance := range values {
				for _, wander := range values {
					for _, headroom := range []float64{-1, 0, 1e-9, 1, mib, MaxBytes} {
						d := drift{rate: rate, bend: bend, variance: variance, wander: wander, points: 12}
						eta, lower, upper := d.secondsTo(headroom)
						if !(lower >= 0 && lower <= eta && eta <= upper) {
							t.Fatalf("%+v, headroom %g: %g in [%g, %g]", d, headroom, eta, lower, upper)
						}
					}
				}
			}
		}
	}
}

// The drift of several leaks is their sum, and no surer than the one of the fewest
// troughs.
func TestDriftAdds(t *testing.T) {
	var d drift
	d.add(&trend{rate: 10, bend: 1, variance: 4, wander: 5, n: 40})
	d.add(&trend{rate: 30, bend: 2, variance: 6, wander: 7, n: 17})
	d.add(&trend{rate: 20, n: 60})
	if d.rate != 60 || d.bend != 3 || d.wander != 12 || d.points != 17 {
		t.Errorf("%+v", d)
	}
	near(t, "variance", d.variance, 10+rateError*rateError*(100+900+400), 1e-12)
}
