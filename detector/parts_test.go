// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

func TestSpikes(t *testing.T) {
	const mib = 1 << 20
	flat := func(n int, level int64) []int64 {
		s := make([]int64, n)
		for i := range s {
			s[i] = level * mib
		}
		return s
	}
	join := func(parts ...[]int64) (all []int64) {
		for _, p := range parts {
			all = append(all, p...)
		}
		return all
	}
	ramp := func(n int, from, step int64) []int64 {
		s := make([]int64, n)
		for i := range s {
			s[i] = (from + int64(i)*step) * mib
		}
		return s
	}
	for _, c := range []struct {
		name string
		ys   []int64
		want int
	}{
		{"flat", flat(300, 1000), 0},
		{"one sample up and back", join(flat(60, 1000), flat(1, 1200), flat(60, 1000)), 1},
		{"half a minute", join(flat(60, 1000), flat(30, 1200), flat(60, 1000)), 1},
		{"too low", join(flat(60, 1000), flat(5, 1063), flat(60, 1000)), 0},
		{"stays: a step", join(flat(60, 1000), flat(90, 1200), flat(60, 1200)), 0},
		{"stays two minutes, then falls", join(flat(60, 1000), flat(120, 1200), flat(60, 1000)), 0},
		{"falls to a quarter of its height", join(flat(60, 1000), flat(5, 1400), flat(200, 1100)), 1},
		{"falls not far enough", join(flat(60, 1000), flat(5, 1400), flat(200, 1101)), 0},
		{"three", join(flat(60, 1000), flat(5, 1200), flat(20, 1000), flat(5, 1200), flat(20, 1000), flat(5, 1300), flat(20, 1000)), 3},
		{"slow sawtooth", join(ramp(120, 1000, 10), ramp(120, 1000, 10), ramp(120, 1000, 10)), 0},
		{"ends far below its beginning", join(flat(60, 1000), flat(5, 1200), flat(60, 500)), 0},
		{"steady growth", ramp(600, 1000, 1), 0},
		{"from the first sample on", flat(3, 1), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s spikeCounter
			got := 0
			for i, y := range c.ys {
				if s.add(int64(i)*1e9, y, 60e9, 64*mib) {
					got++
				}
			}
			if got != c.want {
				t.Errorf("%d spikes, want %d", got, c.want)
			}
		})
	}
}

func TestEnvelopeKeepsWhatIsNeverGivenBack(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name    string
		troughs []int64 // MiB, one a block
		levels  []int64
		moves   int
	}{
		{"flat", []int64{100, 100, 101, 100}, []int64{100}, 0},
		{"one step", []int64{100, 100, 200, 200}, []int64{100, 200}, 1},
		{"staircase", []int64{100, 110, 120, 130}, []int64{100, 110, 120, 130}, 3},
		{"sawtooth", []int64{100, 150, 200, 100, 150, 200, 100}, []int64{100}, 6},
		{"give-back keeps what lies below", []int64{100, 110, 150, 120}, []int64{100, 110, 120}, 3},
		{"fall below the start", []int64{100, 150, 50}, []int64{50}, 2},
		{"within the quantum", []int64{100, 101, 102, 103}, []int64{100, 102}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := envelope{width: 10e9}
			for i, v := range append(c.troughs, 0) { // one more sample closes the last
				for j := range int64(blockSamples) {
					e.add(int64(i)*10e9+j*3e9, v*mib, quantum)
				}
			}
			var levels []int64
			for _, r := range e.stack[:e.depth] {
				levels = append(levels, r.v/mib)
			}
			if len(levels) != len(c.levels) || e.numMoves != c.moves {
				t.Fatalf("levels %v after %d moves, want %v after %d", levels, e.numMoves, c.levels, c.moves)
			}
			for i := range levels {
				if levels[i] != c.levels[i] {
					t.Fatalf("levels %v, want %v", levels, c.levels)
				}
			}
		})
	}
}

func TestEnvelopeStaysInItsWindow(t *testing.T) {
	e := envelope{width: 10e9}
	for i := range int64(10_000) {
		e.add(i*1e9, i<<22, quantum)
	}
	if e.depth > len(e.stack) || e.numMoves > envelopeBlocks {
		t.Fatalf("%d levels, %d moves", e.depth, e.numMoves)
	}
	if oldest := e.stack[1].t; oldest <= 9990e9-(envelopeBlocks+2)*10e9 {
		t.Errorf("the second level is of %d s", oldest/1e9)
	}
}

