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

// seasonBlock is the width of the narrowest blocks of these tests, ticks.
const seasonBlock = 100

// silent is where a season says nothing.
const silent = -1.0

// seasoned is a season that is given cycles by hand: what is typical of them is set, and
// does not follow from them.
type seasoned struct {
	season
	c  cycles
	at int32
}

func newSeasoned(length, size float64) *seasoned {
	return &seasoned{c: cycles{length: length, size: size}}
}

// cycle gives the season a cycle of that length, with a trough each seasonBlock ticks, and
// returns what the memory would be at the foot of it at each.
func (y *seasoned) cycle(length int32, memory func(since int32) float64) (levels []float64) {
	y.turn(y.at, &y.c, seasonBlock)
	end := y.at + length
	for at := (y.at/seasonBlock + 1) * seasonBlock; at <= end; at += seasonBlock {
		level, ok := y.above(at, uint32(memory(at-y.at)), y.c.size)
		if !ok {
			level = silent
		}
		levels = append(levels, level)
	}
	y.at = end
	return levels
}

// learned is a season of n cycles of that length and memory.
func learned(n int, length int32, size float64, memory func(since int32) float64) *seasoned {
	y := newSeasoned(float64(length), size)
	for range n {
		y.cycle(length, memory)
	}
	y.turn(y.at, &y.c, seasonBlock)
	return y
}

// tooth is a sawtooth of that height in units above 10000, over that length in ticks.
func tooth(height float64, length int32) func(since int32) float64 {
	return func(since int32) float64 { return 10000 + height*float64(since)/float64(length) }
}

// said is how many of the levels are not silent.
func said(levels []float64) (n int) {
	for _, v := range levels {
		n += btoi(v != silent)
	}
	return n
}

// The shape of alike cycles is known when seasonCycles of them are over: the one in
// which the following began is the first.
func TestSeasonIsKnownAfterSomeCycles(t *testing.T) {
	const length = 4400
	y := newSeasoned(length, 6400)
	for n := range 6 {
		levels := y.cycle(length, tooth(6400, length))
		if y.cycles != n || y.known() != (n >= seasonCycles) {
			t.Errorf("after %d cycles, %d are in the shape, known: %t", n, y.cycles, y.known())
		}
		if got := said(levels); got != 44*btoi(n >= 3) {
			t.Errorf("after %d cycles: %d of 44 levels", n, got)
		}
	}
}

// Cycles that are not alike are not followed, nor are such as are about as short as
// the blocks.
func TestWhichCyclesAreFollowed(t *testing.T) {
	for _, c := range []struct {
		name           string
		length, varies float64
		want           bool
	}{
		{"all the same", 6000, 0, true},
		{"differ by a fifth", 6000, 1200, true},
		{"differ by more", 6000, 1201, false},
		{"six blocks", 600, 0, true},
		{"less", 599, 0, false},
		{"no length yet", 0, 0, false},
	} {
		s := season{}
		of := cycles{length: c.length, varies: c.varies, size: 1000}
		s.turn(1000, &of, seasonBlock)
		if (s.part > 0) != c.want || s.begun != 1000 {
			t.Errorf("%s: parts of %d from %d on", c.name, s.part, s.begun)
		}
		if want := max(seasonBlock, int32(c.length/22)); c.want && s.part != want {
			t.Errorf("%s: parts of %d, want %d", c.name, s.part, want)
		}
		if _, ok := s.above(1100, 500, 1000); ok {
			t.Errorf("%s: a level before anything is known", c.name)
		}
		y := learned(4, 4400, 6400, tooth(6400, 4400)) // what was known is forgotten, too
		y.c = of
		if y.turn(y.at, &of, seasonBlock); !c.want && (y.part != 0 || y.cycles != 0 || y.known()) {
			t.Errorf("%s: %d cycles in parts of %d stay", c.name, y.cycles, y.part)
		}
	}
}

