// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

const (
	mib = 1 << 20
	// start is a day in 2026 as time since the epoch.
	start = 1_770_000_000 * time.Second
)

// rational computes the line through the points from its definition, in exact rational arithmetic:
// its slope in bytes per second, R², and how far memory is from its mean over how far times are, which
// is the size of the slope that matters.
func rational(points []Point) (slope, r2, size float64) {
	n := new(big.Rat).SetInt64(int64(len(points)))
	sum := func(f func(Point) *big.Int) *big.Rat {
		s := new(big.Int)
		for _, p := range points {
			s.Add(s, f(p))
		}
		return new(big.Rat).SetInt(s)
	}
	x := func(p Point) *big.Int { return big.NewInt(int64(p.At)) }
	y := func(p Point) *big.Int { return big.NewInt(int64(p.V)) }
	central := func(a, b func(Point) *big.Int) *big.Rat {
		ab := new(big.Rat).Mul(sum(a), sum(b))
		return new(big.Rat).Sub(sum(func(p Point) *big.Int { return new(big.Int).Mul(a(p), b(p)) }), ab.Quo(ab, n))
	}
	cxx, cxy, cyy := central(x, x), central(x, y), central(y, y)
	if cxx.Sign() == 0 || cyy.Sign() == 0 {
		return 0, 0, 0
	}
	slope, _ = new(big.Rat).Quo(cxy, cxx).Float64()
	square, _ := new(big.Rat).Quo(cyy, cxx).Float64()
	q := new(big.Rat).Mul(cxy, cxy)
	r2, _ = q.Quo(q, new(big.Rat).Mul(cxx, cyy)).Float64()
	return slope * 1e9, r2, math.Sqrt(square) * 1e9
}

// same checks that a fit is that of exact arithmetic.
func same(t *testing.T, f Fit, points []Point) {
	t.Helper()
	slope, r2, size := rational(points)
	if !(math.Abs(f.Slope.V-slope) <= 1e-9*size) || !(math.Abs(f.R2.V-r2) <= 1e-9) || f.N != int64(len(points)) {
		t.Fatalf("%+v, want slope %g, R² %g of %d points", f, slope, r2, len(points))
	}
}

// signals are series of memory that stress different sums.
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
	for name, signal := range signals {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, 6))
			w := Window{Span: 10 * time.Minute}
			var all []Point
			at := start
			for i := range int64(1800) {
				at += time.Second + time.Duration(rng.Int64N(1e6)) // sampling jitters
				if i == 1200 {
					at += 100 * time.Second // a gap
				}
				p := Point{at, Bytes(signal(rng, i))}
				w.Add(p.At, p.V, time.Second, 0)
				all = append(all, p)
				if f := w.Fit(); i%97 == 0 && f.Slope.OK {
					in := all[int64(len(all))-f.N:]
					same(t, f, in)
					if age := at - in[0].At; age >= w.Span || i > 700 && i < 1200 && age < 578*time.Second {
						t.Fatalf("sample %d: the fit reaches back %s", i, age)
					}
				}
			}
		})
	}
}

// Days of sliding lose nothing.
func TestLongSlideDoesNotDrift(t *testing.T) {
	w := Window{Span: 24 * time.Hour}
	const step, n = 7 * time.Second, 400_000
	value := func(i int64) Bytes { return Bytes(80e9 + i%5*2*mib) }
	for i := range int64(n) {
		w.Add(start+time.Duration(i)*step, value(i), step, 0)
	}
	f := w.Fit()
	var last []Point
	for i := n - f.N; i < n; i++ {
		last = append(last, Point{start + time.Duration(i)*step, value(i)})
	}
	if same(t, f, last); f.Fill != 1 {
		t.Errorf("fill is %g", f.Fill)
	}
}

func TestWindowForgetsWhatIsOutside(t *testing.T) {
	w := Window{Span: time.Minute}
	for i := range 100 {
		w.Add(start+time.Duration(i)*time.Second, Bytes(i*i), time.Second, 1)
	}
	if f := w.Fit(); f.N != 60 || f.Spikes.V != 60 || f.Fill != 1 {
		t.Errorf("in the last minute: %+v", f)
	}
	w.Add(start+1000*time.Second, 5, 3*time.Second, 0)
	if f := w.Fit(); f.N != 1 || f.Slope.OK || f.Fill > 0.06 || len(w.Blocks) != 1 || w.Closed != (Block{}) {
		t.Errorf("after a gap longer than the window: %+v of %+v", f, w)
	}
}