// The formula against random walks, of a law with and one without variance.
func TestWalkTailAgainstSimulation(t *testing.T) {
	laws := map[string]func(*rand.Rand) float64{
		"Gaussian": func(r *rand.Rand) float64 { return r.NormFloat64() },
		"Cauchy":   func(r *rand.Rand) float64 { return math.Tan(math.Pi * (r.Float64() - 0.5)) },
	}
	const walks = 40_000
	for name, law := range laws {
		rng := rand.New(rand.NewPCG(9, 10))
		for _, n := range []int{5, 20, 60} {
			counts := make([]int, n+2)
			for range walks {
				x, low, records := 0.0, 0.0, 1
				for range n {
					if x -= law(rng); x < low {
						low = x
						records++
					}
				}
				counts[records]++
			}
			above := 0
			for k := n + 1; k >= 1; k-- {
				above += counts[k]
				p := walkTail(n, k)
				if got := float64(above) / walks; math.Abs(got-p) > 5*math.Sqrt(p*(1-p)/walks)+1e-9 {
					t.Errorf("%s: P(records ≥ %d after %d moves) is %.4f by the formula, %.4f of %d walks", name, k, n, p, got, walks)
				}
			}
		}
	}
}

func TestHighWaterTail(t *testing.T) {
	for _, c := range []struct {
		k        int
		from, to float64
		want     float64
	}{
		{0, 30, 300, 1},
		{1, 30, 30, 0},
		{1, 100, 100 * math.E, 1 - math.Exp(-3)},
		{2, 100, 100 * math.E, 1 - 4*math.Exp(-3)},
		{10, 100, 100 * math.E, 1.1024881301e-3},
		{40, 30, 30, 0},
	} {
		got := highWaterTail(c.k, c.from, c.to)
		if math.Abs(got-c.want) > 1e-9 {
			t.Errorf("P(≥ %d new maxima between %g and %g) = %.10g, want %.10g", c.k, c.from, c.to, got, c.want)
		}
	}
	if p := highWaterTail(2000, 30, 1e9); !(p >= 0 && p < 1e-300) {
		t.Errorf("far tail is %g", p)
	}
}

func TestForecast(t *testing.T) {
	d := drift{rate: 100, variance: 0, rateVariance: 0, levels: 20}
	eta, lower, upper := d.secondsTo(1000)
	if eta != 10 || lower != 10 || upper != 10 {
		t.Errorf("without variance: %g [%g, %g], want 10 s sharp", eta, lower, upper)
	}
	// With z = 1.645·(1+1.5/18) the bounds solve (1000 − 100t)² = z²(400t + 25t²).
	d = drift{rate: 100, variance: 400, rateVariance: 25, levels: 20}
	eta, lower, upper = d.secondsTo(1000)
	z := 1.645 * (1 + 1.5/18)
	for _, b := range []float64{lower, upper} {
		left, right := math.Pow(1000-100*b, 2), z*z*(400*b+25*b*b)
		if math.Abs(left-right) > 1e-6*right {
			t.Errorf("bound %g does not solve its equation: %g against %g", b, left, right)
		}
	}
	if !(lower < eta && eta < upper) {
		t.Errorf("%g is not inside [%g, %g]", eta, lower, upper)
	}
	d = drift{rate: 1, variance: 1, rateVariance: 9, levels: 4}
	if _, lower, upper = d.secondsTo(1000); !math.IsInf(upper, 1) || !(lower > 0 && lower < 1000) {
		t.Errorf("a rate that is not above its error gives [%g, %g]", lower, upper)
	}
	if eta, lower, upper = (&drift{}).secondsTo(5); !math.IsInf(eta, 1) || !math.IsInf(lower, 1) || !math.IsInf(upper, 1) {
		t.Errorf("no growth gives %g [%g, %g]", eta, lower, upper)
	}
	d.rate = 1
	if eta, lower, _ = d.secondsTo(0); eta != 0 || lower != 0 {
		t.Errorf("no headroom gives %g [%g, …]", eta, lower)
	}
}

// The crest against the highest of all values of the span, which it may exceed by
// what a slot holds that is older by less than its width.
func TestCrest(t *testing.T) {
	const span = time.Minute
	rng := rand.New(rand.NewPCG(19, 20))
	var c Crest[int64]
	var times []time.Duration
	var values []int64
	now := time.Duration(0)
	for range 5000 {
		now += time.Duration(1 + rng.Int64N(int64(3*time.Second)))
		times, values = append(times, now), append(values, rng.Int64N(1000))
		got := c.Add(now, span, values[len(values)-1])
		least, most := int64(0), int64(0)
		for i := len(times) - 1; i >= 0 && times[i] > now-span-span/crestSlots; i-- {
			most = max(most, values[i])
			if times[i] > now-span+span/crestSlots {
				least = max(least, values[i])
			}
		}
		if got < least || got > most {
			t.Fatalf("at %s: %d, not in [%d, %d]", now, got, least, most)
		}
	}
}