// Cycles that become more than twice as long, or less than half, have another shape.
func TestSeasonOfAnotherLengthBeginsAnew(t *testing.T) {
	for _, c := range []struct {
		length float64
		part   int32
		anew   bool
	}{
		{44000, 2000, false},
		{88000, 2000, false},
		{88021, 2000, false},
		{22000, 2000, false},
		{88022, 4001, true},
		{21999, 999, true},
		{1000, 100, true},
	} {
		y := learned(4, 44000, 6400, tooth(6400, 44000))
		y.off = 77
		y.cycle(4400, tooth(6400, 44000))
		y.c.length = c.length
		y.turn(y.at, &y.c, seasonBlock)
		unknown := 0
		for i := range y.shape {
			unknown += btoi(!y.has(int32(i)))
			if y.n[i] != 0 || y.sum[i] != 0 {
				t.Errorf("length %g: part %d of the next cycle has %d troughs", c.length, i, y.n[i])
			}
		}
		if y.part != c.part || y.cycles != 5*btoi(!c.anew) || y.begun != y.at {
			t.Errorf("length %g: %d cycles in parts of %d, want parts of %d", c.length, y.cycles, y.part, c.part)
		}
		if c.anew != (unknown == seasonParts) || c.anew != (y.off == 0) {
			t.Errorf("length %g: %d parts are unknown, off %g", c.length, unknown, y.off)
		}
	}
}

// A floor that rises leaves the shape and its foot as they were, and shows in full
// wherever the cycle is.
func TestLevelIsTakenOffTheShape(t *testing.T) {
	for _, rise := range []float64{0, 10, 333, 5000, -100} { // units a cycle
		const length = 44000
		y := newSeasoned(length, 6400)
		for n := range 20 {
			levels := y.cycle(length-seasonBlock, func(since int32) float64 {
				return tooth(6400, length)(since) + rise*float64(n)
			})
			if n < 3 {
				continue
			}
			if said(levels) != len(levels) {
				t.Fatalf("a rise of %g: silent in cycle %d", rise, n)
			}
			for i, got := range levels {
				if want := y.foot + rise*float64(n); math.Abs(got-want) > 10 {
					t.Fatalf("a rise of %g: cycle %d, block %d: level %.1f, want %.1f", rise, n, i, got, want)
				}
			}
		}
		if math.Abs(y.foot-10145) > 10 || math.Abs(float64(y.shape[16])-14793) > 10 {
			t.Errorf("a rise of %g: foot %g, the middle %g", rise, y.foot, y.shape[16])
		}
		if y.off > 2 {
			t.Errorf("a rise of %g counts as %g off the shape", rise, y.off)
		}
	}
}

// Between the middles of the parts the shape is a line: the level under a sawtooth is
// constant, however its cycles lie to the blocks.
func TestShapeIsALineBetweenParts(t *testing.T) {
	for _, c := range []struct {
		typical float64
		length  int32
		most    float64 // of the height
	}{
		{44000, 43900, 0.0015},
		// A last part that is not whole makes a difference, and so do parts of few blocks.
		{44000, 44000, 0.012},
		{4400, 4400, 0.018},
		{5987, 5987, 0.012},
		{3333, 3333, 0.01},
		{2017, 2017, 0.03},
		{700, 700, 0.08},
	} {
		y := newSeasoned(c.typical, 64000)
		farthest, all := 0.0, 0
		for n := range 40 {
			for _, got := range y.cycle(c.length, tooth(64000, c.length)) {
				if got != silent {
					farthest = max(farthest, math.Abs(got-y.foot)/64000)
					all++
				}
			}
			if blocks := int(c.length / seasonBlock); n == seasonCycles && all < blocks-1 {
				t.Errorf("length %d: only %d of %d levels", c.length, all, blocks)
			}
		}
		if t.Logf("length %d: off by %.4f", c.length, farthest); farthest > c.most {
			t.Errorf("length %d: the level is off by %.4f of the height, more than %g", c.length, farthest, c.most)
		}
	}
}

// The shape goes on after its last part, and before the first one, as it does beside.
func TestShapeAtItsEnds(t *testing.T) {
	var s season
	for i := range s.shape {
		s.shape[i] = unknownPart
	}
	s.shape[3], s.shape[4], s.shape[5], s.shape[9] = 100, 140, 200, 70
	for _, c := range []struct {
		part      int32
		off, want float64
	}{
		{4, 0, 140},
		{4, 0.5, 170},
		{4, -0.5, 120},
		{4, 0.25, 155},
		{3, -0.5, 80},
		{5, 0.5, 230},
		{3, 0.5, 120},
		{5, -0.5, 170},
		{9, 0.5, 70},
		{9, -0.5, 70},
	} {
		if got := s.at(c.part, c.off); got != c.want {
			t.Errorf("part %d, %g after its middle: %g, want %g", c.part, c.off, got, c.want)
		}
	}
	s.shape[0], s.shape[seasonParts-1] = 5, 0
	if s.at(0, -0.5) != 5 || s.at(seasonParts-1, 0.5) != 0 || s.has(-1) || s.has(seasonParts) || !s.has(seasonParts-1) || s.has(1) {
		t.Error("the ends of the shape")
	}
}

