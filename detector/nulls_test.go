// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// law is one of moves.
type law struct {
	name string
	move func(rng *rand.Rand) float64
}

// laws are those of the moves of driftless walks: symmetric, with light tails, heavy
// ones and none. The moves are amounts of memory in units, about 10 MiB each. Those
// of the Cauchy law, which has no mean, are cut off far out on both sides alike.
var laws = []law{
	{"Gaussian", func(rng *rand.Rand) float64 { return 160 * rng.NormFloat64() }},
	{"Cauchy", func(rng *rand.Rand) float64 {
		return max(-1e6, min(1e6, 160*math.Tan(math.Pi*(rng.Float64()-0.5))))
	}},
	{"Laplace", func(rng *rand.Rand) float64 { return 160 * rng.ExpFloat64() * float64(1-2*rng.IntN(2)) }},
	{"two-point", func(rng *rand.Rand) float64 { return 160 * float64(1-2*rng.IntN(2)) }},
}

// atMost fails where hits of n trials are more than a probability of at most level
// explains: by three standard deviations.
func atMost(t *testing.T, what string, hits, n int, level float64) {
	t.Helper()
	share := float64(hits) / float64(n)
	t.Logf("%s: %d of %d, %.4f, level %.4f", what, hits, n, share, level)
	if share > level+3*math.Sqrt(level*(1-level)/float64(n)) {
		t.Errorf("%s: %.4f of %d, more than %.4f", what, share, n, level)
	}
}

// As many downs as ups: over all sequences of signs the mean of a fortune is what it
// began with, whatever growth the bets take for one. There is no chance in this test.
func TestBetsOnAWalkAreFair(t *testing.T) {
	const n = 14
	for name, rising := range map[string]func(ups int32) int32{
		"as growth goes": func(ups int32) int32 { return ups },
		"never growth":   func(int32) int32 { return 0 },
		"always growth":  func(int32) int32 { return trendMoves },
	} {
		var ups, turns, wealth, runs float64
		for outcome := range 1 << n {
			var once, again walkBet
			once.begin(1)
			again.begin(allotted(1))
			row := int32(0)
			for i, run := 0, int64(1); i < n; i++ {
				up := outcome>>i&1 == 0
				once.move(up, rising(row))
				again.move(up, rising(row))
				if row++; !up { // as where growth ends, and another one begins
					row = 0
					run++
					again.begin(allotted(run))
				}
			}
			ups += once.ups / (1 << n)
			turns += once.turns / (1 << n)
			wealth += once.wealth() / (1 << n)
			runs += again.wealth() / (1 << n)
		}
		if math.Abs(ups-1) > 1e-9 || math.Abs(turns-1) > 1e-9 || math.Abs(wealth-1) > 1e-9 {
			t.Errorf("%s: the bets have the means %.12g and %.12g, the whole %.12g", name, ups, turns, wealth)
		}
		if runs > 1 {
			t.Errorf("%s: run after run the mean is %.9g", name, runs)
		}
	}
}

// The same for the bet on new maxima, over all outcomes of a few blocks, each as
// likely as the null has it.
func TestBetOnMaximaIsFair(t *testing.T) {
	const n = 12
	for _, rate := range []float64{0.5, 1, 3, 30} {
		for _, from := range []float64{30, 600, 36000} {
			for _, width := range []float64{10, 2560} {
				mean := 0.0
				for outcome := range 1 << n {
					var b highWaterBet
					b.begin(1)
					probability := 1.0
					for i := range n {
						age, next := from+float64(i)*width, from+float64(i+1)*width
						maximum := outcome>>i&1 == 1
						p := 1 - math.Pow(age/next, rate)
						if !maximum {
							p = 1 - p
						}
						probability *= p
						b.block(maximum, rate, age, next)
					}
					mean += probability * b.fortune
				}
				if math.Abs(mean-1) > 1e-6 {
					t.Errorf("rate %g, blocks of %g s from %g s on: the mean is %.12g", rate, width, from, mean)
				}
			}
		}
	}
}

// However many runs a scale has, no more than 1 is allotted to them.
func TestAllRunsShareOne(t *testing.T) {
	sum := 0.0
	for n := int64(1); n <= 1_000_000; n++ {
		sum += allotted(n)
	}
	if sum > 1 || sum < 0.999 {
		t.Errorf("a million runs are allotted %.9g", sum)
	}
	if last := allotted(math.MaxInt64 / 4); !(last > 0) || last > 1e-30 {
		t.Errorf("the last run is allotted %g", last)
	}
}

