// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

const (
	mib = 1 << 20
	gib = 1 << 30
	// start is a time of these years: the sums must not suffer from the distance
	// to the epoch.
	start = 1_790_000_000 * time.Second
)

// generators make series of n samples. Each draws from its own seeded source.
var generators = []struct {
	name string
	make func(r *rand.Rand, n int) []Point
}{
	{"constant", func(_ *rand.Rand, n int) []Point {
		return every(time.Second, n, func(int) int64 { return 80e9 })
	}},
	{"1 B/s over 80 GB", func(_ *rand.Rand, n int) []Point {
		return every(time.Second, n, func(i int) int64 { return 80e9 + int64(i) })
	}},
	{"-3 B/s over 80 GB", func(_ *rand.Rand, n int) []Point {
		return every(time.Second, n, func(i int) int64 { return 80e9 - 3*int64(i) })
	}},
	{"2 MiB/s", func(_ *rand.Rand, n int) []Point {
		return every(time.Second, n, func(i int) int64 { return 2 * mib * int64(i) })
	}},
	{"one step at the end", func(_ *rand.Rand, n int) []Point {
		return every(time.Second, n, func(i int) int64 { return 40*gib + 2*mib*int64(i/(n-1)) })
	}},
	{"staircase", func(r *rand.Rand, n int) []Point {
		y := int64(10 * gib)
		return every(time.Second, n, func(int) int64 {
			if r.IntN(40) == 0 {
				y += 20 * mib
			}
			return y
		})
	}},
	{"sawtooth", func(_ *rand.Rand, n int) []Point {
		return every(time.Second, n, func(i int) int64 { return 30*gib + int64(i%120)*12*mib })
	}},
	{"random walk", func(r *rand.Rand, n int) []Point {
		y := int64(40 * gib)
		return every(time.Second, n, func(int) int64 {
			y += 2 * mib * int64(r.IntN(3)-1)
			return y
		})
	}},
	{"noise", func(r *rand.Rand, n int) []Point {
		return every(time.Second, n, func(int) int64 { return 60*gib + 2*mib*r.Int64N(512) })
	}},
	{"jitter of the clock", func(r *rand.Rand, n int) []Point {
		p := every(time.Second, n, func(i int) int64 { return 20*gib + mib*int64(i) })
		for i := range p {
			p[i].T += time.Duration(r.IntN(400)) * time.Millisecond
		}
		return p
	}},
	{"gaps", func(r *rand.Rand, n int) []Point {
		t, y := start, int64(20*gib)
		p := make([]Point, n)
		for i := range p {
			t += time.Second
			if r.IntN(100) == 0 {
				t += time.Duration(r.IntN(90)) * time.Second
			}
			y += mib * r.Int64N(4)
			p[i] = Point{t, y}
		}
		return p
	}},
	{"samples every 100 ms", func(r *rand.Rand, n int) []Point {
		return every(100*time.Millisecond, n, func(i int) int64 { return 5*gib + int64(i)*4096 + r.Int64N(mib) })
	}},
	{"samples every 15 s", func(r *rand.Rand, n int) []Point {
		return every(15*time.Second, n, func(i int) int64 { return 5*gib + int64(i)*mib + r.Int64N(mib) })
	}},
}

func every(interval time.Duration, n int, y func(i int) int64) []Point {
	p := make([]Point, n)
	for i := range p {
		p[i] = Point{T: start + time.Duration(i)*interval, Y: y(i)}
	}
	return p
}

const (
	samples = 4500 // at 1 s: longer than the longest window
	// A check costs a hundred times as much as a sample.
	checkEvery = 13
)

// TestFit holds slope and R² of each window against exact arithmetic, and the
// slope against deriv() of Prometheus over the same samples.
func TestFit(t *testing.T) {
	for i, g := range generators {
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			points := g.make(rand.New(rand.NewPCG(1, uint64(i))), samples)
			cfg := detector.DefaultConfig()
			domain, err := detector.NewDomain(func(detector.Subject[int]) detector.Config { return cfg })
			harness.Must(t, err)
			engine := NewEngine(points)
			checked := make([]int, len(cfg.Windows))
			for n := 1; n <= len(points); n++ {
				last := points[n-1]
				err := domain.Observe(&detector.Frame[int]{T: last.T, Used: detector.Of(float64(last.Y))})
				harness.Must(t, err)
				if n%checkEvery != 0 && n != len(points) {
					continue
				}
				judgement := domain.Judgement()
				for w, window := range cfg.Windows {
					fit := judgement.Device.Windows[w]
					checkEdge(t, points[:n], window, fit.N)
					if fit.Slope.OK {
						checked[w]++
						checkExact(t, points[n-int(fit.N):n], fit)
						checkDeriv(t, engine, points[:n], fit)
					}
				}
				if t.Failed() {
					t.Fatalf("after %d samples", n)
				}
			}
			for w, n := range checked {
				if n == 0 {
					t.Errorf("window %s never had a slope", cfg.Windows[w])
				}
			}
		})
	}
}

// checkEdge demands that the window holds all samples of its length but those of
// its oldest thirtieth, and no older ones.
func checkEdge(t *testing.T, points []Point, window time.Duration, held int64) {
	t.Helper()
	var inside, sure int64
	last := points[len(points)-1].T
	for _, p := range points {
		if p.T > last-window {
			inside++
		}
		if p.T > last-window+window/30 {
			sure++
		}
	}
	if held < sure || held > inside {
		t.Errorf("window %s holds %d samples, want %d to %d", window, held, sure, inside)
	}
}

func checkExact(t *testing.T, points []Point, fit detector.Fit) {
	t.Helper()
	slope, r2, ok := Line(points)
	if !ok {
		t.Fatalf("no line through %d samples", len(points))
	}
	for _, c := range []struct {
		what  string
		got   detector.Value
		want  *big.Rat
		least float64 // an R² near zero has no more digits than its sums
	}{{"slope", fit.Slope, slope, 0}, {"R²", fit.R2, r2, 1e-12}} {
		want, _ := c.want.Float64()
		if !c.got.OK || math.Abs(c.got.V-want) > 1e-9*math.Abs(want)+c.least {
			t.Errorf("%s of %d samples is %v, exactly %g", c.what, len(points), c.got, want)
		}
	}
}

// checkDeriv asks Prometheus for the slope of the samples that the window holds.
func checkDeriv(t *testing.T, engine *Engine, points []Point, fit detector.Fit) {
	t.Helper()
	first, last := len(points)-int(fit.N), len(points)-1
	// The range is open on the left: it may start at the sample before the first.
	span := points[last].T - points[first].T + time.Millisecond
	want, err := engine.Deriv(points[last].T, span)
	harness.Must(t, err)
	highest := int64(0)
	for _, p := range points[first:] {
		highest = max(highest, p.Y)
	}
	tolerance := 1e-9*math.Abs(want) + 1e-12*float64(highest)/span.Seconds()
	if math.Abs(fit.Slope.V-want) > tolerance {
		t.Errorf("slope %g, deriv() %g over %s: further apart than %g", fit.Slope.V, want, span, tolerance)
	}
}