// Where the shape has an edge, nothing is known; a small step is no edge.
func TestEdgesSayNothing(t *testing.T) {
	const length, size = 4400, 8000
	for _, c := range []struct {
		step  float64 // of the height
		quiet []int   // parts
	}{
		{0.2, nil}, {0.25, nil}, {0.26, []int{10, 11}}, {1, []int{10, 11}}, {-0.26, []int{10, 11}}, {-0.25, nil},
	} {
		y := learned(3, length, size, func(since int32) float64 { return 10000 + size*c.step*float64(btoi(since >= length/2)) })
		for i := range int32(22) {
			_, ok := y.above(y.at+i*y.part+y.part/2, 12000, size)
			if want := !slices.Contains(c.quiet, int(i)); ok != want {
				t.Errorf("a step of %g, part %d: a level: %t", c.step, i, ok)
			}
		}
	}
}

// A cycle that is longer than the typical ones is followed for half as long again; one
// that is longer still is the end of the season, and the next one begins another.
func TestLongCyclesAreFollowedForAWhile(t *testing.T) {
	const length = 6300
	y := newSeasoned(4400, 6400)
	for range 4 {
		y.cycle(length, tooth(6400, length))
	}
	for i, got := range y.cycle(8000, tooth(6400, length)) {
		if since := (i + 1) * seasonBlock; (got != silent) != (since < 200*32) {
			t.Errorf("%d ticks after the begin: %g", since, got)
		}
	}
	if y.part != 0 || y.known() {
		t.Errorf("a cycle of more parts than there are: %+v", y.season)
	}
	y = newSeasoned(4400, 6400)
	for range 4 {
		y.cycle(length, tooth(6400, length))
	}
	y.turn(y.at, &y.c, seasonBlock)
	if _, ok := y.above(y.at-1, 10000, 6400); ok || y.n[0] > 0 {
		t.Error("the cycle holds what was before it")
	}
	if _, ok := y.above(y.at, 10000, 6400); !ok || y.n[0] != 1 {
		t.Error("a trough at the very begin does not count")
	}
	if level, ok := y.above(y.at+5100, 3, 6400); !ok || level != 0 || y.n[25] != 1 {
		t.Errorf("far below the shape: %g, %t", level, ok)
	}
	y = learned(4, 2200, 6400, tooth(6400, 2200)) // parts that no cycle reached
	for _, since := range []int32{2300, 2400, 3000} {
		if _, ok := y.above(y.at+since, 10000, 6400); ok {
			t.Errorf("a part that was never seen, %d ticks after the begin, has a level", since)
		}
	}
}

// bumped is a cycle of 22 parts, flat but for part 20, which is higher.
func bumped(by float64) func(since int32) float64 {
	return func(since int32) float64 { return 10000 + by*float64(btoi(since/200 == 20)) }
}

// The shape is the mean of the cycles at first, and then forgets the oldest.
func TestShapeForgets(t *testing.T) {
	for _, c := range []struct {
		before int
		want   float64 // of the change
	}{
		{1, 1. / 2}, {2, 1. / 3}, {4, 0.2}, {5, 0.2}, {30, 0.2},
	} {
		y := learned(c.before, 4400, 8000, bumped(0))
		y.cycle(4400, bumped(1600))
		y.turn(y.at, &y.c, seasonBlock)
		got := float64(y.shape[20]) - float64(y.shape[5])
		if math.Abs(got-1600*c.want) > 1 {
			t.Errorf("after %d cycles: the shape moves by %g of 1600", c.before, got)
		}
	}
}

// A cycle of which nothing was seen changes nothing.
func TestCycleThatWasNotSeen(t *testing.T) {
	y := learned(4, 4400, 8000, bumped(0))
	y.off = 50
	before := y.season
	for range 3 {
		y.turn(y.at, &y.c, seasonBlock)
	}
	if y.season != before {
		t.Errorf("%+v, want %+v", y.season, before)
	}
}