// walkScale returns a scale whose troughs are a walk of that law, from far above 0,
// and calls look after each.
func walkScale(rng *rand.Rand, law func(*rand.Rand) float64, blocks int, look func(e *scale)) {
	e := scale{width: ladderBase}
	v := float64(1 << 31)
	for i := range blocks {
		e.close(point{at: int32(i+1) * 100, v: uint32(v)}, nature{rate: 3})
		look(&e)
		v += math.Round(law(rng))
	}
}

// The share of driftless walks against which the bet is ever won is at most the
// level, however long they are watched and in however many runs.
func TestLevelOfTheWalk(t *testing.T) {
	const walks, blocks = 600, 800
	levels := []float64{0.2, 0.05, 0.01}
	for _, law := range laws {
		rng := rand.New(rand.NewPCG(41, 42))
		won := make([]int, len(levels))
		runs := int64(0)
		for range walks {
			best := 0.0
			walkScale(rng, law.move, blocks, func(e *scale) {
				best = max(best, e.walk.wealth())
				runs += int64(btoi(e.closed == blocks)) * e.runs
			})
			for i, level := range levels {
				won[i] += btoi(best >= 1/level)
			}
		}
		t.Logf("%s: %d runs", law.name, runs)
		for i, level := range levels {
			atMost(t, law.name, won[i], walks, level)
		}
	}
}

// The same for memory that is the maximum of a stationary demand: of several pools,
// each with independent demands, and at the very rate that is granted.
func TestLevelOfTheHighWater(t *testing.T) {
	const trials, blocks, width = 1000, 600, 100
	levels := []float64{0.2, 0.05, 0.01}
	for _, began := range []int32{0, -36000} { // an hour before the first block
		n := nature{began: began, rate: 3}
		from := map[int32]string{0: "new", -36000: "an hour old"}[began]
		for name, next := range map[string]func(rng *rand.Rand, highs []float64, age, next float64) float64{
			"three pools, light tails": func(rng *rand.Rand, highs []float64, _, _ float64) float64 {
				return demand(highs, func() float64 { return 3000 * rng.ExpFloat64() })
			},
			"three pools, heavy tails": func(rng *rand.Rand, highs []float64, _, _ float64) float64 {
				return demand(highs, func() float64 { return 3000 * math.Pow(1-rng.Float64(), -1/1.5) })
			},
			"records at the granted rate": func(rng *rand.Rand, highs []float64, age, next float64) float64 {
				highs[0] += 64 * float64(btoi(rng.Float64() < 1-math.Pow(age/next, n.rate)))
				return highs[0]
			},
		} {
			rng := rand.New(rand.NewPCG(43, 44))
			won := make([]int, len(levels))
			for range trials {
				e, best, highs := scale{width: ladderBase}, 0.0, make([]float64, 3)
				for past := n.began / width; past < 0; past++ { // before it was first seen
					next(rng, highs, float64(past*width-n.began), float64((past+1)*width-n.began))
				}
				for i := range int32(blocks) {
					v := next(rng, highs, float64(i*width-n.began), float64((i+1)*width-n.began))
					e.close(point{at: (i + 1) * width, v: uint32(v)}, n)
					best = max(best, e.high.fortune)
				}
				for i, level := range levels {
					won[i] += btoi(best >= 1/level)
				}
			}
			for i, level := range levels {
				atMost(t, from+", "+name, won[i], trials, level)
			}
		}
	}
}

// demand gives each pool a new demand and returns what all of them keep.
func demand(highs []float64, next func() float64) (sum float64) {
	for i := range highs {
		highs[i] = max(highs[i], next())
		sum += highs[i]
	}
	return sum
}

