// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// mibs are the troughs of blocks of 10 s, in MiB, one after another.
func mibs(levels ...float64) []float64 { return levels }

// join puts parts one after another.
func join[T any](parts ...[]T) []T { return slices.Concat(parts...) }

// repeat is n times the level v.
func repeat(n int, v float64) []float64 { return slices.Repeat([]float64{v}, n) }

// ramp is n levels from one on, step apart.
func ramp(n int, from, step float64) (all []float64) {
	for i := range n {
		all = append(all, from+float64(i)*step)
	}
	return all
}

// shareOf is the share of a scale of the probability of a false alarm where samples are
// close together.
func shareOf(scale int) float64 { return newSeries(DefaultConfig()).ladder[scale].share }

// climbing gives a scale of blocks of 10 s those troughs, in MiB.
func climbing(levels []float64, filled int32) *scale {
	e := &scale{width: ladderBase, share: shareOf(0)}
	for i, v := range levels {
		n := nature{began: -36000, rate: 3, fullSince: filled, fullUntil: -1}
		if filled >= 0 {
			n.fullUntil = int32(i) * 100 // it is to this moment
		}
		e.close(point{at: int32(i+1) * 100, v: uint32(v * oneMiB)}, n)
	}
	return e
}

// The trough of a block is its lowest sample, of three at least, whatever the time
// between them.
func TestTroughsOfBlocks(t *testing.T) {
	for _, c := range []struct {
		name string
		step int64 // s between samples
		used []int64
		want []int64
	}{
		{"a second", 5, []int64{9, 7, 8, 5, 6, 9, 1}, []int64{7, 5}},
		{"ten seconds: three samples all the same", 10, []int64{9, 7, 8, 5, 6, 9, 1}, []int64{7, 5}},
		{"a minute", 60, []int64{3, 2, 1, 6, 5, 4, 9}, []int64{1, 4}},
	} {
		e := scale{width: ladderBase, least: blockSamples}
		var got []int64
		for i, v := range c.used {
			if low, closed := e.add(int64(i)*c.step*1e9, v*mib, 0, nature{rate: 3}); closed {
				got = append(got, low.bytes/mib)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: troughs %v, want %v", c.name, got, c.want)
		}
		if level, ok := e.envelope(); !ok || level != min(c.want[len(c.want)-1], c.used[len(c.used)-1])*mib {
			t.Errorf("%s: the trough now is %d", c.name, level)
		}
	}
}

// Where samples are far apart, the ladder begins where a block holds three of them,
// or as many as come in a minute, and each step is at least half as wide again.
func TestLadderFitsTheInterval(t *testing.T) {
	for _, c := range []struct {
		interval int64   // s
		widths   []int64 // s, rounded
	}{
		{1, []int64{10, 25, 63, 160, 403, 1016, 2560}},
		{3, []int64{10, 25, 63, 160, 403, 1016, 2560}},
		{15, []int64{45, 88, 173, 339, 666, 1305, 2560}},
		{30, []int64{60, 112, 210, 392, 733, 1369, 2560}},
		{60, []int64{60, 112, 210, 392, 733, 1369, 2560}},
		{600, []int64{600, 900, 1350, 2025, 3038, 4556, 6834}},
	} {
		s := newSeries(DefaultConfig())
		samples, blocks := 0, int64(0)
		for i := range 2000 {
			s.observe(&observation{t: int64(start) + int64(i)*c.interval*1e9, used: 10 * gib, interval: c.interval * 1e9})
			samples++
			if e := &s.ladder[0]; i <= settleSamples {
				samples, blocks = e.n, e.closed
			} else if e.closed != blocks {
				if samples < min(blockSamples, max(1, int(60/c.interval))) {
					t.Fatalf("every %d s: a block of %d samples", c.interval, samples)
				}
				samples, blocks = 1, e.closed
			}
		}
		for k, want := range c.widths {
			if got := (s.ladder[k].width + 5e8) / 1e9; got != want {
				t.Errorf("every %d s: scale %d is %d s wide, want %d", c.interval, k, got, want)
			}
		}
		shares := 0.0
		for k := range s.ladder {
			shares += s.ladder[k].share
		}
		about(t, "all shares of the probability of a false alarm", shares, 1)
		if blocks < 190 {
			t.Errorf("every %d s: %d blocks closed", c.interval, blocks)
		}
	}
}

// A wide block is made of narrow ones: its trough is the lowest of theirs.
func TestScalesAreNested(t *testing.T) {
	for _, interval := range []int64{1, 15, 60} {
		s := newSeries(DefaultConfig())
		rng := rand.New(rand.NewPCG(51, 52))
		lowest, compared := [ladderScales]uint32{}, 0
		for i := range 20000 {
			s.observe(&observation{t: int64(start) + int64(i)*interval*1e9, used: 10*gib + rng.Int64N(gib), interval: interval * 1e9})
			if i < settleSamples {
				continue
			}
			before := lowest
			closed := s.ladder[0].n == 1 && s.ladder[0].len > 0
			if !closed {
				continue
			}
			newest := s.ladder[0].back(1).v
			for k := 1; k < ladderScales; k++ {
				if e := &s.ladder[k]; e.n == 1 { // it closed, and begins with the newest trough
					if e.len > 1 && before[k] > 0 {
						compared++
						if e.back(1).v != before[k] {
							t.Fatalf("every %d s, sample %d: scale %d has the trough %d, want %d", interval, i, k, e.back(1).v, before[k])
						}
					}
					lowest[k] = newest
				} else if before[k] > 0 {
					lowest[k] = min(before[k], newest)
				}
			}
		}
		if compared < 500 {
			t.Errorf("every %d s: only %d wide blocks", interval, compared)
		}
	}
}

// A move is a change of the level by a quantum, however many blocks it takes.
func TestMoves(t *testing.T) {
	for _, c := range []struct {
		name   string
		levels []float64
		moves  int64
	}{
		{"flat", repeat(20, 100), 0},
		{"less than a quantum", mibs(100, 101.9, 100.1, 101.9, 98.1), 0},
		{"a quantum", mibs(100, 102), 1},
		{"a quantum in small steps", ramp(9, 100, 0.5), 2},
		{"up and down", mibs(100, 110, 100, 110), 3},
	} {
		if e := climbing(c.levels, -1); e.moves != c.moves {
			t.Errorf("%s: %d moves, want %d", c.name, e.moves, c.moves)
		}
	}
}

// Where growth begins, how it goes on and what ends it.
func TestRuns(t *testing.T) {
	for _, c := range []struct {
		name      string
		levels    []float64
		runs      int64
		falling   bool
		low, high float64
		ups       int32
		lowAt     int32 // block
	}{
		{"flat", repeat(5, 100), 1, false, 100, 100, 0, 5},
		{"grows", ramp(6, 100, 10), 1, false, 100, 150, 5, 1},
		{"grows after it was flat", join(repeat(5, 100), ramp(5, 110, 10)), 1, false, 100, 150, 5, 5},
		{"gives back less than a quarter", join(ramp(11, 100, 10), mibs(176)), 1, false, 100, 200, 10, 1},
		{"goes on after that", join(ramp(11, 100, 10), mibs(176, 210)), 1, false, 100, 210, 11, 1},
		{"gives back more than a quarter", join(ramp(11, 100, 10), mibs(174)), 2, true, 174, 200, 0, 12},
		{"falls on", join(ramp(11, 100, 10), mibs(174, 150, 120)), 2, true, 120, 200, 0, 14},
		{"regains less than a quarter", join(ramp(11, 100, 10), mibs(120, 139)), 2, true, 120, 200, 1, 12},
		{"regains a quarter", join(ramp(11, 100, 10), mibs(120, 140)), 2, false, 120, 140, 1, 12},
		{"pauses", join(ramp(6, 100, 10), repeat(7, 150)), 1, false, 100, 150, 5, 1},
		{"has stopped", join(ramp(6, 100, 10), repeat(8, 150)), 2, false, 150, 150, 0, 14},
		{"grows anew", join(ramp(6, 100, 10), repeat(8, 150), ramp(3, 160, 10)), 2, false, 150, 180, 3, 14},
		{"falls below where it began", join(ramp(3, 100, 10), mibs(50)), 2, true, 50, 120, 0, 4},
		{"back to the very low", join(ramp(3, 100, 10), mibs(50, 60, 40, 60)), 2, false, 40, 60, 1, 6},

		// Fast growth to 1100, of which what follows gives back less than a quarter.
		{"gives back half of the last 44 blocks' gain", join(ramp(11, 100, 100), ramp(50, 1104, 4), mibs(1212)), 2, true, 1212, 1300, 0, 62},
		{"gives back less of it", join(ramp(11, 100, 100), ramp(50, 1104, 4), mibs(1216)), 1, false, 100, 1300, 60, 1},
		{"gives back more of it, in four levels", join(ramp(11, 100, 100), ramp(46, 1104, 4), mibs(1400, 1450, 1500, 1550, 1300)), 2, true, 1300, 1550, 0, 62},
		{"gives back more of it, in three levels", join(ramp(11, 100, 100), ramp(46, 1104, 4), mibs(1400, 1450, 1550, 1300)), 1, false, 100, 1550, 59, 1},
	} {
		e := climbing(c.levels, -1)
		r := &e.run
		if e.runs != c.runs || r.falling != c.falling || r.low != uint32(c.low*oneMiB) || r.high != uint32(c.high*oneMiB) || r.ups != c.ups || r.lowAt != c.lowAt*100 {
			t.Errorf("%s: %d runs, %+v; want %+v", c.name, e.runs, *r, c)
		}
	}
}

// What is within the noise above the highest level is no new maximum of the high-water mark: a
// plateau there is one, not one after the other.
func TestMaximaUnderNoise(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	levels := repeat(400, 0)
	for i := range levels {
		levels[i] = 60_000 + 6*rng.NormFloat64()
	}
	e := climbing(append(levels, 60_025), -1)
	high, before := float64(e.run.high)*unit/mib, e.high.fortune
	if e.run.ups == 0 || e.leastMove() < 4*moveUnits {
		t.Fatalf("growth of %d moves, noise %g units: the test shows nothing", e.run.ups, e.noise)
	}
	for i := range 7 {
		e.close(point{at: int32(402+i) * 100, v: uint32((high + 3) * oneMiB)}, nature{began: -36000, rate: 3, fullSince: -1, fullUntil: -1})
	}
	if e.high.fortune > before {
		t.Errorf("a plateau 3 MiB above the highest level: the fortune grows from %g to %g", before, e.high.fortune)
	}
}

// What grew gradually and was given back is held against later growth. A job that
// came in a step or two, stayed for long and went is not, nor is what filled the
// memory.
func TestGiven(t *testing.T) {
	// known is a series that had grown before: what it had at first is another thing.
	known := join(mibs(60), repeat(12, 100))
	tooth := ramp(11, 100, 10) // up to 200
	for _, c := range []struct {
		name   string
		levels []float64
		filled int32   // since when the memory is full, ticks
		want   float64 // MiB
	}{
		{"a tooth", join(known, tooth, mibs(100)), -1, 90}, // above the level of 110
		{"a tooth that stayed for as long as it rose", join(known, tooth, repeat(7, 200), mibs(100)), -1, 90},
		{"a tooth that stayed for twice that, and three blocks", join(known, tooth, repeat(20, 200), mibs(100)), -1, 90},
		{"a tooth that stayed for longer", join(known, tooth, repeat(21, 200), mibs(100)), -1, 0},
		{"a tooth that stayed for 2.5 times that", join(known, tooth, repeat(24, 200), mibs(100)), -1, 0},
		{"a tooth of four levels", join(known, ramp(4, 110, 10), mibs(100)), -1, 30},
		{"a job in three levels", join(known, ramp(3, 110, 10), mibs(100)), -1, 0},
		{"a part of a tooth", join(known, tooth, mibs(150)), -1, 40},
		{"the largest of teeth", join(known, tooth, ramp(21, 100, 10), ramp(6, 100, 10), mibs(100)), -1, 190},
		{"a tooth that filled the memory, of which a part stays", join(known, tooth, mibs(130)), 2000, 0},
		{"a tooth that filled the memory, of which nothing stays", join(known, tooth, mibs(100)), 2000, 90},
		{"a tooth in a memory that was full before", join(known, tooth, mibs(100)), 1200, 90},
		{"growth that goes on", join(known, tooth), -1, 0},
		{"a dip", join(known, tooth, mibs(180, 210)), -1, 0},
		{"a job in two steps", join(known, mibs(150), repeat(20, 200), mibs(100)), -1, 0},
		{"a job in one step, at once", join(known, mibs(200, 100)), -1, 0},
		{"a job that loaded gradually, and stayed", join(known, tooth, repeat(60, 200), mibs(100)), -1, 0},
		{"a gradual decline", join(known, repeat(60, 200), ramp(10, 190, -10)), -1, 100},
		{"a decline in four steps", join(known, repeat(60, 200), ramp(4, 175, -25)), -1, 100},
		{"a decline in three steps", join(known, repeat(60, 200), mibs(170, 140, 100)), -1, 0},
		{"a decline in two steps, and in two from where it went on to grow", join(known, repeat(60, 200), mibs(150, 100, 130, 115, 100)), -1, 0},
		{"a decline in two steps", join(known, repeat(60, 200), mibs(150, 100)), -1, 0},
		{"memory that was there at first", mibs(200, 200, 200, 100), -1, 100},
		{"that, in a full memory", mibs(200, 200, 200, 100), 0, 0},
	} {
		if got := climbing(c.levels, c.filled).given / oneMiB; got < 0.97*c.want || got > c.want+3 {
			t.Errorf("%s: %g MiB given back, want %g", c.name, got, c.want)
		}
	}
}

// New maxima are expected without end of what is new: they are bet on from an age on.
func TestMaximaOfTheYoung(t *testing.T) {
	for _, c := range []struct {
		age  int32 // at the trough before the last one, ticks
		bets float64
	}{{290, 0}, {299, 0}, {300, 1}, {310, 1}} {
		var e scale
		for i, v := range mibs(100, 110, 120) {
			e.close(point{at: int32(i+1) * 100, v: uint32(v * oneMiB)}, nature{began: 200 - c.age, rate: 3, fullSince: -1, fullUntil: -1})
		}
		if e.high.blocks != c.bets || e.high.maxima != c.bets {
			t.Errorf("an age of %d ticks: %g blocks are bet on, with %g maxima", c.age, e.high.blocks, e.high.maxima)
		}
	}
}

// A give-back is forgotten in time.
func TestGivenIsForgotten(t *testing.T) {
	e := climbing(join(repeat(12, 100), ramp(11, 100, 10), repeat(2000, 100)), -1)
	if got := e.given / oneMiB; got < 30 || got > 40 {
		t.Errorf("after 2000 blocks %g of 100 MiB", got)
	}
}

// The ring holds the newest troughs, in order.
func TestRingOfTroughs(t *testing.T) {
	for _, n := range []int{1, 2, scaleBlocks - 1, scaleBlocks, scaleBlocks + 1, 3*scaleBlocks + 7} {
		e := climbing(ramp(n, 1, 1), -1)
		var buffer [scaleBlocks]point
		pts := e.points(&buffer)
		if len(pts) != min(n, scaleBlocks) || e.closed != int64(n) {
			t.Fatalf("%d blocks: %d are kept, %d counted", n, len(pts), e.closed)
		}
		for i, p := range pts {
			if want := n - len(pts) + i + 1; p != (point{at: int32(want) * 100, v: uint32(want * oneMiB)}) {
				t.Fatalf("%d blocks: the %d-th is %+v, want that of %d", n, i, p, want)
			}
		}
		if got, want := e.back(1).v, uint32(n*oneMiB); got != want {
			t.Errorf("%d blocks: the last is %d, want %d", n, got, want)
		}
		if got, want := e.back(1000).v, uint32((n-len(pts)+1)*oneMiB); got != want {
			t.Errorf("%d blocks: the oldest is %d, want %d", n, got, want)
		}
	}
}

// A cycle ends when a quarter of what was taken back is regained, and some quanta at least.
func TestWhatEndsACycle(t *testing.T) {
	for _, c := range []struct {
		low, then float64 // MiB, after 2000
		ends      bool
	}{
		{1000, 1240, false},
		{1000, 1250, true},
		{1000, 1300, true},
		{1960, 1975, false},
		{1960, 1976, true},
	} {
		var y cycles
		passed := false
		for i, v := range mibs(2000, c.low, c.then) {
			_, passed = y.add(int32(i+1)*10, uint32(v*oneMiB))
		}
		if passed != c.ends {
			t.Errorf("from 2000 to %g and to %g MiB: a cycle has ended: %t", c.low, c.then, passed)
		}
	}
}

// Each cycle has one trough, whatever its shape; and noise has none.
func TestCyclesHaveOneTroughEach(t *testing.T) {
	rng := rand.New(rand.NewPCG(53, 54))
	for _, c := range []struct {
		name   string
		memory func(s int) float64 // MiB
		want   int                 // troughs in an hour, give or take one
		length time.Duration
	}{
		{"sawtooth of a minute", func(s int) float64 { return 1000 + float64(s%60)*10 }, 60, time.Minute},
		{"falls slowly, too", func(s int) float64 { return 1000 + 10*max(float64(s%60), float64(60-s%60)) }, 60, time.Minute},
		{"dips of one sample", func(s int) float64 { return 1000 - 500*float64(btoi(s%90 == 0)) }, 40, 90 * time.Second},
		{"peaks of one sample", func(s int) float64 { return 1000 + 500*float64(btoi(s%90 == 0)) }, 40, 90 * time.Second},
		{"each other twice as high", func(s int) float64 { return 1000 + float64(s%60)*10*float64(1+s/60%2) }, 60, time.Minute},
		{"of random heights", func(s int) float64 {
			return 1000 + float64(s%60)*10*(0.8+0.4*float64(s/60*7919%100)/100)
		}, 60, time.Minute},
		{"noise on top", func(s int) float64 { return 1000 + float64(s%60)*10 + float64(rng.IntN(15)) }, 60, time.Minute},
		{"noise alone", func(int) float64 { return 1000 + float64(rng.IntN(15)) }, 0, 0},
		{"growth", func(s int) float64 { return 1000 + float64(s) }, 0, 0},
		{"on a slope", func(s int) float64 { return 1000 + float64(s%60)*10 + float64(s) }, 60, time.Minute},
	} {
		var y cycles
		n, lowest := 0, true
		for s := range 3600 {
			trough, passed := y.add(int32(s+1)*10, uint32(c.memory(s)*oneMiB))
			if passed {
				n++
				lowest = lowest && trough.at < int32(s+1)*10 && y.high > trough.v
			}
		}
		if n < c.want-1 || n > c.want || !lowest {
			t.Errorf("%s: %d troughs, want %d", c.name, n, c.want)
		}
		if got := time.Duration(y.length) * time.Duration(tick); c.want > 0 && (got < c.length*95/100 || got > c.length*105/100) {
			t.Errorf("%s: cycles of %s, want %s", c.name, got, c.length)
		}
	}
}
