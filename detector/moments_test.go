// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

type xy struct{ x, y int64 }

// rational computes the line through the points from its definition, in exact
// rational arithmetic.
func rational(points []xy) (slope, r2 float64) {
	n := new(big.Rat).SetInt64(int64(len(points)))
	sum := func(f func(xy) *big.Int) *big.Rat {
		s := new(big.Int)
		for _, p := range points {
			s.Add(s, f(p))
		}
		return new(big.Rat).SetInt(s)
	}
	mul := func(a, b int64) *big.Int { return new(big.Int).Mul(big.NewInt(a), big.NewInt(b)) }
	sx, sy := sum(func(p xy) *big.Int { return big.NewInt(p.x) }), sum(func(p xy) *big.Int { return big.NewInt(p.y) })
	central := func(s, a, b *big.Rat) *big.Rat {
		ab := new(big.Rat).Mul(a, b)
		return new(big.Rat).Sub(s, ab.Quo(ab, n))
	}
	cxx := central(sum(func(p xy) *big.Int { return mul(p.x, p.x) }), sx, sx)
	cyy := central(sum(func(p xy) *big.Int { return mul(p.y, p.y) }), sy, sy)
	cxy := central(sum(func(p xy) *big.Int { return mul(p.x, p.y) }), sx, sy)
	if cxx.Sign() == 0 || cyy.Sign() == 0 {
		return 0, 0
	}
	slope, _ = new(big.Rat).Quo(cxy, cxx).Float64()
	q := new(big.Rat).Mul(cxy, cxy)
	r2, _ = q.Quo(q, new(big.Rat).Mul(cxx, cyy)).Float64()
	return slope, r2
}

// signals are series of memory that stress different sums. Times are in ns.
var signals = map[string]func(rng *rand.Rand, i int64) int64{
	"constant":            func(*rand.Rand, int64) int64 { return 80e9 },
	"1 B/s on 80 GB":      func(_ *rand.Rand, i int64) int64 { return 80e9 + i },
	"50 MB/min":           func(_ *rand.Rand, i int64) int64 { return 10e9 + i*50e6/60 },
	"falling":             func(_ *rand.Rand, i int64) int64 { return 80e9 - i*3 },
	"2 MiB noise":         func(rng *rand.Rand, _ int64) int64 { return 40e9 + rng.Int64N(2)<<21 },
	"sawtooth of 60 GB":   func(_ *rand.Rand, i int64) int64 { return i % 37 * 60e9 / 37 },
	"one late byte":       func(_ *rand.Rand, i int64) int64 { return 80e9 + i/1799 },
	"huge":                func(_ *rand.Rand, i int64) int64 { return MaxBytes * (i % 2) },
	"symmetric, no slope": func(_ *rand.Rand, i int64) int64 { return (i - 900) * (i - 900) },
}

func TestSlidingLineIsThatOfExactRationals(t *testing.T) {
	const tolerance = 1e-12 // the contract asks for 1e-9
	for name, signal := range signals {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 6))
			w := window{span: 600e9}
			var all []xy
			x := int64(1_700_000_000_000_000_000)
			for i := range int64(1800) {
				x += 1e9 + rng.Int64N(1e6) // sampling jitters
				if i == 1200 {
					x += 100e9 // a gap
				}
				y := signal(rng, i)
				w.add(x, y, 1e9, 0)
				all = append(all, xy{x, y})
				if i%97 != 0 || i < 10 {
					continue
				}
				got := w.fit()
				if !got.Slope.OK {
					continue
				}
				slope, r2 := rational(all[int64(len(all))-got.N:])
				near(t, "slope", got.Slope.V, slope*1e9, tolerance)
				near(t, "R²", got.R2.V, r2, tolerance)
				if edge := all[int64(len(all))-got.N].x; x-edge >= 600e9 || (i > 700 && i < 1200 && x-edge < 588e9) {
					t.Fatalf("sample %d: the fit reaches back %d s of 600 s", i, (x-edge)/1e9)
				}
			}
		})
	}
}

