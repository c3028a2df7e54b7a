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

// wanderRoot returns a root of (headroom − r·t)² = z²·wander·t, at or before headroom/r or at
// or after it, by bisection of the logarithm of t.
func wanderRoot(headroom, r, zz float64, late bool) float64 {
	above := func(t float64) bool { return (headroom-r*t)*(headroom-r*t) > zz*t }
	in, out := headroom/r, headroom/r // above holds beyond out only
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

// solved checks that the time to out-of-memory and its bounds solve the equations
// that they are defined by.
func solved(t *testing.T, d *drift, headroom float64) {
	t.Helper()
	eta, lower, upper := d.secondsTo(headroom)
	if !(lower >= 0 && lower <= eta && eta <= upper) {
		t.Errorf("%+v, headroom %g: %g is not in [%g, %g]", d, headroom, eta, lower, upper)
	}
	z := 1.645 * (1 + 1.5/float64(max(d.points-2, 1)))
	mid, s := math.Sqrt(lower)*math.Sqrt(upper), math.Log(upper/lower)/(2*z)
	near(t, "growth until the middle", d.rate*mid+d.bend*mid*mid/2, headroom, 1e-9)
	switch {
	case s > z: // s² is more than the half of the interval
		if eta != lower {
			t.Errorf("%+v, headroom %g: %g, want the lower bound %g", d, headroom, eta, lower)
		}
	default:
		near(t, "the forecast of the middle", eta, mid*math.Exp(-s*s), 1e-9)
	}
	r := headroom / mid
	wandering, changing := 0.0, z*math.Sqrt(d.variance)/d.rate // logarithms of the factors
	if d.wander > 0 {
		late := wanderRoot(headroom, r, z*z*d.wander, true)
		near(t, "the early root, mirrored", mid*mid/wanderRoot(headroom, r, z*z*d.wander, false), late, 1e-6)
		wandering = math.Log(late / mid)
	}
	both := math.Sqrt(wandering*wandering + changing*changing)
	if both > 600 { // e to that power is no number to divide by
		return
	}
	if !(lower > 0) || math.IsInf(upper, 0) {
		t.Errorf("%+v, headroom %g: [%g, %g], and the factor is e^%g only", d, headroom, lower, upper, both)
	}
	for _, ln := range []float64{math.Log(upper / mid), math.Log(mid / lower)} {
		if math.Abs(ln-both) > 1e-6*both+1e-7 { // what is next to nothing is lost in rounding
			t.Errorf("%+v, headroom %g: a factor of e^%.9g, want e^%.9g, of %g and %g", d, headroom, ln, both, wandering, changing)
		}
	}
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
		for _, headroom := range []float64{1, mib, gib, 80 * gib, MaxBytes} {
			solved(t, &d, headroom)
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
	const mib2 = mib * mib
	for _, c := range []struct {
		d         drift
		factor, s float64
	}{
		{drift{points: 5, variance: 0.01 * mib2}, math.Exp(0.1 * 1.645 * 1.5), 0.1},
		{drift{points: 3, variance: 0.01 * mib2}, math.Exp(0.1 * 1.645 * 2.5), 0.1},
		{drift{points: 1, variance: 0.01 * mib2}, math.Exp(0.1 * 1.645 * 2.5), 0.1},
		{drift{points: 152, variance: 0.01 * mib2}, math.Exp(0.1 * 1.645 * 1.01), 0.1},
		// With u = t/1000 s and z²·wander = 500 MiB²/s: (1 − u)² = u/2, and u is 2 or ½.
		{drift{points: 5, wander: 500 * mib2 / (2.4675 * 2.4675)}, 2, math.Ln2 / 2.4675},
		{drift{points: 5, variance: 0.01 * mib2, wander: 500 * mib2 / (2.4675 * 2.4675)}, math.Exp(math.Hypot(math.Ln2, 0.24675)), math.Hypot(math.Ln2/2.4675, 0.1)},
	} {
		c.d.rate = mib
		eta, lower, upper := c.d.secondsTo(1000 * mib)
		near(t, "time", eta, 1000/math.Exp(c.s*c.s), 1e-9)
		near(t, "upper bound", upper, 1000*c.factor, 1e-9)
		near(t, "lower bound", lower, 1000/c.factor, 1e-9)
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
	near(t, "variance", d.variance, 10*2+30*math.Sqrt(6)+0.0025*(100+900+400), 1e-12)
}

// Parabolas without noise have the rate and the bend that they are made of, wherever they
// begin and however the troughs lie.
func TestParabolaIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(101, 102))
	for _, c := range []struct{ rate, bend float64 }{ // units a tick, and a tick²
		{16, 0.5}, {16, -0.125}, {0, 2}, {-64, 0.5}, {1000, 1e-3},
	} {
		for _, n := range []int{4, 12, 13, scaleBlocks} {
			var pts []point
			at := int32(0)
			for range n {
				x := float64(at)
				pts = append(pts, point{at: 12345 + at, v: uint32(1e7 + math.Round(c.rate*x+c.bend*x*x/2))})
				at += 20 + int32(rng.IntN(30))
			}
			end := float64(pts[n-1].at - pts[0].at)
			scale := math.Abs(c.rate) + math.Abs(c.bend)*end
			p := fitParabola(pts)
			rate, bend := p.rate/(unit/seconds(tick)), p.bend/(unit/seconds(tick)/seconds(tick))
			if math.Abs(rate-c.rate-c.bend*end) > 3e-3*scale || math.Abs(bend-c.bend)*end > 3e-3*scale {
				t.Errorf("%+v, %d troughs: rate %g, bend %g", c, n, rate, bend)
			}
			stated := math.Sqrt(p.variance) / (unit / seconds(tick)) // what is left is rounding
			if !(stated <= 3e-3*scale && p.wander >= 0) || c.bend*p.sure < 0 {
				t.Errorf("%+v, %d troughs: %+v", c, n, p)
			}
		}
	}
	for name, pts := range map[string][]point{
		"none":        nil,
		"one":         {{at: 9, v: 9}},
		"one time":    {{at: 9, v: 9}, {at: 9, v: 90}, {at: 9, v: 900}, {at: 9, v: 1}},
		"two times":   {{at: 9, v: 9}, {at: 9, v: 90}, {at: 19, v: 900}, {at: 19, v: 1}},
		"two troughs": {{at: 9, v: 9}, {at: 19, v: 90}},
	} {
		if p := fitParabola(pts); p != (parabola{}) {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// A parabola by hand: five troughs 10 s apart, off x² MiB by −1, 2, 0, −2 and 1 times 3 MiB,
// which is orthogonal to all parabolas.
func TestParabolaByHand(t *testing.T) {
	p := fitParabola(troughs([]float64{1000 - 3, 1100 + 6, 1400, 1900 - 6, 2600 + 3}))
	const variance = 90. / 2 * mib * mib // of a trough: two of five are left to chance
	near(t, "rate", p.rate, 80*mib, 1e-12)
	near(t, "bend", p.bend, 2*mib, 1e-12)
	near(t, "bend in errors", p.sure, mib/math.Sqrt(variance/140_000), 1e-9)
	near(t, "variance", p.variance, variance/1000+40*40*variance/140_000, 1e-9)
	if p.wander != 0 {
		t.Errorf("it wanders: %g", p.wander)
	}
}

// The bend of a line under white noise is as many standard errors as chance makes it, the rate
// at its end as far off as it says; and of a walk it says less than is true, as fitLine does.
func TestErrorsOfTheParabola(t *testing.T) {
	const trials, n, noise, rate = 600, 60, 30.0, 20.0 // MiB, MiB a block
	for _, walks := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(103, 104))
		var sure, stated, actual, wander float64
		for range trials {
			levels, walk := make([]float64, n), 0.0
			for i := range levels {
				e := noise * rng.NormFloat64()
				walk += e
				levels[i] = 10000 + rate*float64(i) + e
				if walks {
					levels[i] += walk - e
				}
			}
			p := fitParabola(troughs(levels))
			sure += p.sure * p.sure / trials
			stated += p.variance / trials
			actual += (p.rate - rate*mib/10) * (p.rate - rate*mib/10) / trials
			wander += p.wander / trials * 10 / (noise * noise * mib * mib) // of a walk that is 1 at best
		}
		t.Logf("a walk: %t: bend %.3g errors², variance %.3g times what is stated, wander %.3g", walks, sure, actual/stated, wander)
		switch {
		case !walks && (math.Abs(sure-1) > 0.2 || math.Abs(actual/stated-1) > 0.2 || wander > 0.2):
			t.Errorf("noise: bend %g errors², variance %g times what is stated, wander %g", sure, actual/stated, wander)
		case walks && (sure > 7 || actual/stated < 1 || actual/stated > 7 || wander < 0.6 || wander > 1.1):
			t.Errorf("a walk: bend %g errors², variance %g times what is stated, wander %g", sure, actual/stated, wander)
		}
	}
}

// Traffic that makes a leak faster and slower, some times over, does not bend it; growth that
// is quadratic is bent under the same noise, and the line and the parabola are each told whole.
func TestTrafficIsNoBend(t *testing.T) {
	const n, noise = 88, 0.004
	for _, c := range []struct {
		name string
		f    func(x, phase float64) float64
		bend bool
	}{
		{"even", func(x, _ float64) float64 { return x }, false},
		{"one and a half turns", func(x, phase float64) float64 { return x - 0.4/(3*math.Pi)*math.Cos(3*math.Pi*(x+phase)) }, false},
		{"two turns", func(x, phase float64) float64 { return x - 0.5/(4*math.Pi)*math.Cos(4*math.Pi*(x+phase)) }, false},
		{"four turns", func(x, phase float64) float64 { return x - 0.8/(8*math.Pi)*math.Cos(8*math.Pi*(x+phase)) }, false},
		{"faster by 60 % of the mean", func(x, _ float64) float64 { return 0.7*x + 0.3*x*x }, true},
		{"faster by 30 % of the mean", func(x, _ float64) float64 { return 0.85*x + 0.15*x*x }, true},
		{"faster by 20 % of the mean", func(x, _ float64) float64 { return 0.9*x + 0.1*x*x }, false},
		{"slower by 60 % of the mean", func(x, _ float64) float64 { return 1.3*x - 0.3*x*x }, false},
	} {
		rng := rand.New(rand.NewPCG(105, 106))
		bent := 0
		for i := range 40 {
			pts := troughs(curve(n, 1e4, func(x float64) float64 {
				return 1 + c.f(x, float64(i)/20) + noise*rng.NormFloat64()
			}))
			fit, l, p := fitTrend(pts), fitLine(pts), fitParabola(pts)
			want := trend{rate: l.rate, variance: l.variance, wander: l.wander, n: n}
			if fit.bend != 0 {
				bent++
				want = trend{rate: p.rate, bend: p.bend, variance: p.variance, wander: p.wander, n: n}
			}
			if fit != want {
				t.Errorf("%s: %+v, want %+v", c.name, fit, want)
			}
		}
		t.Logf("%s: %d of 40 are bent", c.name, bent)
		if bent != 40*btoi(c.bend) {
			t.Errorf("%s: %d of 40 are bent", c.name, bent)
		}
	}
}

// A bend counts from just over eight standard errors on, and from twelve troughs on.
func TestBendIsEightErrors(t *testing.T) {
	bent := func(n int, noise float64) (parabola, bool) {
		levels := curve(n, 1e4, func(x float64) float64 { return x * x })
		for i := range levels { // a pattern whose neighbours are opposite: not correlated
			levels[i] += noise * float64(1-2*(i%2))
		}
		return fitParabola(troughs(levels)), fitTrend(troughs(levels)).bend != 0
	}
	least, most := math.Inf(1), 0.0
	for noise := 500.0; noise < 4000; noise *= 1.002 {
		if p, is := bent(40, noise); is {
			least = min(least, p.sure)
		} else {
			most = max(most, p.sure)
		}
	}
	if least < 8 || most > 8 || least > 8.1 || most < 7.9 {
		t.Errorf("bends of %g errors on count, those up to %g do not", least, most)
	}
	if _, is := bent(12, 1); !is {
		t.Error("twelve troughs are not bent")
	}
	if _, is := bent(11, 1); is {
		t.Error("eleven troughs are bent")
	}
}

// The correlation of neighbours is half of what their changes lack of those of noise, and
// in bounds.
func TestCorrelation(t *testing.T) {
	for _, c := range []struct{ errors, changes, want float64 }{
		{100, 200, 0}, {100, 100, 0.5}, {100, 20, 0.9}, {100, 0, 0.95}, {100, 1, 0.95}, {100, 399, 0}, {0, 0, 0}, {-1, 5, 0},
	} {
		if got := correlation(c.errors, c.changes); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v: %g", c, got)
		}
	}
	rng := rand.New(rand.NewPCG(107, 108))
	for _, want := range []float64{0, 0.3, 0.7, 0.9} {
		x, last, errors, changes := 0.0, 0.0, 0.0, 0.0
		for range 100_000 {
			last, x = x, want*x+rng.NormFloat64()
			errors += x * x
			changes += (x - last) * (x - last)
		}
		about(t, "correlation", correlation(errors, changes), want)
	}
}
