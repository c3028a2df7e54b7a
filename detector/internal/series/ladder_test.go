// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// A block needs its width and its least samples; its trough is the lowest of them and stands where
// the block ends, and not at the sample after, which may come much later.
func TestTroughIsTheLowestSampleOfABlock(t *testing.T) {
	type sample struct {
		at   int // s
		used float64
	}
	for _, c := range []struct {
		name  string
		least int
		in    []sample
		want  []sample
	}{
		{"none before the width is over", 1, []sample{{0, 9}, {5, 1}, {9, 7}}, nil},
		{"as wide as it should be", 3, []sample{{0, 9}, {4, 7}, {8, 8}, {12, 1}}, []sample{{10, 7}}},
		{"the next one begins with the sample that ended it", 1, []sample{{0, 9}, {10, 1}, {20, 5}, {30, 7}}, []sample{{10, 9}, {20, 1}, {30, 5}}},
		{"longer where samples are few", 3, []sample{{0, 9}, {10, 3}, {20, 8}, {30, 1}}, []sample{{20, 3}}},
		{"it ends before a gap", 3, []sample{{0, 9}, {4, 7}, {8, 8}, {900, 1}}, []sample{{10, 7}}},
		{"with fewer samples, too", 3, []sample{{0, 9}, {4, 7}, {900, 1}}, []sample{{10, 7}}},
		{"a gap of as many widths as it lacks samples", 3, []sample{{0, 9}, {30, 7}}, []sample{{10, 9}}},
	} {
		e := Scale{Width: narrowest, Least: c.least}
		var got []sample
		for _, s := range c.in {
			if low, closed := e.add(start+time.Duration(s.at)*time.Second, inMiB(s.used), &Fullness{}); closed {
				got = append(got, sample{int((low.At - start).Seconds()), float64(low.V / mib)})
			}
		}
		equal(t, got, c.want, "%s", c.name)
	}
}

// A narrowest block has blockSamples samples, or as many as come in blockTime, one at least. The
// ladder begins at that width where it is more than the narrowest, its steps are all alike, and it
// reaches the widest.
func TestLadderFitsTheInterval(t *testing.T) {
	for _, c := range []struct {
		interval time.Duration
		samples  int
		width    time.Duration
	}{
		{time.Second, blockSamples, narrowest},
		{3 * time.Second, blockSamples, narrowest},
		{5 * time.Second, blockSamples, 15 * time.Second},
		{15 * time.Second, blockSamples, 45 * time.Second},
		{30 * time.Second, 2, time.Minute},
		{time.Minute, 1, time.Minute},
		{5 * time.Minute, 1, 5 * time.Minute},
	} {
		w := watching(defaults(), c.interval)
		w.watch(settleSamples*c.interval, steadily(10000))
		if e := &w.Scales[0]; e.Least != c.samples || e.Width != c.width {
			t.Errorf("every %s: blocks of %d samples and %s, want %d and %s", c.interval, e.Least, e.Width, c.samples, c.width)
		}
		step := max(coarsest, math.Pow(float64(widest)/float64(c.width), 1.0/(numScales-1)))
		for i := 1; i < numScales; i++ {
			e := &w.Scales[i]
			equal(t, e.Least, 1, "every %s: troughs that scale %d asks for", c.interval, i)
			about(t, "step of the ladder", float64(e.Width)/float64(w.Scales[i-1].Width), step)
		}
		if last := w.Scales[numScales-1].Width; last < widest-time.Microsecond {
			t.Errorf("every %s: the widest is %s", c.interval, last)
		}
		before := w.Scales[0].Closed
		w.watch(20*(c.width+c.interval), steadily(10000))
		if closed := w.Scales[0].Closed - before; closed < 18 || closed > 40 {
			t.Errorf("every %s: %d blocks where 20 to 40 fit", c.interval, closed)
		}
	}
}

