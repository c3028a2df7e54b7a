// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// points is how many troughs a scale keeps.
const points = 88

// troughs are the points of levels in MiB, 10 s apart.
func troughs(levels []float64) (pts []Point) {
	for i, v := range levels {
		pts = append(pts, Point{At: start + time.Duration(i)*10*time.Second, V: Bytes(math.Round(v * mib))})
	}
	return pts
}

// curve is n levels from 1000 MiB on that follow f, from 0 to 1, up to high MiB more.
func curve(n int, high float64, f func(x float64) float64) (levels []float64) {
	for i := range n {
		levels = append(levels, 1000+high*f(float64(i)/float64(n-1)))
	}
	return levels
}

func straight(x float64) float64 { return x }

// The slope is that of exact arithmetic.
func TestLineIsThatOfExactRationals(t *testing.T) {
	rng := rand.New(rand.NewPCG(71, 72))
	for name, next := range map[string]func(i int) Bytes{
		"straight": func(i int) Bytes { return Bytes(10<<30 + i*133<<16) },
		"noise":    func(int) Bytes { return 10<<30 + Bytes(rng.IntN(5000))<<16 },
		"stairs":   func(i int) Bytes { return Bytes(10<<30 + i/7*1600<<16) },
		"falls":    func(i int) Bytes { return Bytes(100<<30 - i*133<<16) },
		"high":     func(i int) Bytes { return MaxBytes - Bytes(100-i)*mib },
	} {
		for _, n := range []int{4, 17, points} {
			var pts []Point
			at := start
			for i := range n {
				at += 10*time.Second + time.Duration(rng.IntN(700))*time.Millisecond
				pts = append(pts, Point{at, next(i)})
			}
			slope, _, size := rational(pts)
			l := FitLine(pts)
			if !(math.Abs(l.Rate-slope) <= 1e-9*size) {
				t.Errorf("%s: rate %g, want %g", name, l.Rate, slope)
			}
			if !(l.Variance >= 0) || !(l.Wander >= 0) || math.IsInf(l.Variance, 0) {
				t.Errorf("%s: variance %g, wander %g", name, l.Variance, l.Wander)
			}
		}
	}
	for _, pts := range [][]Point{nil, {{start, 1}, {2 * start, 2}, {3 * start, 3}}, {{start, 1}, {start, 2}, {start, 3}, {start, 4}}} {
		testkit.Equal(t, FitLine(pts), Trend{N: len(pts)}, "trend of %v", pts)
	}
}

// The variance of the slope says how far off it is where noise is about a line. Of a
// walk, whose residuals are correlated, it says less than is true, but several times
// what it would if they were not; the wander makes up for that.
func TestVarianceOfTheRate(t *testing.T) {
	const trials, rate = 400, 2 * mib
	for _, c := range []struct {
		walks       bool
		least, most float64 // actual variance over the stated one
	}{{false, 0.6, 1.3}, {true, 1, 7}} {
		rng := rand.New(rand.NewPCG(73, 74))
		var stated, actual float64
		for range trials {
			levels, walk := make([]float64, points), 0.0
			for i := range levels { // 20 MiB a trough, under noise, or that and a walk
				e := 30 * rng.NormFloat64()
				walk += e
				levels[i] = 10000 + 20*float64(i) + e
				if c.walks {
					levels[i] += walk - e
				}
			}
			l := FitLine(troughs(levels))
			stated += l.Variance / trials
			actual += (l.Rate - rate) * (l.Rate - rate) / trials
		}
		if ratio := actual / stated; ratio < c.least || ratio > c.most {
			t.Errorf("a walk: %t: the variance is %.3g times what is stated", c.walks, ratio)
		}
	}
}

