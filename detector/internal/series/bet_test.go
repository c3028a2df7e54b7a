// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Over all sequences of ups and downs, which are all as likely on a walk, the mean of a bet is what
// it began with. There is no chance in this test.
func TestBetIsFairOnAWalk(t *testing.T) {
	const moves = 12
	mean := 0.0
	for outcome := range 1 << moves {
		b := Bet{Wealth: 1}
		for i := range moves {
			b.move(outcome>>i&1 == 0)
		}
		mean += b.Wealth / (1 << moves)
	}
	about(t, "mean of a bet", mean, 1)
}

// With new runs at any time, chosen by what the moves were, the mean is 1 at most.
func TestBetsOfManyRunsAreNoMoreThanOne(t *testing.T) {
	const moves = 12
	for name, ends := range map[string]func(b *Bet, up bool) bool{
		"after each fall":      func(_ *Bet, up bool) bool { return !up },
		"after each rise":      func(_ *Bet, up bool) bool { return up },
		"when much is lost":    func(b *Bet, _ bool) bool { return b.Wealth < 0.2 },
		"after each move":      func(*Bet, bool) bool { return true },
		"never after the last": func(b *Bet, up bool) bool { return !up && b.Runs < 3 },
	} {
		mean := 0.0
		for outcome := range 1 << moves {
			var b Bet
			b.begin()
			for i := range moves {
				up := outcome>>i&1 == 0
				b.move(up)
				if ends(&b, up) {
					b.begin()
				}
			}
			mean += b.Wealth / (1 << moves)
		}
		if mean > 1+1e-9 {
			t.Errorf("a run ends %s: mean %.6g", name, mean)
		}
	}
}

// What is allotted to the runs sums up to 1: of n runs without a move to 1 − 1/(n+1).
func TestAllRunsShareOne(t *testing.T) {
	var b Bet
	for n := 1.0; n <= 1000; n++ {
		b.begin()
		about(t, "allotted so far", b.Wealth, 1-1/(n+1))
	}
}

// A run takes over what is left of the bet before, but not what that won: evidence is that of growth
// that goes on.
func TestANewRunStartsWithOneAtMost(t *testing.T) {
	b := Bet{Wealth: 100, Runs: 1}
	b.begin()
	about(t, "after a bet that was won", b.Wealth, 1+1.0/6)
	b = Bet{Wealth: 0.01, Runs: 1}
	b.begin()
	about(t, "after a bet that was lost", b.Wealth, 0.01+1.0/6)
}

func TestBetStaysFinite(t *testing.T) {
	var b Bet
	b.begin()
	for range 10_000 {
		b.move(true)
	}
	if b.Wealth != mostWealth {
		t.Errorf("after 10000 moves upwards: %g", b.Wealth)
	}
}

// Evidence is 1 where the mean of what the scales own is 1/α. What a falling scale owns does not count.
func TestEvidenceIsOneAtTheLevel(t *testing.T) {
	for _, alpha := range []float64{0.5, 0.4, 0.1, 0.01} {
		for _, c := range []struct {
			name    string
			own     float64 // each of half the scales but for one, as a share of what all must own
			falling bool
			want    float64
		}{
			{"nothing", 0, false, 0},
			{"what they began with", alpha, false, 0},
			{"all that is needed", 1, false, 1},
			{"its square root", math.Sqrt(alpha), false, 0.5},
			{"all of it, but they fall", 1, true, 0},
		} {
			cfg := defaults()
			cfg.FalseAlarm = alpha
			s := New(cfg)
			for i := range 3 {
				s.Scales[i].Bet.Wealth = c.own / alpha * numScales / 3
				s.Scales[i].Run.Falling = c.falling
			}
			about(t, c.name, s.evidence(), c.want)
		}
	}
}

// In a fresh series a few moves upwards in a row suffice: the narrowest scale, which began with a half
// and has grown by 1+stake with each, must bring the mean of all, of which the others own a half, to
// 1/α. A stricter α asks for more.
func TestMovesThatSuffice(t *testing.T) {
	for _, alpha := range []float64{0.4, 0.1, 0.01} {
		cfg := defaults()
		cfg.FalseAlarm = alpha
		s := New(cfg)
		for i := range s.Scales {
			s.Scales[i].begin(troughs(mibs(1000))[0])
		}
		want := math.Ceil(math.Log((numScales/alpha-(numScales-1)*0.5)/0.5) / math.Log(1+stake))
		for n := 1.0; n <= want; n++ {
			s.Scales[0].Bet.move(true)
			if got := s.evidence() >= 1; got != (n == want) {
				t.Errorf("α %g: %t after %g moves, %g are needed", alpha, got, n, want)
			}
		}
	}
}

// laws are those of the moves of driftless walks, with light tails, heavy ones and none, in MiB. The
// tails of the Cauchy law, which has no mean, are cut off far out on both sides alike.
var laws = []struct {
	name string
	move func(rng *rand.Rand) float64
}{
	{"Gaussian", func(rng *rand.Rand) float64 { return 10 * rng.NormFloat64() }},
	{"Cauchy", func(rng *rand.Rand) float64 { return max(-1e4, min(1e4, 10*math.Tan(math.Pi*(rng.Float64()-0.5)))) }},
	{"two-point", func(rng *rand.Rand) float64 { return 10 * float64(1-2*rng.IntN(2)) }},
}

// Of series that are driftless walks a share of FalseAlarm at most ever has the evidence for a leak,
// however often one looks, over all scales together. That is of the evidence alone: nothing is said
// of how long growth must last, which takes out most of the rest.
func TestLevelOfASeries(t *testing.T) {
	const walks, samples = 300, 700 // of a minute, each a block
	for i, law := range laws {
		cfg := defaults()
		cfg.FalseAlarm = []float64{0.4, 0.1, 0.4}[i]
		rng := rand.New(rand.NewPCG(3, 4))
		won, leaks := 0, 0
		for range walks {
			w := watching(cfg, time.Minute)
			most, leaked := 0.0, false
			w.look = func() {
				if w.Samples > settleSamples {
					most, leaked = max(most, w.evidence()), leaked || w.Leaks()
				}
			}
			level := 40000.0
			w.watch(samples*time.Minute, func(time.Duration) float64 {
				level += law.move(rng)
				return min(max(level, 2000), 81000)
			})
			if most >= 1 {
				won++
			}
			if leaked {
				leaks++
			}
		}
		bound := cfg.FalseAlarm + 3*math.Sqrt(cfg.FalseAlarm*(1-cfg.FalseAlarm)/walks)
		t.Logf("%s, level %g: %d of %d have the evidence, %d are called a leak", law.name, cfg.FalseAlarm, won, walks, leaks)
		if share := float64(won) / walks; share > bound || won == 0 {
			t.Errorf("%s: %.2f have the evidence, the level is %g", law.name, share, cfg.FalseAlarm)
		}
		if leaks > won {
			t.Errorf("%s: %d of %d are called a leak, and %d have the evidence", law.name, leaks, walks, won)
		}
	}
}