// A wide block is made of whole narrowest ones: its trough is the lowest of theirs, whatever the
// memory does.
func TestScalesAreNested(t *testing.T) {
	for _, every := range []time.Duration{time.Second, 15 * time.Second, time.Minute} {
		rng := rand.New(rand.NewPCG(1, 2))
		w := watching(defaults(), every)
		var narrow []stat.Point
		compared := 0
		var closed [numScales]int64
		var in room
		w.look = func() {
			if w.Samples <= settleSamples {
				return
			}
			if e := &w.Scales[0]; e.Closed > closed[0] {
				narrow = append(narrow, e.Troughs.Last())
			}
			for i := range w.Scales {
				e := &w.Scales[i]
				if e.Closed > closed[i] && e.Troughs.Len() > 1 {
					lowest, from := stat.Bytes(math.MaxInt64), e.points(&in)[e.Troughs.Len()-2].At
					for _, p := range narrow {
						// The narrowest one that closed just now begins the next block.
						if p.At > from && p.At <= e.Troughs.Last().At {
							lowest = min(lowest, p.V)
						}
					}
					if i > 0 && e.Troughs.Last().At < w.Scales[0].Troughs.Last().At {
						compared++
						if e.Troughs.Last().V != lowest {
							t.Fatalf("every %s: scale %d has %d at %s, want %d", every, i, e.Troughs.Last().V, e.Troughs.Last().At, lowest)
						}
					}
				}
				closed[i] = e.Closed
			}
		}
		w.watch(3000*every, func(time.Duration) float64 { return 10000 + 1000*rng.Float64() })
		if compared < 50 {
			t.Errorf("every %s: only %d wide blocks were compared", every, compared)
		}
	}
}

// The oldest trough goes when there is no room, and the scale knows that it is gone.
func TestOldTroughsAreForgotten(t *testing.T) {
	e := climbing(ramp(scaleBlocks, 1, 1), &Fullness{})
	if e.Troughs.Len() != scaleBlocks || !e.holds(start) {
		t.Fatalf("%d of %d are kept", e.Troughs.Len(), scaleBlocks)
	}
	e.close(stat.Point{At: block(scaleBlocks + 1), V: inMiB(500)}, &Fullness{})
	if e.Troughs.Len() != scaleBlocks || e.Troughs.First() != (stat.Point{At: block(2), V: inMiB(2)}) || e.Troughs.Last().V != inMiB(500) {
		t.Errorf("%d are kept, from %v to %v", e.Troughs.Len(), e.Troughs.First(), e.Troughs.Last())
	}
	if e.holds(block(1)) || !e.holds(block(2)) {
		t.Errorf("holds(block 1) = %t, holds(block 2) = %t", e.holds(block(1)), e.holds(block(2)))
	}
}

// A move is a change of the level by a quantum, however many blocks that takes.
func TestMoves(t *testing.T) {
	q := float64(quantum) / float64(mib)
	for _, c := range []struct {
		name   string
		levels []float64
		moved  int64 // the block of the last move, 1 without any
	}{
		{"flat", flat(20, 100), 1},
		{"less than a quantum", mibs(100, 100+0.9*q, 100, 100-0.9*q), 1},
		{"a quantum up", mibs(100, 100+q), 2},
		{"a quantum down", mibs(100, 100-q), 2},
		{"a quantum in four blocks", ramp(8, 100, q/4), 5},
		{"the same twice", ramp(10, 100, q/4), 9},
		{"up and down", mibs(100, 110, 100, 110), 4},
	} {
		equal(t, climbing(c.levels, &Fullness{}).MovedBlock, c.moved, "%s: block of the last move", c.name)
	}
}

// Where growth begins, how it goes on and what ends it.
func TestRuns(t *testing.T) {
	grown := ramp(11, 100, 10) // by 100 to 200
	share := 100 * retrace
	for _, c := range []struct {
		name    string
		levels  []float64
		falling bool
		low     float64
		lowAt   int // block
		high    float64
		ups     int
	}{
		{"flat", flat(5, 100), false, 100, 5, 100, 0},
		{"it grows", grown, false, 100, 1, 200, 10},
		{"it begins where it was low last", join(flat(5, 100), ramp(5, 110, 10)), false, 100, 5, 150, 5},
		{"it gives back no more than it may", join(grown, mibs(200-share)), false, 100, 1, 200, 10},
		{"and goes on", join(grown, mibs(200-share, 210)), false, 100, 1, 210, 11},
		{"what regains less than its top is no new one", join(grown, mibs(180, 190)), false, 100, 1, 200, 11},
		{"it gives back more", join(grown, mibs(199-share)), true, 199 - share, 12, 200, 0},
		{"it falls on", join(grown, mibs(170, 150, 120)), true, 120, 14, 200, 0},
		{"it falls on and stays", join(grown, mibs(170, 150, 120, 120, 121)), true, 120, 16, 200, 0},
		{"too little is regained for a fall to end", join(grown, mibs(100, 99+share)), true, 100, 12, 200, 1},
		{"enough is", join(grown, mibs(100, 100+share)), false, 100, 12, 100 + share, 1},
		{"in several moves", join(grown, mibs(100, 110, 120, 100+share+5)), false, 100, 12, 105 + share, 3},
		{"a lower one begins it anew", join(grown, mibs(120, 130, 100, 110)), true, 100, 14, 200, 1},
		{"it pauses", join(grown, flat(pauseBlocks-1, 200)), false, 100, 1, 200, 10},
		{"it has stopped", join(grown, flat(pauseBlocks, 200)), false, 200, 11 + pauseBlocks, 200, 0},
		{"a fall has stopped", join(grown, flat(pauseBlocks+1, 120)), false, 120, 12 + pauseBlocks, 120, 0},
		{"it begins anew after a pause", join(grown, flat(pauseBlocks, 200), ramp(3, 210, 10)), false, 200, 11 + pauseBlocks, 230, 3},
		{"after a long rest the low is the last of it", join(grown, flat(3*pauseBlocks, 200), mibs(210)), false, 200, 11 + 3*pauseBlocks, 210, 1},
	} {
		e := climbing(c.levels, &Fullness{})
		want := Run{Falling: c.falling, Low: inMiB(c.low), High: inMiB(c.high), LowAt: block(c.lowAt), Ups: c.ups}
		equal(t, e.Run, want, "%s", c.name)
	}
}