// The level of the whole, all scales at once, is that of the configuration: so many
// series without a trend ever have the evidence of a leak in 12 hours. The samples are the walk here.
// Their lowest ones in blocks are correlated a little, which costs up to a third of the level. What
// else is asked of a leak makes up for that: it is half as many, or of a small level, to which lines do
// not hold, as many, that ever are an alarm. Where the capacity is known, as it is of a GPU, fewer are.
func TestLevelOfTheSeries(t *testing.T) {
	const trials, samples, step = 40, 4320, 10
	for _, c := range []struct {
		level, alarms, capacity float64
	}{
		{0.1, 0.1, 0}, {DefaultConfig().FalseAlarm, 0.2, 0}, {DefaultConfig().FalseAlarm, 0.1, 80 << 30},
	} {
		cfg := DefaultConfig()
		cfg.FalseAlarm = c.level
		for _, kind := range []string{"Gaussian", "Cauchy", "Laplace", "two-point", "high water"} {
			base := float64(1 << 31)
			if c.capacity > 0 {
				if base = c.capacity / unit / 2; kind == "Cauchy" {
					continue // it leaves every GPU
				}
			}
			rng := rand.New(rand.NewPCG(45, 46))
			convinced, alarmed := 0, 0
			for range trials {
				ever, alarm := livedThrough(cfg, samples, step, 0, c.capacity, nullOf(kind, base, rng))
				convinced += btoi(ever)
				alarmed += btoi(alarm)
			}
			name := fmt.Sprintf("%s at %g on %g GiB", kind, c.level, c.capacity/(1<<30))
			atMost(t, name, convinced, trials, c.level)
			atMost(t, name+", alarms", alarmed, trials, c.alarms)
		}
	}
}

// Noise upon the highest of a demand is no part of the second null, which grants maxima to the
// highest alone: the more pools there are and the more noise, the more often there is evidence. On a
// GPU, whose capacity is known, hardly any of it becomes an alarm.
func TestHighWaterUnderNoise(t *testing.T) {
	const trials, samples, step, capacity = 40, 4320, 10, 80 << 30
	for pools := 1; pools <= 3; pools++ {
		for _, noise := range []float64{0, 1, 6, 30} { // MiB, the standard deviation
			rng := rand.New(rand.NewPCG(47, 48))
			convinced, alarmed := 0, 0
			for range trials {
				ever, alarm := livedThrough(DefaultConfig(), samples, step, 0, capacity, highWater(rng, pools, noise*16))
				convinced += btoi(ever)
				alarmed += btoi(alarm)
			}
			t.Logf("%d pools, noise of %g MiB: %d of %d have the evidence of a leak", pools, noise, convinced, trials)
			atMost(t, fmt.Sprintf("%d pools, noise of %g MiB, alarms", pools, noise), alarmed, trials, 0.05)
		}
	}
}

// A demand that begins long after its process is granted far too few maxima. What keeps it from
// becoming a leak is that it slows down, and the time that there is until a GPU would be full.
func TestHighWaterOfAnOldProcess(t *testing.T) {
	const trials, samples, step, age = 60, 4320, 10, 24 * 3600
	for _, capacity := range []float64{0, 80 << 30} {
		rng := rand.New(rand.NewPCG(49, 50))
		convinced, alarmed := 0, 0
		for range trials {
			ever, alarm := livedThrough(DefaultConfig(), samples, step, age, capacity, highWater(rng, 3, 0))
			convinced += btoi(ever)
			alarmed += btoi(alarm)
		}
		t.Logf("on %g GiB %d of %d have the evidence of a leak, %d an alarm", capacity/(1<<30), convinced, trials, alarmed)
		if capacity > 0 {
			atMost(t, "alarms", alarmed, trials, 0.05)
		}
	}
}

// highWater returns what so many pools of memory keep of a stationary demand, a demand each sample,
// under white noise of that standard deviation.
func highWater(rng *rand.Rand, pools int, noise float64) func() float64 {
	highs := make([]float64, pools)
	return func() float64 {
		return 16384 + demand(highs, func() float64 { return 3000 * rng.ExpFloat64() }) + math.Round(noise*rng.NormFloat64())
	}
}

// nullOf returns a series without a trend, in units of memory, walks from base on.
func nullOf(kind string, base float64, rng *rand.Rand) func() float64 {
	i := slices.IndexFunc(laws, func(l law) bool { return l.name == kind })
	if i < 0 {
		return highWater(rng, 3, 0)
	}
	v := base
	return func() float64 {
		v += math.Round(laws[i].move(rng))
		return v
	}
}

// livedThrough runs a series of so many samples, a step of seconds apart, of a process of that age in
// seconds, and reports whether any scale ever had the evidence of a leak, and whether there was an alarm.
func livedThrough(cfg Config, samples, step, age int, capacity float64, next func() float64) (convinced, alarmed bool) {
	s := newSeries(cfg)
	for i := range samples {
		s.observe(&observation{t: int64(seconds2026(i * step)), used: int64(next()) * unit, interval: int64(step) * 1e9, capacity: capacity, started: int64(seconds2026(-age))})
		for k := range s.ladder {
			convinced = convinced || s.growths[k].evidence >= -math.Log10(s.ladder[k].share*cfg.FalseAlarm)
		}
		alarmed = alarmed || s.leak.on
	}
	return convinced, alarmed
}

