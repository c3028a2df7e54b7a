// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"math"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// kept counts levels that were reached and never given back since.
func TestKeptLevels(t *testing.T) {
	q := float64(quantum) / float64(mib)
	for _, c := range []struct {
		name   string
		levels []float64
		want   int
	}{
		{"flat", flat(20, 100), 1},
		{"growth", ramp(20, 100, 10), 20},
		{"half a quantum a block", ramp(21, 100, q/2), 11},
		{"all given back", join(ramp(20, 100, 10), mibs(100)), 1},
		{"half of it", join(ramp(11, 100, 10), mibs(150)), 6}, // 100 to 140 and 150
		{"spikes", mibs(100, 500, 110, 600, 120, 700, 130), 4},
	} {
		got, _, _ := levelsAbove(math.MinInt64, troughs(c.levels))
		equal(t, got, c.want, "%s: levels", c.name)
	}
}

// The pace is that of the time until the middle trough and of that after it.
func TestKeepingPace(t *testing.T) {
	const none, full = 0.5, 0.75
	uneven := troughs(mibs(100, 110, 140))
	uneven[2].At = block(5) // 10 MiB in one block, 30 MiB in three
	for _, c := range []struct {
		name string
		pts  []stat.Point
		want float64
	}{
		{"straight", troughs(mibs(100, 110, 120)), 1},
		{"straight, an even number", troughs(mibs(100, 110, 120, 130)), 1},
		{"it accelerates", troughs(mibs(100, 110, 150)), 1},
		{"three quarters", troughs(mibs(100, 140, 170)), 1},
		{"five eighths", troughs(mibs(100, 180, 230)), 0.5},
		{"half", troughs(mibs(100, 140, 160)), 0},
		{"it has stopped", troughs(mibs(100, 140, 140)), 0},
		{"it falls", troughs(mibs(100, 140, 120)), 0},
		{"it was flat", troughs(mibs(100, 100, 120)), 1},
		{"it fell", troughs(mibs(100, 90, 120)), 1},
		{"the time counts, not the troughs", uneven, 1},
	} {
		about(t, c.name, keeping(c.pts, none, full), c.want)
	}
}

// What counts is the quarter of the time that holds least.
func TestEvenness(t *testing.T) {
	// quarters are 10 blocks each that hold that many of 10000 MiB.
	quarters := func(holds ...float64) []stat.Point {
		levels, v := mibs(1000), 1000.0
		for _, all := range holds {
			levels = append(levels, ramp(10, v+all/10, all/10)...)
			v += all
		}
		return troughs(levels)
	}
	// poor has a quarter with that share of what an even one holds, 2500 MiB.
	poor := func(share float64) []stat.Point {
		return quarters(2500, 2500*share, 5000-2500*share, 2500)
	}
	gap := troughs(mibs(100, 110, 190, 200))
	gap[2].At, gap[3].At = block(10), block(11) // one line from block 1 to 11
	for _, c := range []struct {
		name string
		pts  []stat.Point
		want float64
	}{
		{"straight", quarters(2500, 2500, 2500, 2500), 1},
		{"a quarter holds enough", poor(evenShare), 1},
		{"half way", poor((evenShare + unevenShare) / 2), 0.5},
		{"a quarter holds next to nothing", poor(unevenShare), 0},
		{"a quarter falls", quarters(6000, -2000, 3000, 3000), 0},
		{"the last quarter", quarters(3300, 3300, 3300, 100), 0},
		{"the first quarter", quarters(100, 3300, 3300, 3300), 0},
		{"nothing has grown", quarters(0, 0, 0, 0), 0},
		{"it falls", quarters(-10, -10, -10, -10), 0},
		{"a line over a gap", gap, 1},
	} {
		about(t, c.name, evenness(c.pts), c.want)
	}
}

// The steps are counted as if all were alike: (Σd)²/Σd². Large ones must be more.
func TestSpread(t *testing.T) {
	const big = jobStep / (1 << 20) // MiB
	few, enough := int(fewSteps), int(enoughSteps)
	for _, c := range []struct {
		name   string
		levels []float64
		want   float64
	}{
		{"a line", ramp(40, 1000, 10), 1},
		{"enough steps", steps(enough+1, 8, 1000, big), 1},
		{"half way", steps(enough, 8, 1000, 500), (float64(enough-1) - fewSteps) / (enoughSteps - fewSteps)},
		{"few", steps(few+1, 8, 1000, 500), 0},
		{"one", join(flat(40, 1000), flat(40, 6000)), 0},
		{"enough steps twice as large: two are missing", steps(enough+1, 8, 1000, 2*big), (enoughSteps - fewSteps) / (enoughSteps + 2 - fewSteps)},
		{"two more of them", steps(enough+3, 8, 1000, 2*big), 1},
		{"however large: the most that are asked for", steps(int(mostSteps)+1, 8, 1000, 64*big), 1},
		{"one fewer", steps(int(mostSteps), 8, 1000, 64*big), (mostSteps - 1 - fewSteps) / (mostSteps - fewSteps)},
		{"a large one in a line counts for most", mibs(1000, 1300, 1310, 1320, 1330), 0},                    // 330²/90300 = 1.2
		{"unlike ones", mibs(1000, 1100, 1200, 1300, 1500), (25.0/7 - fewSteps) / (enoughSteps - fewSteps)}, // (100+100+100+200)² of 70000
		{"what swings", mibs(1000, 1100, 1000, 1100, 1000, 1100), 0},
		{"nothing has grown", flat(10, 1000), 0},
	} {
		about(t, c.name, spread(troughs(c.levels), narrowest), c.want)
	}
	gap := troughs(mibs(100, 110, 190, 200))
	gap[2].At, gap[3].At = block(10), block(11) // one line from block 1 to 11
	about(t, "a line over a gap", spread(gap, narrowest), 1)
}