func near(t *testing.T, what string, got, want, relative float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > relative*math.Abs(want) {
		t.Fatalf("%s is %.17g, want %.17g within %g of it", what, got, want, relative)
	}
}

// A day at ten samples a second, with values near the bound, does not overflow,
// and a year of sliding loses nothing.
func TestLongSlideDoesNotDrift(t *testing.T) {
	w := window{span: int64(MaxWindow)}
	const step = 7e9
	var x int64
	for i := range int64(4_000_000) {
		x += step
		w.add(x, MaxBytes/2+i%5*3, step, 0)
	}
	got := w.fit()
	var last []xy
	for i := 4_000_000 - got.N; i < 4_000_000; i++ {
		last = append(last, xy{(i + 1) * step, MaxBytes/2 + i%5*3})
	}
	slope, r2 := rational(last)
	near(t, "slope", got.Slope.V, slope*1e9, 1e-12)
	near(t, "R²", got.R2.V, r2, 1e-12)
	if got.Fill != 1 {
		t.Errorf("fill is %g", got.Fill)
	}
}

func TestShiftedSeriesHaveTheSameLine(t *testing.T) {
	fit := func(dx, dy int64) Fit {
		rng := rand.New(rand.NewPCG(7, 8))
		w := window{span: 600e9}
		for i := range int64(1000) {
			w.add(dx+i*1e9+rng.Int64N(1e8), dy+rng.Int64N(1e10), 1e9, 0)
		}
		return w.fit()
	}
	want := fit(0, 0)
	for _, d := range []xy{{1e18, 0}, {0, 1e14}, {1.7e18 + 3, 12345678901}} {
		if got := fit(d.x, d.y); got != want {
			t.Errorf("shifted by %+v: %+v, want %+v", d, got, want)
		}
	}
}

func TestScaledSeriesHaveTheScaledLine(t *testing.T) {
	fit := func(factor int64) Fit {
		rng := rand.New(rand.NewPCG(9, 10))
		w := window{span: 600e9}
		for i := range int64(1000) {
			w.add(i*1e9+rng.Int64N(1e8), factor*(i*1e7+rng.Int64N(1e10)), 1e9, 0)
		}
		return w.fit()
	}
	want := fit(1)
	if want.R2.V < 0.001 || want.R2.V > 0.999 {
		t.Fatalf("R² is %g: the test shows little", want.R2.V)
	}
	for _, factor := range []int64{2, 3, 1024, -1, 999_983} {
		got := fit(factor)
		near(t, "slope", got.Slope.V, float64(factor)*want.Slope.V, 1e-12)
		near(t, "R²", got.R2.V, want.R2.V, 1e-12)
	}
}

func TestWindowForgetsWhatIsOutside(t *testing.T) {
	w := window{span: 60e9}
	for i := range int64(100) {
		w.add(i*1e9, i*i, 1e9, 1)
	}
	w.add(1000e9, 5, 3e9, 0)
	if f := w.fit(); f.N != 1 || f.Slope.OK || w.spikes != 0 || w.covered != 0 || w.closed.n != 0 || w.newest().covered != 3000 {
		t.Errorf("after a gap longer than the window: %+v of %+v", f, w)
	}
}

// Months between samples are no more than the window.
func TestWindowOfRareSamplesIsCovered(t *testing.T) {
	w := window{span: int64(MaxWindow)}
	for i := range int64(20) {
		w.add(i*3e15, 0, 3e15, 0) // a month
		if f := w.fit(); f.Fill < 0 || f.Fill > 1 || w.covered < 0 {
			t.Fatalf("fill %g, %d ms covered", f.Fill, w.covered)
		}
	}
}

// More samples than a window was proven for shorten it instead.
func TestCrowdedWindowStaysBounded(t *testing.T) {
	w := window{span: int64(MaxWindow)}
	for i := range int64(maxBlockSamples*3 + 5) {
		w.add(i, i, 1, 0)
	}
	if w.len != 4 || w.fit().N != maxBlockSamples*3+5 {
		t.Errorf("%d blocks hold %d samples", w.len, w.fit().N)
	}
}