// ups returns after how many moves upwards in a row the bet of a first run has shown
// what a level asks for.
func ups(level float64) int {
	var b walkBet
	b.begin(allotted(1))
	for n := 1; ; n++ {
		if b.move(true, int32(n-1)); b.wealth() >= 1/level {
			return n
		}
	}
}

// What a leak must show: so many moves, all upwards.
func TestMovesThatShowALeak(t *testing.T) {
	finest, urgent, widest := shareOf(0), shareOf(2), shareOf(ladderScales-1)
	for _, c := range []struct {
		falseAlarm float64
		share      float64
		want       int
	}{
		{0.4, finest, 8},
		{0.4, urgent, 7},
		{0.4, cycleShare, 7},
		{0.4, levelShare, 7},
		{0.4, widest, 11},
		{0.01, finest, 14},
		{0.01, widest, 17},
		{0.5, urgent, 6},
	} {
		if got := ups(c.falseAlarm * c.share); got != c.want {
			t.Errorf("false alarm %g, share %.3g: %d ups, want %d", c.falseAlarm, c.share, got, c.want)
		}
	}
}

// Memory that turns at each move leaves the bets a fortune with which growth is shown
// in as few moves as in a fresh series; memory that goes on as often as it turns does not.
func TestTurnsKeepTheFortune(t *testing.T) {
	for name, c := range map[string]struct {
		down func(i int) bool
		want int // moves upwards until growth is shown
	}{
		"nothing before": {nil, 8},
		"turns":          {func(i int) bool { return i%2 == 0 }, 7},
		"two of a kind":  {func(i int) bool { return i%4 < 2 }, 13},
	} {
		e := scale{width: ladderBase}
		v, n := uint32(1<<20), 0
		add := func(d int) {
			v = uint32(int(v) + d)
			n++
			e.close(point{at: int32(n) * 100, v: v}, nature{rate: 3})
		}
		add(0)
		for i := range 400 {
			switch {
			case c.down == nil:
			case c.down(i):
				add(-64 * moveUnits)
			default:
				add(64 * moveUnits)
			}
		}
		got := 0
		for ; e.walk.wealth() < 1/(0.4*shareOf(0)) && got < 100; got++ {
			add(1024 * moveUnits)
		}
		if got != c.want {
			t.Errorf("%s: shown after %d moves, want %d", name, got, c.want)
		}
	}
}

// How many blocks with a new maximum in each show that no high water rises so, by
// the age at which they begin.
func TestMaximaThatShowALeak(t *testing.T) {
	for _, c := range []struct {
		age, width float64 // s
		want       int
	}{
		{60, 10, 5},
		{600, 10, 2},
		{3600, 10, 1},
		{3600, 2560, 7},
		{86400, 2560, 2},
	} {
		var b highWaterBet
		b.begin(allotted(1))
		n := 0
		for age := c.age; b.fortune < 1/(0.4*shareOf(0)); age += c.width {
			b.block(true, 3, age, age+c.width)
			n++
		}
		if n != c.want {
			t.Errorf("blocks of %g s from an age of %g s on: %d, want %d", c.width, c.age, n, c.want)
		}
	}
}

// Nothing that is bet on ever makes a fortune that is not a number, or infinite.
func TestFortunesStayFinite(t *testing.T) {
	for name, move := range map[string]func(i int) float64{
		"up for ever":      func(int) float64 { return 1e6 },
		"down for ever":    func(int) float64 { return -1e6 },
		"up, and all down": func(i int) float64 { return 1e3 - 1e6*float64(btoi(i%1000 == 999)) },
		"as far as can be": func(i int) float64 { return math.MaxUint32 * float64(1-2*(i%2)) },
	} {
		var b walkBet
		var h highWaterBet
		b.begin(allotted(1))
		h.begin(allotted(1))
		for i := range 5000 {
			b.move(move(i) > 0, int32(i%9))
			h.block(move(i) > 0, 3, float64(300+i), float64(301+i))
			if w := b.wealth(); !(w >= 0 && w <= mostWealth) || !(h.fortune >= 0 && h.fortune <= mostWealth) {
				t.Fatalf("%s: %g and %g after %d moves", name, w, h.fortune, i+1)
			}
		}
	}
}