// The last half or more of the troughs that is steadiest is what counts; what grew otherwise before,
// such as a load, is left out. There must be enough left to tell.
func TestSteadiestPartIsFound(t *testing.T) {
	load := ramp(10, 0, 2000) // 20 GiB in 10 blocks
	for _, c := range []struct {
		name   string
		levels []float64
		least  time.Duration
		form   float64
		points [2]int // the fewest and the most
	}{
		{"too few to tell", mibs(100, 100, 500), 0, 1, [2]int{3, 3}},
		{"straight: all of it", ramp(40, 100, 10), 0, 1, [2]int{40, 40}},
		{"a load, then a leak", join(load, ramp(30, 20000, 10)), 0, 1, [2]int{20, 31}},
		{"what is left is too short", join(load, ramp(30, 20000, 10)), 31 * narrowest, 0, [2]int{40, 40}},
		{"a load of more than half", join(ramp(22, 0, 2000), ramp(18, 44000, 10)), 0, 0, [2]int{20, 40}},
		{"a load, then nothing", join(load, flat(30, 20000)), 0, 0, [2]int{20, 40}},
		{"eight troughs: none can be left out", join(mibs(0, 1000), ramp(6, 2000, 10)), 0, 0, [2]int{8, 8}},
		{"it slows down, evenly in many steps", join(ramp(20, 0, 20), ramp(21, 390, 9)), 41 * narrowest, 0, [2]int{41, 41}},
		{"it keeps its pace in many steps, unevenly", join(ramp(11, 0, 45), ramp(10, 455, 5), ramp(10, 545, 45), ramp(10, 955, 5)), 41 * narrowest, (0.2 - unevenShare) / (evenShare - unevenShare), [2]int{41, 41}},
		{"it keeps its pace evenly, in few steps", steps(5, 8, 0, 100), 41 * narrowest, (4 - fewSteps) / (enoughSteps - fewSteps), [2]int{40, 40}},
		{"it has stopped in the middle", join(ramp(20, 0, 100), flat(20, 2000)), 0, 0, [2]int{20, 40}},
	} {
		var g Growth
		pts := troughs(c.levels)
		got := steadiest(pts, 0, narrowest, &Config{MinSpan: c.least}, &g)
		if math.Abs(g.Form-c.form) > 1e-9 || len(got) < c.points[0] || len(got) > c.points[1] {
			t.Errorf("%s: form %g over %d troughs; want %+v", c.name, g.Form, len(got), c)
		}
		equal(t, got[len(got)-1], pts[len(pts)-1], "%s: the last trough", c.name)
	}
}

// A long load in two parts hides the growth after it for as long as half of the troughs are its own, but not
// where enough earlier lives show that they loaded as much.
func TestSteadyGrowthAboveEarlierLives(t *testing.T) {
	pts := troughs(join(ramp(40, 34000, 10), ramp(31, 41000, 10)))
	const least = 30 * narrowest
	for _, c := range []struct {
		name    string
		prior   Prior
		least   time.Duration
		troughs int
		form    float64
	}{
		{"it is above what they held", Prior{Ceiling: 40500 * float64(mib), Sure: true}, least, 31, 1},
		{"there were too few of them", Prior{Ceiling: 40500 * float64(mib)}, least, 71, 0},
		{"none", Prior{}, least, 71, 0},
		{"not for long enough", Prior{Ceiling: 40500 * float64(mib), Sure: true}, least + 1, 71, 0},
		{"it is below", Prior{Ceiling: 50000 * float64(mib), Sure: true}, least, 71, 0},
		{"all of it is above", Prior{Ceiling: 30000 * float64(mib), Sure: true}, least, 71, 0},
	} {
		s := told(defaults())
		s.Prior = c.prior
		var g Growth
		if got := steadiest(pts, s.below(pts), narrowest, &Config{MinSpan: c.least}, &g); len(got) != c.troughs || g.Form != c.form {
			t.Errorf("%s: form %g over %d troughs", c.name, g.Form, len(got))
		}
	}
}

// judged returns what the narrowest scale says of a series with those troughs.
func judged(levels []float64, change func(s *Series)) Growth {
	s := told(defaults())
	s.Scales[0] = *climbing(levels, &Fullness{})
	change(s)
	s.judge(0)
	return s.Growths[0]
}

func unchanged(*Series) {}