// What grew gradually and was given back is remembered; what came in a few steps and went is not.
func TestGiveBacks(t *testing.T) {
	few := float64(toothMoves - 1)
	for _, c := range []struct {
		name   string
		levels []float64
		want   float64 // MiB
	}{
		{"nothing fell", ramp(20, 100, 10), 0},
		{"all of it: the levels above", join(ramp(11, 100, 10), mibs(100)), 90},
		{"half of it", join(ramp(11, 100, 10), mibs(150)), 40},
		{"to below where it was first seen", join(ramp(11, 100, 10), mibs(60)), 140},
		{"a job that comes in a few steps", join(flat(3, 100), ramp(int(few), 200, 100), flat(3, 100+100*few), mibs(100)), 0},
		{"in one more", join(flat(3, 100), ramp(int(few)+1, 200, 100), flat(3, 200+100*few), mibs(100)), 100 * few},
		{"in two falls that are too small each", join(ramp(11, 100, 10), mibs(170, 140)), 0},
		{"a spike", join(flat(20, 100), mibs(900), flat(5, 100)), 0},
		{"of growth that swings, the levels that were kept", mibs(100, 180, 110, 190, 120, 200, 130, 210, 140, 100), 30},
	} {
		e := climbing(c.levels, &Fullness{})
		got := e.Given / float64(mib)
		// The largest one fades by a share a block since: here that is a per cent at most.
		if got > c.want || got < 0.99*c.want {
			t.Errorf("%s: %g MiB were given back, want %g", c.name, got, c.want)
		}
	}
}

// The largest give-back counts, and it fades block by block.
func TestGiveBacksFade(t *testing.T) {
	e := climbing(join(ramp(11, 100, 10), mibs(100), ramp(6, 105, 5), mibs(100)), &Fullness{})
	about(t, "a lower tooth after a higher one", e.Given/float64(mib), 90*math.Pow(1-forgetting, 7))
	before, n := e.Given, 500
	for i := range n {
		e.close(stat.Point{At: block(100 + i), V: inMiB(100)}, &Fullness{})
	}
	about(t, "after 500 blocks", e.Given/before, math.Pow(1-forgetting, float64(n)))
}

// A fall from a full memory is an allocator that empties its cache, and no give-back. It is one if the
// memory was full long before, or the fall took all.
func TestWhatIsFlushedIsNotGivenBack(t *testing.T) {
	fell := 52 // block of the fall, after growth from block 10 on
	for _, c := range []struct {
		name  string
		full  Fullness
		to    float64
		given bool
	}{
		{"the memory was never full", Fullness{}, 300, true},
		{"it was full just before", Fullness{Lately: block(40), Until: block(50)}, 300, false},
		{"as long ago as it may", Fullness{Lately: block(20), Until: block(fell) - FullBefore - narrowest}, 300, false},
		{"longer ago", Fullness{Lately: block(20), Until: block(fell) - FullBefore - narrowest - 1}, 300, true},
		{"it was full before it grew", Fullness{Lately: block(10), Until: block(50)}, 300, true},
		{"a quarter stays", Fullness{Lately: block(40), Until: block(50)}, 100 + 400*retrace, false},
		{"next to nothing stays", Fullness{Lately: block(40), Until: block(50)}, 99 + 400*retrace, true},
		{"nothing stays, and its program may have died", Fullness{Lately: block(40), Until: block(50), Unlisted: true}, 100, false},
	} {
		e := climbing(join(flat(10, 100), ramp(40, 110, 10), mibs(500)), &Fullness{})
		e.close(stat.Point{At: block(fell), V: inMiB(c.to)}, &c.full)
		equal(t, e.Given > 0, c.given, "%s: whether it gave back", c.name)
		if !e.Run.Falling {
			t.Errorf("%s: the growth has not ended", c.name)
		}
	}
}
