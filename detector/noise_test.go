// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// listening gives a scale of blocks of 10 s those troughs in units, one after another, and
// calls look, if any, after each.
func listening(troughs []float64, look func(i int, e *scale)) *scale {
	e := &scale{width: ladderBase}
	for i, v := range troughs {
		e.close(point{at: int32(i+1) * 100, v: uint32(v)}, nature{rate: 3})
		if look != nil {
			look(i, e)
		}
	}
	return e
}

// white is n levels of white noise of that deviation around a level far above zero.
func white(n int, deviation float64, seed uint64) (levels []float64) {
	rng := rand.New(rand.NewPCG(seed, 81))
	for range n {
		levels = append(levels, 1e6+deviation*rng.NormFloat64())
	}
	return levels
}

// stairs is n levels that rise by step each so many blocks.
func stairs(n, each int, step float64) (levels []float64) {
	for i := range n {
		levels = append(levels, 1e6+step*float64(i/each))
	}
	return levels
}

// What goes one way has no noise, however fast or unevenly: the least move is a quantum.
func TestTrendsHaveNoNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(82, 83))
	uneven, v := []float64(nil), 1e5
	for range 300 {
		v += 1e5 * rng.ExpFloat64() * float64(rng.IntN(2))
		uneven = append(uneven, v)
	}
	for name, levels := range map[string][]float64{
		"flat":                  repeat(200, 5000),
		"slow":                  ramp(200, 1000, 1),
		"fast":                  ramp(200, 1000, 1e6),
		"falls":                 ramp(200, 1e9, -1e6),
		"ever faster":           curve(200, 1e8, func(x float64) float64 { return x * x * x }),
		"a staircase":           stairs(200, 5, 1e5),
		"each other block":      stairs(200, 2, 1e6),
		"a staircase downwards": stairs(200, 3, -1e4),
		"uneven growth":         uneven,
		"one step":              join(repeat(50, 1000), repeat(50, 1e6)),
		"a peak with a top":     join(ramp(50, 1000, 1e4), repeat(1, 491000), ramp(50, 491000, -1e4)),
	} {
		listening(levels, func(i int, e *scale) {
			if e.noise != 0 || e.leastMove() != moveUnits {
				t.Fatalf("%s, block %d: noise %g, a least move of %d", name, i, e.noise, e.leastMove())
			}
		})
	}
}

// Noise is what the next change takes back of a change: the smaller one of two that are
// opposite. Moves are several times as large.
func TestNoiseOfTurns(t *testing.T) {
	for _, c := range []struct {
		name   string
		period []float64
		want   float64
	}{
		{"up and down", []float64{5000, 6000}, 1000},
		{"up by much and down by less", []float64{0, 5000, 4000}, 0}, // replaced below
		{"a peak in four", []float64{5000, 5000, 5000, 9000}, 4000. / 4},
		{"a hole in four", []float64{5000, 5000, 5000, 1000}, 4000. / 4},
		{"twice up, once down", []float64{5000, 6000, 8000}, 1000},
	} {
		levels := slices.Repeat(c.period, 200)
		if c.want == 0 { // 5000 up and 1000 down, and so on
			levels, c.want = nil, 1000
			for i := range 400 {
				levels = append(levels, 1e5+4000*float64(i/2)+5000*float64(i%2))
			}
		}
		e := listening(levels, nil)
		if math.Abs(e.noise/c.want-1) > 0.12 || e.leastMove() != int64(3*e.noise) {
			t.Errorf("%s: noise %g, a least move of %d; want %g", c.name, e.noise, e.leastMove(), c.want)
		}
	}
}

// A change is weighed as the twentieth of what was before, from the next trough on.
func TestNoiseComesAndFades(t *testing.T) {
	const high = 1600.0
	levels := join(slices.Repeat([]float64{5000, 5000 + high}, 40), repeat(120, 5000))
	listening(levels, func(i int, e *scale) {
		turns := float64(max(0, min(i, 80)-1)) // the first change has none before it, the last is that to 5000
		want := high * (1 - math.Pow(0.95, turns)) * math.Pow(0.95, max(0, float64(i)-80))
		if math.Abs(e.noise-want) > 1e-6 {
			t.Fatalf("block %d: noise %g, want %g", i, e.noise, want)
		}
		if got := max(32, int64(3*e.noise)); e.leastMove() != got {
			t.Fatalf("block %d: a least move of %d, want %d", i, e.leastMove(), got)
		}
	})
	// The move that a turn is comes before its own noise.
	for _, c := range []struct {
		levels []float64
		want   int64
	}{
		{[]float64{5000, 6600, 5000}, 2},
		{[]float64{5000, 6600, 5000, 5100}, 2}, // a twentieth of 1600, three times
		{[]float64{5000, 6600, 5000, 5240}, 3},
		{[]float64{5000, 6600, 5000, 5239}, 2},
	} {
		if e := listening(c.levels, nil); e.moves != c.want {
			t.Errorf("%v: %d moves, want %d", c.levels, e.moves, c.want)
		}
	}
}