// Growth in a hand-made series: 41 levels, 10 MiB apart, one a block of 10 s, after 10 blocks of quiet.
func TestGrowthOfALine(t *testing.T) {
	g := judged(join(flat(9, 10000), ramp(41, 10000, 10)), unchanged)
	if g.Since != block(10) || g.End != block(50) {
		t.Errorf("it lasts from %s to %s", g.Since-start, g.End-start)
	}
	if g.Base != 10000*mib || g.SteadyBase != g.Base || g.Retained != 400*mib || g.Levels != 41 || g.Steady != 41 {
		t.Errorf("%d levels, %d MiB retained above %d and %d, %d troughs are steady", g.Levels, g.Retained/mib, g.Base/mib, g.SteadyBase/mib, g.Steady)
	}
	about(t, "rate: 400 MiB in 40 blocks", g.Rate, float64(400*mib)/(40*narrowest.Seconds()))
	about(t, "step", g.Step, float64(10*mib))
	about(t, "each of the 41 blocks but the first grew", g.Flat, 1-40.0/41)
	about(t, "a block is taken off", g.Lasted.Seconds(), 39*narrowest.Seconds())
	if g.Form != 1 || g.Kept != 1 {
		t.Errorf("form %g, kept %g", g.Form, g.Kept)
	}
}

// A staircase: six levels 100 MiB apart, each for four blocks. The first move is in block 5, the last
// in block 21.
func TestGrowthOfAStaircase(t *testing.T) {
	g := judged(steps(6, 4, 10000, 100), unchanged)
	if g.Since != block(4) || g.End != block(21) || g.Levels != 6 || g.Retained != 500*mib {
		t.Errorf("%d levels, %d MiB from %s to %s", g.Levels, g.Retained/mib, g.Since-start, g.End-start)
	}
	about(t, "step", g.Step, float64(100*mib))
	about(t, "five of 18 blocks grew", g.Flat, 1-5.0/18)
}

// Where a load led to the growth, the rate is that of the growth, and so is the level it began at.
func TestGrowthAfterALoad(t *testing.T) {
	g := judged(join(ramp(10, 10000, 2000), ramp(70, 30000, 10)), unchanged)
	about(t, "rate", g.Rate, float64(10*mib)/narrowest.Seconds())
	if g.Base != 10000*mib || g.SteadyBase < 28000*mib || g.Steady > 71 {
		t.Errorf("base %d MiB, %d of the %d steady troughs", g.Base/mib, g.SteadyBase/mib, g.Steady)
	}
}

// What is no growth.
func TestNoGrowth(t *testing.T) {
	least := defaults().MinGrowth / float64(mib)
	for _, c := range []struct {
		name   string
		levels []float64
		grows  bool
	}{
		{"the least growth", steps(minLevels, 2, 1000, least/(minLevels-1)), true},
		{"less", steps(minLevels, 2, 1000, (least-0.1)/(minLevels-1)), false},
		{"a level fewer", steps(minLevels-1, 2, 1000, 100), false},
		{"flat", flat(40, 1000), false},
		{"it falls", join(ramp(20, 1000, 100), mibs(1000)), false},
		{"it pauses", join(ramp(20, 1000, 100), flat(pauseBlocks-1, 2900)), true},
		{"it has stopped", join(ramp(20, 1000, 100), flat(pauseBlocks, 2900)), false},
		{"levels that were not kept", mibs(1000, 1990, 1991, 2000, 1990, 1991, 2000, 1995), false},
	} {
		g := judged(c.levels, unchanged)
		equal(t, g != Growth{}, c.grows, "%s: whether it grows, %+v", c.name, g)
	}
}

// Growth must be safely above the largest give-back of its scale, or of a wider one.
func TestGrowthIsHeldAgainstGiveBacks(t *testing.T) {
	const retained = 400.0 // MiB, of the line below
	for _, c := range []struct {
		name  string
		scale int
		given float64 // MiB
		want  float64
	}{
		{"nothing was given back", 0, 0, 1},
		{"as much", 0, retained, 0.25},
		{"more", 0, 3 * retained, 0.25},
		{"little enough", 0, retained / safely, 1},
		{"half way", 0, retained / (1 + (safely-1)/2), 0.25 + 0.75/2},
		{"as much at the widest scale", numScales - 1, retained, 0.25},
	} {
		g := judged(ramp(41, 10000, 10), func(s *Series) { s.Scales[c.scale].Given = c.given * float64(mib) })
		about(t, c.name, g.Kept, c.want)
	}
	s := told(defaults())
	s.Scales[1] = *climbing(ramp(41, 10000, 10), &Fullness{})
	s.Scales[0].Given = 1e12
	s.judge(1)
	equal(t, s.Growths[1].Kept, 1, "kept, whatever a narrower scale gave back")
}

// The confidence in growth is that of its weakest respect.
func TestConfidenceIsTheWeakest(t *testing.T) {
	for _, g := range []Growth{{Form: 0.2, Kept: 1, Waited: 1}, {Form: 1, Kept: 0.2, Waited: 1}, {Form: 1, Kept: 1, Waited: 0.2}} {
		equal(t, g.confidence(), 0.2, "confidence in %+v", g)
	}
}