// Of a cycle that was seen only where no other one was, nothing tells its level: the shape
// does not learn from it.
func TestCycleBesideTheShape(t *testing.T) {
	for _, c := range []struct {
		from   int32
		learns bool
	}{{2300, false}, {2100, true}} { // the shape ends at 2200
		y := learned(4, 2200, 6400, tooth(6400, 2200))
		before := y.season
		for since := c.from; since < 3200; since += seasonBlock {
			y.above(y.at+since, 50000, y.c.size)
		}
		y.turn(y.at, &y.c, seasonBlock)
		if learns := y.season != before; learns != c.learns || learns != y.has(25) {
			t.Errorf("a cycle that was seen from %d on: learned %t: %+v", c.from, learns, y.season)
		}
	}
}

// The shape is never below zero, where it would be no memory.
func TestShapeIsNotNegative(t *testing.T) {
	step := func(high float64) func(since int32) float64 {
		return func(since int32) float64 { return high * float64(btoi(since >= 2200)) }
	}
	y := learned(1, 4400, 1000, step(1000))
	y.cycle(4400, step(3000))
	y.turn(y.at, &y.c, seasonBlock)
	if y.foot != 0 || y.shape[3] != 0 || math.Abs(float64(y.shape[20])-1478) > 2 {
		t.Errorf("foot %g, shape %g and %g", y.foot, y.shape[3], y.shape[20])
	}
}

// What the memory may be above the shape is a share of the height at first, and later
// what a cycle was off it, which is forgotten slowly.
func TestAllowance(t *testing.T) {
	y := learned(3, 4400, 8000, bumped(0))
	for n := 3; n < 40; n++ { // alike cycles: they may differ by ever less
		if got, want := y.allowance(8000), 0.6*8000/float64(n); math.Abs(got-want) > 1e-9 {
			t.Fatalf("after %d alike cycles %g, want %g", n, got, want)
		}
		y.cycle(4400, bumped(0))
		y.turn(y.at, &y.c, seasonBlock)
	}
	y.cycle(4400, bumped(1600))
	y.turn(y.at, &y.c, seasonBlock)
	off := 1600 * 22. / 23 // the rest is level
	if got := y.allowance(8000); math.Abs(got-2.5*off) > 1 {
		t.Errorf("off by %g: %g is granted", off, got)
	}
	for n := range 30 {
		y.cycle(4400, bumped(float64(n%2)*50))
		y.turn(y.at, &y.c, seasonBlock)
	}
	if got, want := y.allowance(8000), 2.5*off*math.Pow(0.98, 30); math.Abs(got-want) > 1 {
		t.Errorf("30 cycles later %g, want %g", got, want)
	}
	y.cycle(4400, bumped(-700)) // less than once
	y.turn(y.at, &y.c, seasonBlock)
	if got, want := y.off, off*math.Pow(0.98, 31); math.Abs(got-want) > 1 {
		t.Errorf("a smaller one: off by %g, want %g", got, want)
	}
	y.cycle(4400, bumped(-3000)) // below counts as above
	y.turn(y.at, &y.c, seasonBlock)
	if y.off < 2500 {
		t.Errorf("a hole of 3000: off by %g", y.off)
	}
}

// A change of the level, and what is at an edge, is not off the shape.
func TestWhatIsNotOffTheShape(t *testing.T) {
	step := func(at int32, level float64) func(since int32) float64 {
		return func(since int32) float64 { return level + 8000*float64(btoi(since >= at)) }
	}
	for _, c := range []struct {
		name   string
		memory func(since int32) float64
		most   float64
	}{
		{"the same", step(2200, 10000), 0},
		{"another level", step(2200, 30000), 0},
		{"a lower one", step(2200, 2000), 0},
		{"the edge is earlier", step(2100, 10000), 180}, // 4000 in one part is 174 in all
		{"the edge is later", step(2300, 10000), 180},
		{"a part earlier, and one more", step(1800, 10000), 8000},
	} {
		y := learned(5, 4400, 8000, step(2200, 10000))
		y.cycle(4400, c.memory)
		y.turn(y.at, &y.c, seasonBlock)
		if y.off > c.most || c.most > 1000 && y.off < 0.8*c.most {
			t.Errorf("%s: off by %g", c.name, y.off)
		}
	}
}