// White noise makes moves at first, and then nearly none; after it has ended small moves
// count again.
func TestWhiteNoiseIsHeard(t *testing.T) {
	for _, deviation := range []float64{100, 1600, 4800, 64000} { // 6 MiB to 4 GiB
		for seed := range uint64(5) {
			var early, late int64
			low, high := math.Inf(1), 0.0
			e := listening(join(white(1000, deviation, seed), repeat(200, 1e6)), func(i int, e *scale) {
				switch {
				case i == 10:
					early = e.moves
				case i == 100:
					late = e.moves
				case i > 100 && i < 1000:
					low, high = min(low, float64(e.leastMove())/deviation), max(high, float64(e.leastMove())/deviation)
				case i == 1000:
					late = e.moves - late
				}
			})
			if low < 0.5 || high > 3.5 {
				t.Errorf("deviation %g, seed %d: least moves of %.2f to %.2f deviations", deviation, seed, low, high)
			}
			t.Logf("deviation %g, seed %d: %.2f to %.2f; %d moves in 10 blocks, %d in 900", deviation, seed, low, high, early, late)
			if early < 4 || late > 450 {
				t.Errorf("deviation %g, seed %d: %d moves in 10 blocks, %d in 900", deviation, seed, early, late)
			}
			if e.leastMove() != moveUnits && deviation < 64000 {
				t.Errorf("deviation %g, seed %d: a least move of %d after it ended", deviation, seed, e.leastMove())
			}
		}
	}
}

// driftless are the steps of walks without a trend: symmetric, independent, and large beside a quantum.
var driftless = map[string]func(rng *rand.Rand) float64{
	"Gaussian":  func(rng *rand.Rand) float64 { return 160 * rng.NormFloat64() },
	"Laplace":   func(rng *rand.Rand) float64 { return 160 * rng.ExpFloat64() * float64(1-2*rng.IntN(2)) },
	"heavy":     func(rng *rand.Rand) float64 { return 40 * float64(1-2*rng.IntN(2)) / math.Sqrt(1-rng.Float64()) },
	"two-point": func(rng *rand.Rand) float64 { return 160 * float64(1-2*rng.IntN(2)) },
	"small":     func(rng *rand.Rand) float64 { return 12 * rng.NormFloat64() },
	"lazy":      func(rng *rand.Rand) float64 { return 300 * float64(rng.IntN(3)-1) * float64(rng.IntN(2)) },
}

// outcomes counts moves upwards of all, and moves that go on as the one before of those
// that have one before.
type outcomes struct{ up, all, same, pairs int }

func (o *outcomes) note(last, sign int) {
	o.up += btoi(sign > 0)
	o.all++
	if last != 0 {
		o.same += btoi(sign == last)
		o.pairs++
	}
}

// walks counts the moves of so many walks of that law. A block has so many steps, of
// which value takes one that the scale sees.
func walks(rng *rand.Rand, n, blocks, samples int, law func(*rand.Rand) float64, value func([]float64) float64) (o outcomes) {
	held := make([]float64, samples)
	for range n {
		e, v, last := scale{width: ladderBase}, 1e7, 0
		for i := range blocks {
			for k := range held {
				v += law(rng)
				held[k] = v
			}
			level, moves := e.level, e.moves
			e.close(point{at: int32(i+1) * 100, v: uint32(value(held))}, nature{rate: 3})
			if e.moves != moves {
				sign := 1 - 2*btoi(e.level < level)
				o.note(last, sign)
				last = sign
			}
		}
	}
	return o
}

// far is by how many standard errors a share is off one half.
func far(hits, n int) float64 {
	return (float64(hits) - float64(n)/2) / math.Sqrt(float64(n)/4)
}

// A move of a walk is as likely up as down, whatever the one before was: the noise that
// the least move depends on tells nothing of the next one.
func TestMovesOfAWalkAreFair(t *testing.T) {
	last := func(held []float64) float64 { return held[len(held)-1] }
	for name, law := range driftless {
		o := walks(rand.New(rand.NewPCG(84, 85)), 1500, 100, 1, law, last)
		up, same := far(o.up, o.all), far(o.same, o.pairs)
		t.Logf("%s: %d moves, %.2f standard errors upwards, %.2f on", name, o.all, up, same)
		if math.Abs(up) > 4 || math.Abs(same) > 4 || o.pairs < 10000 {
			t.Errorf("%s: %d of %d upwards, %d of %d as before", name, o.up, o.all, o.same, o.pairs)
		}
	}
	for name, value := range map[string]func([]float64) float64{
		"last": last, "lowest": slices.Min[[]float64], "middle": func(held []float64) float64 {
			all := slices.Sorted(slices.Values(held))
			return all[(len(all)-1)/2]
		},
	} {
		o := walks(rand.New(rand.NewPCG(86, 87)), 1000, 60, 9, driftless["Gaussian"], value)
		up, on := float64(o.up)/float64(o.all), float64(o.same)/float64(o.pairs)
		t.Logf("%s: %.4f of %d upwards, %.4f go on", name, up, o.all, on)
		if math.Abs(up-0.5) > 0.01 || far(o.same, o.pairs) < -4 { // turns are no gain
			t.Errorf("%s: %.4f of %d upwards, %.4f go on", name, up, o.all, on)
		}
	}
}