// Parabolas without noise have the rate and the bend that they are made of, wherever they
// begin and however the troughs lie.
func TestParabolaIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(101, 102))
	for _, c := range []struct{ rate, bend float64 }{ // MiB/s, and MiB/s²
		{10, 0.3}, {10, -0.08}, {0, 1.2}, {-40, 0.3}, {600, 6e-4},
	} {
		for _, n := range []int{4, 12, 13, points} {
			var pts []Point
			x := 0.0
			for range n {
				pts = append(pts, Point{At: start + time.Duration(x*1e9), V: Bytes(1e14 + mib*(c.rate*x+c.bend*x*x/2))})
				x += 2 + float64(rng.IntN(30))/10
			}
			end := (pts[n-1].At - pts[0].At).Seconds()
			size := math.Abs(c.rate) + math.Abs(c.bend)*end
			rate, bend, sure := parabola(pts)
			if math.Abs(rate/mib-c.rate-c.bend*end) > 1e-6*size || math.Abs(bend/mib-c.bend)*end > 1e-6*size || c.bend*sure < 0 {
				t.Errorf("%+v, %d troughs: rate %g, bend %g, %g errors", c, n, rate/mib, bend/mib, sure)
			}
		}
	}
	for name, pts := range map[string][]Point{
		"none":        nil,
		"one":         {{9, 9}},
		"one time":    {{9, 9}, {9, 90}, {9, 900}, {9, 1}},
		"two times":   {{9, 9}, {9, 90}, {19, 900}, {19, 1}},
		"two troughs": {{9, 9}, {19, 90}},
	} {
		if rate, bend, _ := parabola(pts); rate != 0 || bend != 0 {
			t.Errorf("%s: %g, %g", name, rate, bend)
		}
	}
}

// A parabola by hand: five troughs 10 s apart, off x² MiB by −1, 2, 0, −2 and 1 times 3 MiB,
// which is orthogonal to all parabolas.
func TestParabolaByHand(t *testing.T) {
	rate, bend, sure := parabola(troughs([]float64{1000 - 3, 1100 + 6, 1400, 1900 - 6, 2600 + 3}))
	const variance = 90. / 2 * mib * mib // of a trough: two of five are left to chance
	testkit.Near(t, "rate", rate, 80*mib, 1e-12)
	testkit.Near(t, "bend", bend, 2*mib, 1e-12)
	testkit.Near(t, "bend in errors", sure, mib/math.Sqrt(variance/140_000), 1e-9)
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
}

// What is still to come of growth that slows down as an exponential does is what it lacks of its limit. Where the points do
// not show that it slows down, nothing is known to end it.
func TestSlows(t *testing.T) {
	filling := func(constants float64) func(x float64) float64 {
		return func(x float64) float64 { return 1 - math.Exp(-constants*x) }
	}
	rng := rand.New(rand.NewPCG(81, 82))
	noise := curve(points, 2000, func(x float64) float64 { return x + 0.3*rng.Float64() })
	for _, c := range []struct {
		name   string
		levels []float64
		want   float64 // MiB, at most: a parabola slows down faster; 0 it does not slow down
	}{
		{"half a time constant", curve(points, 4000, filling(0.5)), 4000 * math.Exp(-0.5)},
		{"one", curve(points, 4000, filling(1)), 4000 * math.Exp(-1)},
		{"few points", curve(slowPoints, 4000, filling(1)), 4000 * math.Exp(-1)},
		{"too few", curve(slowPoints-1, 4000, filling(1)), 0},
		{"a line", curve(points, 4000, straight), 0},
		{"it accelerates", curve(points, 4000, func(x float64) float64 { return x * x }), 0},
		{"a line under noise", noise, 0},
		{"flat", curve(points, 0, straight), 0},
	} {
		got := Slows(troughs(c.levels)) / mib
		if c.want == 0 && !math.IsInf(got, 1) || c.want > 0 && !(got > 0.4*c.want && got < c.want) {
			t.Errorf("%s: %g MiB are to come, want %g", c.name, got, c.want)
		}
	}
	// What has ended, and falls by now, brings nothing more.
	testkit.Equal(t, Slows(troughs(curve(points, 4000, func(x float64) float64 { return x * (1.2 - x) }))), 0, "what is to come after its end")
}