// The median of an open block is the lower one of two, of its first values.
func TestMedianOfAnOpenBlock(t *testing.T) {
	var many []uint32
	for i := range uint32(100) {
		many = append(many, 1000-i)
	}
	for _, c := range []struct {
		values []uint32
		want   uint32
	}{
		{[]uint32{7}, 7},
		{[]uint32{9, 3}, 3},
		{[]uint32{9, 1, 5}, 5},
		{[]uint32{4, 3, 2, 1}, 2},
		{[]uint32{5, 5, 1, 9, 1 << 31}, 5},
		{many, 996}, // of 1000 down to 993
	} {
		var o levels
		for range 2 { // it is empty again after that
			for _, v := range c.values {
				o.add(v)
			}
			if want := min(len(c.values), levelValues); o.n != want {
				t.Errorf("%v: %d values, want %d", c.values, o.n, want)
			}
			if got := o.take(); got != c.want || o.n != 0 {
				t.Errorf("%v: %d, want %d; %d are left", c.values, got, c.want, o.n)
			}
		}
	}
}

// gauged is a series that is given a sample at each interval.
type gauged struct {
	*series
	interval, second int     // s
	capacity         float64 // bytes
	found            int     // when a leak was declared first, s; -1 never
	best             int     // the scale that was surest then
	episodes         int
}

func gauge(interval int, capacity float64) *gauged {
	return &gauged{series: newSeries(DefaultConfig()), interval: interval, capacity: capacity, found: -1}
}

// until goes on to that second and calls look, if any, after each sample.
func (g *gauged) until(second int, memory func(s int) float64, look func()) *gauged {
	for ; g.second < second; g.second += g.interval {
		was := g.leak.on
		g.observe(&observation{
			t: int64(seconds2026(g.second)), used: int64(round(memory(g.second))), interval: int64(g.interval) * 1e9, capacity: g.capacity,
		})
		if g.leak.on && !was {
			if g.episodes++; g.found < 0 {
				g.found, g.best = g.second, int(g.leak.best)
			}
		}
		if look != nil {
			look()
		}
	}
	return g
}

// epochs are of that length in seconds and that height in bytes, above 10 GiB.
func epochs(length int, height float64) func(s int) float64 {
	return func(s int) float64 { return 10*gib + height*float64(s%length)/float64(length) }
}

// noisy adds white noise of that deviation in bytes.
func noisy(memory func(s int) float64, deviation float64, seed uint64) func(s int) float64 {
	rng := rand.New(rand.NewPCG(seed, 71))
	return func(s int) float64 { return memory(s) + deviation*rng.NormFloat64() }
}

// leaky adds a leak of that rate in bytes a second from the second from on.
func leaky(memory func(s int) float64, rate float64, from int) func(s int) float64 {
	return func(s int) float64 { return memory(s) + rate*float64(max(0, s-from)) }
}

// A leak under epochs, longer than it needs to show, is found above their shape; the
// epochs alone are none.
func TestLeakAboveCycles(t *testing.T) {
	for _, c := range []struct{ interval, within int }{{1, 22}, {5, 22}, {15, 24}} {
		for _, noise := range []float64{0, 20 * mib} {
			for seed := range uint64(2) {
				name := fmt.Sprintf("every %d s, noise %g, seed %d", c.interval, noise, seed)
				memory := epochs(600, 4*gib)
				g := gauge(c.interval, 24*gib).until(3600+60*c.within, noisy(leaky(memory, mib, 3600), noise, seed), nil)
				if g.found < 3600 || g.best < levelScale || g.episodes != 1 {
					t.Errorf("%s: found at %d s by scale %d, %d times", name, g.found, g.best, g.episodes)
				}
				if h := gauge(c.interval, 24*gib).until(6*3600, noisy(memory, noise, seed), nil); h.found >= 0 || !h.levels.inSeason {
					t.Errorf("%s: a leak at %d s, by scale %d; in season: %t", name, h.found, h.best, h.levels.inSeason)
				}
			}
		}
	}
}