// Blocks are aligned with the first sample, and no more than MaxBlocks, also where they do not fit into the span.
func TestBlocksAreAligned(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	w := Window{Span: MaxBlocks*time.Second + 1}
	for at := start; at < start+10*time.Minute; at += time.Duration(1+rng.IntN(5)) * time.Second / 4 {
		w.Add(at, 0, time.Second, 0)
		for _, b := range w.Blocks {
			if len(w.Blocks) > MaxBlocks || (b.From-start)%time.Second != 0 {
				t.Fatalf("%s: %d blocks, one from %s on", at-start, len(w.Blocks), b.From-start)
			}
		}
	}
}

// There is no fit of few samples, of a part of the window, or of one moment.
func TestNoFit(t *testing.T) {
	for name, c := range map[string]struct {
		n       int
		covered time.Duration
		ok      bool
	}{
		"enough":       {5, 2 * time.Second, true},
		"four samples": {4, 10 * time.Second, false},
		"little time":  {5, time.Second, false},
	} {
		w := Window{Span: time.Minute}
		for i := range c.n {
			w.Add(start+time.Duration(i)*c.covered, Bytes(i), c.covered, 0)
		}
		if f := w.Fit(); f.Slope.OK != c.ok || f.R2.OK != c.ok || f.Spikes.OK != c.ok {
			t.Errorf("%s: %+v", name, f)
		}
	}
	testkit.Equal(t, (&Window{Span: time.Minute}).Fit(), Fit{Span: time.Minute}, "fit of an empty window")
	if _, _, ok := (&Moments{N: 2}).Line(); ok {
		t.Error("two samples at one time have a line")
	}
}

// Months between samples are no more than the window.
func TestWindowOfRareSamplesIsCovered(t *testing.T) {
	const month = 30 * 24 * time.Hour
	w := Window{Span: 24 * time.Hour}
	for i := range 20 {
		w.Add(time.Duration(i)*month, 0, month, 0)
		if f := w.Fit(); f.Fill < 0 || f.Fill > 1.02 || f.N != 1 {
			t.Fatalf("%+v", f)
		}
	}
}

// Samples that are no further apart than a nanosecond share their blocks.
func TestCrowdedWindow(t *testing.T) {
	w := Window{Span: 24 * time.Hour}
	for i := range 100_000 {
		w.Add(start+time.Duration(i), Bytes(i), 1, 0)
	}
	if f := w.Fit(); len(w.Blocks) != 1 || f.N != 100_000 {
		t.Errorf("%d blocks hold %d samples", len(w.Blocks), f.N)
	}
}

// FuzzWindow: a window is restored to the last digit. Whatever the bytes are, they are refused or are those of what was read.
func FuzzWindow(f *testing.F) {
	w := Window{Span: time.Hour}
	for i := range 50 {
		w.Add(start+time.Duration(i*i)*time.Second, Bytes(i*i)*mib, time.Second, i%2)
		saved, _ := w.GobEncode()
		var again Window
		if err := again.GobDecode(saved); err != nil || fmt.Sprint(w) != fmt.Sprint(again) {
			f.Fatalf("%v: %v, then %v", err, w, again)
		}
		f.Add(saved)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var w, again Window
		if w.GobDecode(b) != nil {
			return
		}
		saved, _ := w.GobEncode()
		if err := again.GobDecode(saved); err != nil || fmt.Sprint(w) != fmt.Sprint(again) {
			t.Errorf("%v: %v, then %v", err, w, again)
		}
	})
}

// What ends within a block, or has one too many, is refused.
func TestWindowsThatCannotBe(t *testing.T) {
	const block = 9
	for n, ok := range map[int]bool{0: false, 1: true, block: false, 1 + block: true, 1 + MaxBlocks*block: true, 1 + (MaxBlocks+1)*block: false} {
		var w Window
		if err := w.GobDecode(make([]byte, n)); (err == nil) != ok || ok && len(w.Blocks) != n/block {
			t.Errorf("%d bytes: %d blocks, %v", n, len(w.Blocks), err)
		}
	}
}