// Epochs whose heights differ are no leak, but for the one of many whose first ones happen
// to rise.
func TestUnequalEpochsAreNoLeak(t *testing.T) {
	series, alarms := 0, 0
	for name, height := range map[string]func(rng *rand.Rand) float64{
		"15 % at most":      func(rng *rand.Rand) float64 { return 0.15 * (2*rng.Float64() - 1) },
		"15 % as a rule":    func(rng *rand.Rand) float64 { return 0.15 * rng.NormFloat64() },
		"two kinds of them": func(rng *rand.Rand) float64 { return 0.15 * float64(rng.IntN(2)) },
	} {
		for _, interval := range []int{1, 5, 5, 15, 15, 15} {
			for range 3 {
				rng := rand.New(rand.NewPCG(uint64(series%18), 72))
				epoch, high := -1, 0.0
				g := gauge(interval, 24*gib).until(6*3600, func(s int) float64 {
					if s/600 != epoch {
						epoch, high = s/600, 4*gib*(1+height(rng))
					}
					return 10*gib + high*float64(s%600)/600
				}, nil)
				if g.found >= 0 || !g.levels.inSeason {
					alarms++
					t.Logf("%s, every %d s, series %d: found at %d s by scale %d; in season: %t", name, interval, series, g.found, g.best, g.levels.inSeason)
				}
				series++
			}
		}
	}
	if alarms > 1 {
		t.Errorf("a leak in %d of %d series", alarms, series)
	}
}

// The level scale begins anew as soon as it follows another thing, but for the count of
// its runs, which share one probability of a false alarm.
func TestLevelScaleBeginsAnew(t *testing.T) {
	g := gauge(1, 80*gib)
	var turns []bool
	was, before := false, g.ladder
	look := func() {
		if l := &g.levels; l.inSeason != was {
			was = l.inSeason
			turns = append(turns, was)
			e, old := &g.ladder[levelScale], &before[levelScale]
			want := scale{width: old.width, least: old.least, share: old.share, runs: old.runs}
			want.start, want.until, want.min, want.n = e.start, e.until, e.min, e.n
			if *e != want || e.n != l.n || e.n > 1 || g.growths[levelScale] != (growth{}) || old.len == 0 || old.runs == 0 {
				t.Errorf("second %d: %d troughs after %d, %d runs after %d, %d values of %d, growth %+v",
					g.second, e.len, old.len, e.runs, old.runs, l.n, e.n, g.growths[levelScale])
			}
		}
		before = g.ladder
	}
	g.until(5400, epochs(600, 4*gib), look)
	leak := leaky(epochs(600, 4*gib), mib, 5400)
	if g.until(7200, leak, look); g.growths[levelScale].retained == 0 {
		t.Error("no growth before the length changes: the test shows little")
	}
	g.until(12600, leaky(epochs(250, 4*gib), mib, 5400), look)
	if !slices.Equal(turns, []bool{true, false, true}) {
		t.Errorf("in season: %v", turns)
	}
}

// While the shape is not known, but the cycles are alike, the level scale waits; before
// that it follows the memory itself, at the median of a block.
func TestWhatTheLevelScaleFollows(t *testing.T) {
	g := gauge(1, 80*gib)
	e := &g.ladder[levelScale]
	g.until(1790, func(s int) float64 { return epochs(600, 4*gib)(s) }, nil)
	closed := e.closed
	if closed < 25 || g.levels.inSeason {
		t.Errorf("%d blocks in half an hour", closed)
	}
	if g.until(3590, epochs(600, 4*gib), nil); g.levels.season.part == 0 || e.closed > closed+1 || g.levels.inSeason {
		t.Errorf("%d blocks after %d while the shape is not known", e.closed, closed)
	}
	if g.until(5400, epochs(600, 4*gib), nil); !g.levels.inSeason || e.closed < 20 {
		t.Errorf("in season: %t, %d blocks", g.levels.inSeason, e.closed)
	}
	// One narrow block of five is another, which the median does not show.
	for other, rest := range map[int64]int64{10: 11, 12: 11} {
		h := gauge(1, 80*gib).until(3600, func(s int) float64 {
			if s/10%5 == 0 {
				return float64(other * gib)
			}
			return float64(rest * gib)
		}, nil)
		var buffer [scaleBlocks]point
		for i, p := range h.ladder[levelScale].points(&buffer) {
			if p.bytes() != rest*gib {
				t.Fatalf("block %d: the median is %d MiB", i, p.bytes()/mib)
			}
		}
	}
}

// An open block holds as many values as its scale has seen, from the first sample on.
func TestOpenBlockHoldsWhatItsScaleSaw(t *testing.T) {
	for _, interval := range []int{1, 15, 60} {
		g := gauge(interval, 80*gib)
		g.until(3600, epochs(600, 4*gib), func() {
			if got, want := g.levels.n, min(g.ladder[levelScale].n, levelValues); got != want {
				t.Fatalf("every %d s, second %d: %d values of %d", interval, g.second, got, want)
			}
		})
	}
}

// What is above the shape is held against what may be above it and against what the level
// scale itself saw given back, and the memory against what wider scales saw, too.
func TestGivenOfTheLevelScale(t *testing.T) {
	for _, c := range []struct {
		inSeason            bool
		level, trough, wide float64 // given back at a level scale, the narrowest and the widest one
		off, want           float64
	}{
		{true, 10, 900, 900, 20, 50},
		{true, 60, 900, 900, 20, 60},
		{true, 0, 900, 900, 0, 12},
		{false, 10, 0, 70, 20, 70},
		{false, 10, 900, 0, 20, 10},
		{false, 90, 0, 70, 20, 90},
	} {
		s := newSeries(DefaultConfig())
		s.levels.inSeason, s.cycles.size = c.inSeason, 100
		s.levels.season.cycles, s.levels.season.off = 5, c.off
		s.ladder[levelScale].given, s.ladder[0].given, s.ladder[ladderScales-1].given = c.level, c.trough, c.wide
		if got := s.given(levelScale); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%+v: %g", c, got)
		}
	}
}

// White noise hides a leak for a while only; and it stays a leak though single troughs are
// far below it. Noise alone is none.
func TestLeakUnderNoise(t *testing.T) {
	flat := func(int) float64 { return 10 * gib }
	soon := 0
	for seed := range uint64(8) {
		g := gauge(1, 32*gib).until(9000, noisy(leaky(flat, 2*mib, 3600), 300*mib, seed), nil)
		t.Logf("seed %d: %d s, scale %d", seed, g.found-3600, g.best)
		soon += btoi(g.found >= 3600 && g.found < 3600+25*60)
		if g.found < 3600 || g.found > 3600+35*60 || g.episodes != 1 {
			t.Errorf("seed %d: found at %d s, %d times", seed, g.found, g.episodes)
		}
	}
	if soon < 6 {
		t.Errorf("%d of 8 are found within 25 minutes", soon)
	}
	for seed := range uint64(3) {
		if h := gauge(1, 32*gib).until(12*3600, noisy(flat, 300*mib, seed), nil); h.found >= 0 {
			t.Errorf("noise alone, seed %d: a leak at %d s by scale %d", seed, h.found, h.best)
		}
	}
}

// slopes are cycles of ten minutes that rise for eight and fall for two, and a leak from
// two hours on.
func slopes(s int) float64 {
	x := float64(s % 600)
	return 10*gib + 4*gib*min(x/480, (600-x)/120) + mib*float64(max(0, s-7200))
}

// A domain that is restored in the midst of a season, of a block and of a fall goes on as
// one that was never away.
func TestSeasonIsRestored(t *testing.T) {
	var season, open, falling, leak int // restores in the midst of them
	run := func(restore func(frame int) bool) (all []Verdict) {
		d, memory := newDomain(t), noisy(slopes, 10*mib, 0)
		for frame := range 2000 {
			used := round(memory(frame * 5))
			j, err := look(d, &Frame[int]{
				T: seconds2026(frame * 5), Used: Of(used), Capacity: Of(24 * gib), Complete: true,
				Members: []Member[int]{{Key: 1, Used: Of(used), Started: start}},
			})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, j.Members[0].Verdict)
			if !restore(frame) {
				continue
			}
			s := d.members[1].series
			season += btoi(s.levels.inSeason)
			open += btoi(s.levels.inSeason && s.levels.n > 1)
			falling += btoi(s.cycles.falling)
			leak += btoi(s.leak.on && s.leak.level)
			saved := d.Save(nil, appendKey)
			d = newDomain(t)
			if err := d.Restore(saved, readKey); err != nil {
				t.Fatalf("frame %d: %v", frame, err)
			}
		}
		return all
	}
	want := run(func(int) bool { return false })
	for name, restore := range map[string]func(frame int) bool{
		"for a while": func(frame int) bool { return frame >= 1840 && frame < 1910 },
		"each 23rd":   func(frame int) bool { return frame%23 == 0 },
		"each 397th":  func(frame int) bool { return frame%397 == 396 },
	} {
		got := run(restore)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("restored %s, frame %d differs:\n%+v\nwant\n%+v", name, i, got[i], want[i])
			}
		}
	}
	if min(season, open, falling, leak) < 20 {
		t.Errorf("restores in a season %d, a block %d, a fall %d, a leak %d: the test shows little", season, open, falling, leak)
	}
}

// recoded writes what code writes and reads it back.
func recoded(write, read func(c *codec)) error {
	w := codec{writing: true, last: int64(seconds2026(20000))}
	write(&w)
	r := codec{b: w.b, last: w.last}
	if read(&r); r.err == nil && len(r.b) > 0 {
		return errState
	}
	return r.err
}

// What no season and no open block can be is refused.
func TestRestoreRefusesSeasons(t *testing.T) {
	whole := learned(4, 4400, 8000, bumped(100))
	whole.cycle(6200, bumped(200))
	for name, change := range map[string]func(l *levels){
		"":                        func(*levels) {},
		"cycles without parts":    func(l *levels) { l.season.part = 0 },
		"parts of no width":       func(l *levels) { l.season.part = -1 },
		"fewer than no cycles":    func(l *levels) { l.season.cycles = -1 },
		"a sum below zero":        func(l *levels) { l.season.sum[5] = -1 },
		"a shape below the least": func(l *levels) { l.season.shape[7] = -1.5 },
		"a shape that is none":    func(l *levels) { l.season.shape[7] = float32(math.NaN()) },
		"a foot below zero":       func(l *levels) { l.season.foot = -1 },
		"a foot without end":      func(l *levels) { l.season.foot = math.Inf(1) },
		"off by less than none":   func(l *levels) { l.season.off = -1 },
		"off by all":              func(l *levels) { l.season.off = math.Inf(1) },
	} {
		from, to := levels{season: whole.season, inSeason: true}, levels{}
		from.add(9)
		from.add(7)
		change(&from)
		err := recoded(from.code, to.code)
		if (err == nil) != (name == "") {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && to != from {
			t.Errorf("%+v, want %+v", to, from)
		}
	}
	from := levels{}
	if err := recoded(from.code, new(levels).code); err != nil { // nothing is known of any cycle
		t.Error(err)
	}
	w := codec{writing: true}
	from.code(&w)
	w.b[len(w.b)-1] = levelValues*2 + 2 // one value more than there is room for
	if c := (codec{b: slices.Concat(w.b, make([]byte, 100))}); !func() bool { new(levels).code(&c); return c.err != nil }() {
		t.Error("more values than a block holds")
	}
}

// A fall so soon after another one that no block ends between them is no cycle to learn
// from: the series can be saved and restored at any time.
func TestCycleWithoutATroughIsNotLearned(t *testing.T) {
	dip := func(s int) float64 {
		x := float64(s % 600)
		if s == 1802 || s == 1803 {
			x = 400
		}
		return 10*gib + 4*gib*x/600
	}
	g := gauge(1, 80*gib)
	g.until(2400, dip, func() {
		if g.second%100 != 0 || g.second < 1700 {
			return
		}
		if err := recoded(func(c *codec) { c.last = g.last; g.code(c) }, func(c *codec) { c.last = g.last; newSeries(g.cfg).code(c) }); err != nil {
			t.Errorf("second %d: %v", g.second, err)
		}
	})
}

// What would make a restored series fail later is refused.
func TestRestoreRefusesLevels(t *testing.T) {
	for name, change := range map[string]func(s *series){
		"as it is":                   func(*series) {},
		"an open block of nothing":   func(s *series) { s.levels.n = 0 },
		"a cycle that began earlier": func(s *series) { s.levels.season.begun = math.MinInt32 },
	} {
		g := gauge(1, 80*gib).until(6030, epochs(600, 4*gib), nil)
		for g.ladder[levelScale].n == 0 {
			g.until(g.second+1, epochs(600, 4*gib), nil)
		}
		change(g.series)
		err := recoded(func(c *codec) { c.last = g.last; g.code(c) }, func(c *codec) { c.last = g.last; newSeries(g.cfg).code(c) })
		if (err == nil) != (name == "as it is") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// When the program stops, and nothing falls any more, the level scale follows the memory
// itself again.
func TestSeasonEndsWithItsCycles(t *testing.T) {
	g := gauge(1, 80*gib).until(5400, epochs(600, 4*gib), nil)
	if !g.levels.inSeason {
		t.Fatal("not in season")
	}
	g.until(7200, func(int) float64 { return 10 * gib }, nil)
	if e := &g.ladder[levelScale]; g.levels.inSeason || e.closed == 0 || e.level != units(10*gib) {
		t.Errorf("half an hour later: in season %t, %d blocks, at %d units", g.levels.inSeason, e.closed, e.level)
	}
}
