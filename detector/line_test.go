// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// Lines through troughs that go on as they did rise by the root of so many steps if these walk, by
// less the longer they are if these are noise, and in proportion if they are a line.
func TestWandering(t *testing.T) {
	for _, c := range []struct {
		pts  []point
		n    int
		want float64 // MiB
	}{
		{troughs(repeat(40, 1000)), 12, 0},
		{troughs(ramp(40, 1000, 3)), 12, 3 * 6 * math.Sqrt(3)},
		{troughs(ramp(40, 1000, 3)), 13, 3 * 6 * math.Sqrt(3*13./12)},
		{troughs(ramp(60, 4000, -3)), 28, 3 * 14 * math.Sqrt(3)},
		{troughs(ramp(12, 1000, 3)), 28, 3 * 3 * math.Sqrt(3*28./6)}, // half of what there is
		{troughs(join(repeat(6, 1000), repeat(6, 1100))), 12, 100 * math.Sqrt(3*2*(1./9+4./9+9./9/2)/7*2)},
		{troughs(join(repeat(20, 1000), repeat(20, 1100))), 12, 100 * math.Sqrt(3*(2*(1+4+9+16+25)+36)/36./29)},
	} {
		near(t, fmt.Sprintf("wandering of %d in %d", len(c.pts), c.n), wandering(c.pts, c.n)/oneMiB, c.want, 1e-12)
	}
	for _, n := range []int{12, 28, 37} {
		rng := rand.New(rand.NewPCG(111, uint64(n)))
		var walks, noise float64
		for range 400 {
			var walk, level []float64
			v := 10000.0
			for range 44 {
				v += 10 * rng.NormFloat64()
				walk, level = append(walk, v), append(level, 10000+10*rng.NormFloat64())
			}
			walks += math.Pow(wandering(troughs(walk), n)/oneMiB, 2) / 400
			noise += math.Pow(wandering(troughs(level), n)/oneMiB, 2) / 400
		}
		near(t, "a walk", walks, 100*float64(n), 0.12)
		half := float64(min(n, 22) / 2)
		near(t, "noise", noise, 3*2*100/half*float64(n)/(2*half), 0.12)
	}
}

// stepped is n levels with that many equal steps of the height 1000, evenly apart.
func stepped(n, steps int, noise float64, rng *rand.Rand) (levels []float64) {
	for i := range n {
		levels = append(levels, 10000+1000*float64((i*(steps+1))/n)+noise*rng.NormFloat64())
	}
	return levels
}

// So many equal steps are counted, whatever noise there is: few stay few.
func TestQuietSteps(t *testing.T) {
	rng := rand.New(rand.NewPCG(112, 113))
	for _, steps := range []int{1, 2, 3, 5, 9} {
		n, size := quietSteps(troughs(stepped(37, steps, 0, rng)))
		near(t, "steps without noise", n, float64(steps), 1e-9)
		near(t, "their size", size, 1000*oneMiB, 1e-9)
		for _, noise := range []float64{50, 150} {
			var all []float64
			for range 301 {
				got, size := quietSteps(troughs(stepped(37, steps, noise, rng)))
				all = append(all, got)
				if got > 0 && got < 35.9 && math.Abs(got*size-1000*oneMiB*float64(steps)) > 6*noise*oneMiB {
					t.Fatalf("%d steps of %g units are not what was gained", steps, size)
				}
			}
			slices.Sort(all)
			t.Logf("%d steps, noise %g: %.2f, nine tenths up to %.2f", steps, noise, all[150], all[270])
			near(t, fmt.Sprintf("%d steps under a noise of %g", steps, noise), all[150], float64(steps), 0.2)
			if noise == 50 && all[270] > float64(steps)+0.7 {
				t.Errorf("%d steps under a noise of %g are up to %g", steps, noise, all[270])
			}
		}
	}
	for name, c := range map[string]struct {
		levels  []float64
		n, size float64
	}{
		"a line":           {ramp(20, 1000, 10), 19, 10},
		"an alternation":   {slices.Repeat([]float64{1000, 1500}, 10), 0, 0},
		"a step under one": {join(slices.Repeat([]float64{1000, 1500}, 5), slices.Repeat([]float64{1300, 1800}, 5)), 1, 300},
		"no growth":        {repeat(20, 1000), 0, 0},
		"a fall":           {ramp(20, 1000, -10), 0, 0},
		"two troughs":      {[]float64{1000, 1010}, 1, 10},
		// Of 100, −20, 100, −20, 100 what is taken back is 2·4·2000.
		"back and on": {[]float64{1000, 1100, 1080, 1180, 1160, 1260}, 260. * 260 / 14800, 14800. / 260},
		// What goes on makes up for what is taken back, and for no more.
		"on, and back once": {[]float64{1000, 1100, 1080, 1180, 1280}, 280. * 280 / 30400, 30400. / 280},
	} {
		n, size := quietSteps(troughs(c.levels))
		near(t, name+": steps", n, c.n, 1e-12)
		near(t, name+": size", size, c.size*oneMiB, 1e-12)
	}
}

func TestMeanAndHighest(t *testing.T) {
	for _, levels := range [][]float64{{1000}, {1000, 1010, 1050}, {3000, 1, 2}, {1, 3000, 2}} {
		sum := 0.0
		for _, v := range levels {
			sum += v
		}
		near(t, "mean", mean(troughs(levels)), sum/float64(len(levels))*mib, 1e-12)
		if got := highest(troughs(levels)); got != uint32(slices.Max(levels)*oneMiB) {
			t.Errorf("the highest of %v is %d", levels, got)
		}
	}
	if highest(nil) != 0 {
		t.Error("none have a highest one")
	}
}

// A line rises where its last three troughs are above all before it, and where these rose at
// half of its pace or less, by the time and not by the trough.
func TestRises(t *testing.T) {
	flat := repeat(12, 1000)
	line := ramp(12, 1000, 10)
	stretched := func(levels []float64, times int32) []point {
		pts := troughs(levels)
		for i := range pts {
			pts[i].at *= times
		}
		return pts
	}
	for _, c := range []struct {
		name         string
		before, line []float64
		times        int32 // by which the time before was slower
		want         bool
	}{
		{"growth after none", flat, line, 1, true},
		{"growth from the start on", ramp(12, 880, 10), line, 1, false},
		{"growth after half of it", ramp(12, 940, 5), ramp(12, 1000, 10), 1, true},
		{"growth after more than half of it", ramp(12, 938, 5.2), ramp(12, 1000, 10), 1, false},
		{"growth after as much in thrice the time", ramp(12, 880, 10), line, 3, true},
		{"a fall before", ramp(12, 1990, -90), ramp(12, 1000, 99), 1, false},
		{"a fall from below the end", ramp(12, 1990, -90), ramp(12, 1000, 110), 1, true},
		{"none", flat, flat, 1, false},
		{"one unit", flat, join(repeat(9, 1000), repeat(3, 1000+1./16)), 1, true},
		{"of the last two alone", join(flat, []float64{1007}), join(repeat(10, 1000), repeat(2, 1010)), 1, false},
		{"of the last three in the mean", join(flat, []float64{1006, 1000}), join(repeat(10, 1000), repeat(2, 1010)), 1, true},
		{"of the last four", join(flat, []float64{1009, 1000}), join(repeat(8, 1000), []float64{1000, 1010, 1010, 1010}), 1, true},
		{"a peak before", join(flat, []float64{1105, 1000}), line, 1, false},
		{"a peak before that is as high", join(flat, []float64{1100, 1000}), line, 1, false},
		{"a peak before that is lower", join(flat, []float64{1099, 1000}), line, 1, true},
		{"a fall", flat, ramp(12, 1000, -10), 1, false},
	} {
		before, all := stretched(c.before, c.times), troughs(join(c.before, c.line))
		last := before[len(before)-1].at
		line := all[len(c.before):]
		for i := range line {
			line[i].at += last - int32(len(c.before))*100
		}
		if got := rises(before, line); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// seesaw adds a noise to levels whose neighbours are opposite, and which tilts no line much.
func seesaw(levels []float64, noise float64) (all []float64) {
	for i, v := range levels {
		all = append(all, v+noise*float64(1-2*(i%2)))
	}
	return all
}

// lined is the verdict on the last n of those levels, at so many seconds a block, of a
// series that has been seen for as long, in which given MiB were given back.
func lined(levels []float64, n int, interval int32, given, capacity float64, change func(s *series)) growth {
	s := newSeries(DefaultConfig())
	s.seen, s.first, s.began, s.capacity = true, int64(start), int64(start), capacity
	pts := troughs(levels)
	for i := range pts {
		pts[i].at *= interval / 10
	}
	last := pts[len(pts)-1]
	s.last, s.used = s.first+int64(last.at)*tick, last.bytes()
	if change != nil {
		change(s)
	}
	return s.judgeLine(pts[:len(pts)-n], pts[len(pts)-n:], given*oneMiB)
}

// waves are 48 levels of which lines through 24 wander by so much.
func waves(wander float64) []float64 {
	wave := func(h float64) []float64 {
		return slices.Repeat(join(repeat(12, 20000+h), repeat(12, 20000)), 2)
	}
	return wave(1000 * wander / (wandering(troughs(wave(1000)), 24) / oneMiB))
}

// Each of what makes a line sure, alone: growth of 10 MiB a minute in 24 blocks after 48 flat
// ones, if nothing else is said.
func TestConfidenceOfALine(t *testing.T) {
	flat := repeat(48, 20000)
	rise := func(k float64) []float64 { return ramp(24, 20000, k) }
	spike := func(h float64) []float64 { return join(repeat(24, 20000), []float64{20000 + h}, repeat(23, 20000)) }
	// Lines with a seesaw have the slope k·0.9948 or so.
	for _, c := range []struct {
		name     string
		levels   []float64
		interval int32
		given    float64
		capacity float64
		least    float64
		most     float64
	}{
		{"clean", join(flat, rise(10)), 60, 0, 0, 1, 1},
		{"less than the least growth", join(flat, ramp(24, 20000, 15./23)), 60, 0, 0, 0, 0},
		{"the least growth", join(flat, ramp(24, 20000, 17./23)), 60, 0, 0, 1, 1},
		{"a fall", join(flat, rise(-10)), 60, 0, 0, 0, 0},
		{"5 errors", join(flat, seesaw(rise(10), 61)), 60, 0, 0, 0, 0.05},
		{"6 errors", join(flat, seesaw(rise(10), 51.3)), 60, 0, 0, 0.45, 0.6},
		{"7 errors", join(flat, seesaw(rise(10), 44)), 60, 0, 0, 0.97, 1},
		{"6 times the wandering", join(waves(230/6.01), rise(10)), 60, 0, 0, 0, 0.02},
		{"6.5 times the wandering", join(waves(230/6.5), rise(10)), 60, 0, 0, 0.45, 0.55},
		{"7 times the wandering", join(waves(230/7.01), rise(10)), 60, 0, 0, 0.99, 1},
		{"a spike of 49 %", join(spike(0.49*230), rise(10)), 60, 0, 0, 1, 1},
		{"a spike of 51 %", join(spike(0.51*230), rise(10)), 60, 0, 0, 0, 0},
		{"as much as 9 % before", join(ramp(48, 20000-48*0.9, 0.9), rise(10)), 60, 0, 0, 1, 1},
		{"as much as 11 % before", join(ramp(48, 20000-48*1.1, 1.1), rise(10)), 60, 0, 0, 0, 0},
		{"slower by a fifth", join(flat, ramp(12, 20000, 10), ramp(12, 20120, 8)), 60, 0, 0, 0.99, 1},
		{"slower by three eighths", join(flat, ramp(12, 20000, 10), ramp(12, 20120, 6.1)), 60, 0, 0, 0.2, 0.6},
		{"slower by half", join(flat, ramp(12, 20000, 10), ramp(12, 20120, 4.6)), 60, 0, 0, 0, 0},
		{"faster", join(flat, ramp(12, 20000, 10), ramp(12, 20120, 14)), 60, 0, 0, 1, 1},
		{"falls first", join(flat, seesaw(join(ramp(12, 20000, -0.1), ramp(12, 20000, 20)), 28)), 60, 0, 0, 0.1, 1},
		{"of three steps", join(flat, stairs3(3)), 60, 0, 0, 0, 0},
		{"of four steps", join(flat, stairs3(4)), 60, 0, 0, 0.45, 0.55},
		{"of five steps", join(flat, stairs3(5)), 60, 0, 0, 0.99, 1},
		{"of five large steps", join(flat, scaled(stairs3(5), 21)), 60, 0, 0, 0.769, 0.77},
		{"as much was given back", join(flat, rise(10)), 60, 230, 0, 0.25, 0.26},
		{"two thirds were given back", join(flat, rise(10)), 60, 230 / 1.5, 0, 0.62, 0.63},
		{"half was given back", join(flat, rise(10)), 60, 230 / 2.0, 0, 0.99, 1},
		{"two thirds of what is young were given back", join(flat, rise(10)), 20, 230 / 1.75, 0, 0.62, 0.63},
		{"it is short", join(flat, flat, rise(10)), 10, 0, 0, 0.7 * 230 / 360, 0.7 * 230 / 360},
		{"it is short for a ramp", join(flat, rise(10)), 20, 0, 2.5 * gib, 0.7 * 460 / 600, 0.7 * 460 / 600},
		{"its program has just begun", join(flat[:7], rise(10)), 60, 0, 0, 0.4 + 0.3*23/60, 0.4 + 0.3*23/60},
	} {
		g := lined(c.levels, 24, c.interval, c.given, c.capacity, nil)
		if !(g.confidence >= c.least-1e-9 && g.confidence <= c.most+1e-9) {
			t.Errorf("%s: %.4f, want %g to %g: %+v", c.name, g.confidence, c.least, c.most, g)
		}
		if g.confidence == 0 && g.levels > 0 && g.steadiness > 0 {
			t.Errorf("%s: nothing is sure, and yet it is growth: %+v", c.name, g)
		}
	}
}

// stairs3 are 24 levels with n steps of 60 MiB, at least three blocks apart.
func stairs3(n int) (levels []float64) {
	for i := range 24 {
		levels = append(levels, 20000+60*float64(i*(n+1)/24))
	}
	return levels
}

// scaled makes what levels have gained so many times as much.
func scaled(levels []float64, times float64) (all []float64) {
	for _, v := range levels {
		all = append(all, levels[0]+times*(v-levels[0]))
	}
	return all
}

// What is told of a line beside its confidence.
func TestGrowthOfALine(t *testing.T) {
	g := lined(join(repeat(48, 20000), ramp(24, 20000, 10)), 24, 60, 0, 0, nil)
	at := func(block int64) int64 { return int64(start) + block*60e9 }
	want := growth{
		confidence: 1, levels: 24, retained: 230 * mib, base: 20000 * mib, since: at(49), end: at(72), gap: 60e9, points: 24, fitted: true,
		pace: 1, spread: 1, steadiness: 1, reversal: 1, start: 1,
	}
	g.retained, g.base = (g.retained+unit/2)/unit*unit, (g.base+unit/2)/unit*unit // to what is left of rounding
	if g != want {
		t.Errorf("%+v, want\n%+v", g, want)
	}
	// No base is below nothing.
	g = lined(join(repeat(48, 1), ramp(12, 1, 10), ramp(12, 121, 14)), 24, 60, 0, 0, nil)
	if g.base != 0 || g.confidence != 1 {
		t.Errorf("from nothing: %+v", g)
	}
	// A leak that is on has no excuse.
	g = lined(join(repeat(7, 20000), ramp(24, 20000, 10)), 24, 60, 0, 0, func(s *series) { s.leak.on = true })
	if g.confidence != 1 {
		t.Errorf("a leak that is on: %+v", g)
	}
}

// What is as rare as five standard deviations are at the default of the false alarms, is
// farther off where these must be rarer.
func TestLinesAreAsRareAsAsked(t *testing.T) {
	for _, c := range []struct{ falseAlarm, z, want float64 }{
		{0.4, 5, 5},
		{0.4, 4, 4},
		{0.4, 0, 0},
		{0.04, 5, math.Sqrt(25 + 2*math.Ln10)},
		{0.004, 4, math.Sqrt(16 + 4*math.Ln10)},
		{0.5, 5, math.Sqrt(25 - 2*math.Log(1.25))},
		{0.5, 0.1, 0},
	} {
		near(t, fmt.Sprintf("%+v", c), (&Config{FalseAlarm: c.falseAlarm}).asRare(c.z), c.want, 1e-12)
	}
	// Tails of the normal distribution beyond that are in the ratio that is asked for, nearly.
	few := Config{FalseAlarm: 0.004}
	if ratio := math.Erfc(few.asRare(5)/math.Sqrt2) / math.Erfc(5/math.Sqrt2); math.Abs(ratio*100-1) > 0.2 {
		t.Errorf("100 times as rare is %g times as likely", ratio)
	}
	line := join(repeat(48, 20000), seesaw(ramp(24, 20000, 10), 51.3))
	wave := join(waves(230/6.5), ramp(24, 20000, 10))
	for _, levels := range [][]float64{line, wave} {
		last := math.Inf(1)
		for _, falseAlarm := range []float64{0.5, 0.4, 0.1, 0.001} {
			g := lined(levels, 24, 60, 0, 0, func(s *series) { s.cfg.FalseAlarm = falseAlarm })
			if g.confidence >= last || falseAlarm == 0.001 && g.confidence > 0 {
				t.Errorf("a false alarm of %g: %g, after %g", falseAlarm, g.confidence, last)
			}
			last = g.confidence
		}
	}
}

// ringed is what regress says of those levels at that scale, at so many seconds a block.
func ringed(levels []float64, i int, interval int32, change func(s *series, pts []point)) growth {
	s := newSeries(DefaultConfig())
	s.seen, s.first, s.began = true, int64(start), int64(start)
	pts := troughs(levels)
	for j := range pts {
		pts[j].at = pts[j].at / 10 * interval
	}
	if change != nil {
		change(s, pts)
	}
	last := pts[len(pts)-1]
	s.last, s.used = s.first+int64(last.at)*tick, last.bytes()
	for _, p := range pts {
		s.ladder[i].close(p, nature{rate: 3})
	}
	return s.regress(i, 0)
}

// Where lines are laid, and through what.
func TestWhereLinesAreLaid(t *testing.T) {
	grown := func(before, n int) []float64 { return join(repeat(before, 20000), ramp(n, 20010, 10)) }
	from := func(i int) func(s *series, pts []point) {
		return func(s *series, pts []point) { s.anew = pts[i].at }
	}
	slower := func(by int32) func(s *series, pts []point) { // the twelve blocks of the line, in all
		return func(_ *series, pts []point) {
			for i, last := 1, pts[len(pts)-12:]; i < 12; i++ {
				last[i].at += by * 10 * int32(i) / 11
			}
		}
	}
	sooner := func(by int32) func(s *series, pts []point) { // the twelve before the line, in all
		return func(_ *series, pts []point) {
			for i := range int32(12) {
				pts[i].at += by * 10 * (11 - i) / 11
			}
		}
	}
	for _, c := range []struct {
		name     string
		levels   []float64
		scale    int
		interval int32
		change   func(s *series, pts []point)
		points   int // of the line, 0 if there is none
	}{
		{"twelve after twelve", grown(12, 12), 1, 70, nil, 12},
		{"twelve after eleven", grown(11, 12), 2, 70, nil, 0},
		{"nine after fourteen", grown(14, 9), 2, 70, nil, 0},
		{"at a wider scale", grown(12, 12), 6, 70, nil, 12},
		{"at the cycles", grown(12, 12), cycleScale, 70, nil, 12},
		{"at the level", grown(12, 12), levelScale, 70, nil, 12},
		{"at the narrowest scale", grown(12, 12), 0, 70, nil, 0},
		{"begun anew before", grown(13, 12), 2, 70, from(1), 12},
		{"begun anew since", grown(13, 12), 2, 70, from(2), 0},
		{"begun anew with the growth", grown(40, 12), 2, 70, from(39), 0},
		{"for less than the least time", grown(18, 12), 2, 65, nil, 0},
		{"for the least time", grown(18, 12), 2, 66, nil, 12},
		{"watched for 8 minutes", grown(12, 12), 2, 70, sooner(290), 0},
		{"watched for 9 minutes", grown(12, 12), 2, 70, sooner(225), 12},
		{"watched for less than a third", grown(12, 12), 2, 70, slower(1600), 0},
		{"watched for more than a third", grown(12, 12), 2, 70, slower(1200), 12},
		{"back from below, slowly", join(repeat(1, 19800), repeat(50, 20000), ramp(37, 20010, 10)), 2, 70, nil, 28},
		{"back from below, at half the pace", join(repeat(1, 19740), repeat(50, 20000), ramp(37, 20010, 10)), 2, 70, nil, 0},
		{"none", repeat(60, 20000), 2, 70, nil, 0},
		{"from the start on", ramp(60, 20000, 10), 2, 70, nil, 0},
		{"empty but for one", repeat(1, 20000), 2, 70, nil, 0},
	} {
		g := ringed(c.levels, c.scale, c.interval, c.change)
		if g.points != c.points || (g.confidence > 0) != (c.points > 0) {
			t.Errorf("%s: %+v", c.name, g)
		}
	}
	g := ringed(grown(12, 12), 4, 70, nil)
	if width := newSeries(DefaultConfig()).ladder[4].width; g.gap != width || width <= 64e9 {
		t.Errorf("troughs that are nearer than the blocks are wide: a gap of %d s", g.gap/1e9)
	}
	if g = ringed(grown(12, 12), 2, 128, nil); g.gap != 128e9 {
		t.Errorf("troughs that are farther apart: a gap of %d s", g.gap/1e9)
	}
}

// Lines of 12, 16, 21, 28 and 37 troughs are laid, and the surest counts: under noise that is
// the one that growth of so many troughs fills.
func TestLengthsOfLines(t *testing.T) {
	// There are too few troughs for a longer line, and a multiple of four in a half of what it wanders
	// by, so that the seesaw is none.
	for n, before := range map[int]int{12: 16, 16: 24, 21: 32, 28: 40, 37: 51} {
		for _, least := range []float64{5.5, 6.5} {
			// The slope of a line under a seesaw is so many standard errors.
			noise := 10 / least * math.Sqrt(float64(n*n-1)/12*float64(n-2))
			levels := join(seesaw(repeat(before, 20000), noise), seesaw(ramp(n, 20000, 10), noise))
			g := ringed(levels, 2, 70, nil)
			t.Logf("%d troughs: %d, confidence %.3f", n, g.points, g.confidence)
			if g.points != n {
				t.Errorf("growth of %d troughs: %+v", n, g)
			}
		}
	}
	// Of those that are as sure, the shortest.
	for _, c := range []struct{ before, n, want int }{{56, 16, 12}, {40, 40, 37}} {
		if g := ringed(join(repeat(c.before, 20000), ramp(c.n, 20010, 10)), 2, 70, nil); g.points != c.want || g.confidence != 1 {
			t.Errorf("growth of %d troughs after %d: %+v", c.n, c.before, g)
		}
	}
}

// A step is one step whatever the troughs beneath it do, and no growth.
func TestStepUnderAnAlternationIsNoLeak(t *testing.T) {
	for _, wave := range []int{20, 25, 30, 40, 60} { // seconds up, and down
		for _, step := range []float64{50, 80, 120, 350} {
			for at := 7700; at < 7760; at += 10 {
				if told := leaking(9500, func(s int) float64 {
					return 20*gib + 40*mib*float64(s/wave%2) + step*mib*float64(btoi(s > at))
				}); len(told) > 0 {
					t.Errorf("%g MiB at %d s, on a wave of %d s: a leak at %d s", step, at, 2*wave, told)
				}
			}
		}
	}
}

// level is memory of that many GiB that stays.
func level(gibs float64) func(s int) float64 { return func(int) float64 { return gibs * gib } }

// drifting adds noise of that deviation in bytes that forgets itself in tau seconds (Ornstein
// and Uhlenbeck). It must be asked second by second.
func drifting(memory func(s int) float64, deviation, tau float64, seed uint64) func(s int) float64 {
	rng := rand.New(rand.NewPCG(seed, 92))
	keep := math.Exp(-1 / tau)
	x := deviation * rng.NormFloat64()
	return func(s int) float64 {
		x = keep*x + deviation*math.Sqrt(1-keep*keep)*rng.NormFloat64()
		return memory(s) + x
	}
}

// noises are those that hide growth: from second to second, and of half a minute.
var noises = map[string]func(memory func(s int) float64, seed uint64) func(s int) float64{
	"white":     func(m func(s int) float64, seed uint64) func(s int) float64 { return noisy(m, 100*mib, seed) },
	"wandering": func(m func(s int) float64, seed uint64) func(s int) float64 { return drifting(m, 200*mib, 30, seed) },
}

// course is what a domain says of a process.
type course struct {
	found    int // when it was said to leak first, s; -1 never
	episodes int
	last     Verdict
}

// watched shows a domain a process of that memory on a GPU of 80 GiB. The device leaks when
// its process does, and the rest never.
func watched(t *testing.T, seconds int, memory func(s int) float64) course {
	t.Helper()
	d, c, on := newDomain(t), course{found: -1}, false
	var f Frame[int]
	for s := range seconds {
		used := round(memory(s))
		f.T, f.Used, f.Capacity, f.Complete = seconds2026(s), Of(used+512*mib), Of(80*gib), true
		f.Members = append(f.Members[:0], Member[int]{Key: 1, Used: Of(used), Started: start - time.Hour})
		j, err := look(d, &f)
		if err != nil {
			t.Fatal(err)
		}
		c.last = j.Members[0].Verdict
		if c.last.Leak && !on {
			if c.episodes++; c.found < 0 {
				c.found = s
			}
		}
		on = c.last.Leak
		if j.Device.Leak != on || j.Residual.Leak {
			t.Fatalf("second %d: the process leaks: %t, the device: %t, the rest: %t", s, on, j.Device.Leak, j.Residual.Leak)
		}
	}
	return c
}

// A leak that begins after 40 quiet minutes under noise which gives back more than it gains in
// minutes is told, stays told, and its rate is right. Runs alone, without lines, take longer, or
// do not tell it within hours.
func TestLeakIsToldUnderNoise(t *testing.T) {
	const begins = 2400
	for _, c := range []struct {
		noise        string
		base, rate   float64 // GiB, MiB/s
		median, most float64 // minutes until it is told
		again        int     // times that one was taken back for a while
	}{
		{"white", 20, 1, 9.5, 11.5, 0},
		{"white", 20, 0.5, 11.5, 13, 0},
		{"wandering", 68, 1, 30, 40, 1},
		{"wandering", 20, 2, 14, 27, 0},
		{"wandering", 20, 4, 11, 14, 0},
	} {
		var after []float64
		again := 0
		for seed := range uint64(8) {
			memory := noises[c.noise](leaky(level(c.base), c.rate*mib, begins), seed)
			w := watched(t, begins+2*3600, memory)
			if again += w.episodes - 1; w.found < begins || again > c.again || !w.last.Leak {
				t.Errorf("%s, %g MiB/s, seed %d: told at %d s, %d times, at last: %t", c.noise, c.rate, seed, w.found, w.episodes, w.last.Leak)
				continue
			}
			after = append(after, float64(w.found-begins)/60)
			near(t, fmt.Sprintf("%s, %g MiB/s, seed %d: rate", c.noise, c.rate, seed), w.last.Rate.V, c.rate*mib, 0.05)
			if since := (w.last.Since - start).Seconds(); math.Abs(since-begins) > 900 {
				t.Errorf("%s, %g MiB/s, seed %d: it began at %g s", c.noise, c.rate, seed, since)
			}
			near(t, "what has leaked", w.last.Leaked.V, c.rate*mib*2*3600, 0.15)
		}
		slices.Sort(after)
		t.Logf("%s, %g MiB/s: told after %.1f min", c.noise, c.rate, after)
		if len(after) < 8 || (after[3]+after[4])/2 > c.median || after[7] > c.most {
			t.Errorf("%s, %g MiB/s: told after %.1f min, want %g in the median, %g at most", c.noise, c.rate, after, c.median, c.most)
		}
	}
}

// What is under noise and no leak, is none: nothing, jobs that come, a load, and traffic.
func TestNoLeakUnderNoise(t *testing.T) {
	for name, c := range map[string]struct {
		noise  string // one only; both if empty
		memory func(s int) float64
	}{
		"nothing":           {"", level(20)},
		"one step":          {"", func(s int) float64 { return 20*gib + gib*float64(btoi(s > 9000)) }},
		"one small step":    {"", func(s int) float64 { return 20*gib + 0.4*gib*float64(btoi(s > 9000)) }},
		"three steps":       {"", func(s int) float64 { return 20*gib + gib*float64(min(3, max(0, s-3600)/3600)) }},
		"three quick steps": {"white", func(s int) float64 { return 20*gib + gib*float64(min(3, max(0, s-7200)/600)) }},
		"a ramp":            {"", func(s int) float64 { return 20*gib + 4*gib*clamp(float64(s-9000)/300) }},
		"low traffic":       {"", func(s int) float64 { return 20*gib + 0.5*gib*math.Sin(2*math.Pi*float64(s)/7200) }},
		"high traffic":      {"", func(s int) float64 { return 20*gib + 4*gib*math.Cos(2*math.Pi*float64(s)/7200) }},
	} {
		for noise, add := range noises {
			for seed := range uint64(2) {
				if c.noise != "" && c.noise != noise {
					continue
				}
				if w := watched(t, 6*3600, add(c.memory, seed)); w.found >= 0 {
					t.Errorf("%s, %s noise, seed %d: a leak at %d s", name, noise, seed, w.found)
				}
			}
		}
	}
}

// lines looks at all scales after each sample, and returns when a line was first sure enough to
// be growth; -1 never.
func (g *gauged) lines(second int, memory func(s int) float64) int {
	at := -1
	g.until(second, memory, func() {
		for i := range g.ladder {
			if at < 0 && g.ladder[i].len > 0 && g.regress(i, g.given(i)).confidence > g.cfg.ClearThreshold {
				at = g.second
			}
		}
	})
	return at
}

// Growth from the start on has nothing before it that it could be above: lines say nothing, and
// growth that is no plain leak, because a load may be as fast, is not told before the hour.
func TestGrowthFromTheStartUnderNoise(t *testing.T) {
	for noise, add := range noises {
		for seed := range uint64(5) {
			for _, rate := range []float64{1, 5} {
				memory := func() func(s int) float64 { return add(leaky(level(20), rate*mib, 0), seed) }
				if at := gauge(1, 80*gib).lines(3*3600, memory()); at >= 0 {
					t.Errorf("%s noise, %g MiB/s, seed %d: a line at %d s", noise, rate, seed, at)
				}
				if rate < 5 { // told by runs, and after the hour or as a plain leak
					continue
				}
				if w := watched(t, 4200, memory()); w.found < 3600 {
					t.Errorf("%s noise, %g MiB/s, seed %d: told at %d s", noise, rate, seed, w.found)
				}
			}
		}
	}
}

// Growth that begins with an interruption, or within minutes of it, has nothing before it: what
// was there before does not count any more. Growth well after it has.
func TestLinesBeginAnew(t *testing.T) {
	for noise, add := range noises {
		for seed := range uint64(5) {
			for _, c := range []struct {
				after int // seconds from the interruption to the growth; -1: there is none
				lines bool
			}{{-1, true}, {0, false}, {120, false}, {2400, true}} {
				begins := 3600 + max(c.after, 0)
				memory := add(leaky(level(20), 4*mib, begins), seed)
				g := gauge(1, 80*gib)
				if before := g.lines(3600, memory); before >= 0 {
					t.Errorf("%s noise, seed %d: a line at %d s", noise, seed, before)
				}
				if c.after >= 0 {
					g.interrupt()
				}
				if at := g.lines(begins+1800, memory); (at >= 0) != c.lines {
					t.Errorf("%s noise, seed %d, growth %d s after the interruption: a line at %d s", noise, seed, c.after, at)
				}
			}
		}
	}
}

// pooled shows a domain a pool of two processes with that noise, to which a third one comes
// after an hour that loads 2 GiB in ten minutes, and returns when the pool was said to leak.
func pooled(t *testing.T, add func(func(s int) float64, uint64) func(s int) float64, seed uint64) (leaks []int) {
	t.Helper()
	d := newDomain(t)
	old := add(level(20), seed)
	var f Frame[int]
	for s := range 2 * 3600 {
		f.T, f.Used, f.Capacity = seconds2026(s), Of(40*gib), Of(80*gib)
		f.Members = append(f.Members[:0],
			Member[int]{Key: 1, Group: "pool", Used: Of(round(old(s))), Started: start - time.Hour},
			Member[int]{Key: 2, Group: "pool", Used: Of(10 * gib), Started: start - time.Hour})
		if s >= 3600 {
			used := round(2 * gib * clamp(float64(s-3600)/600))
			f.Members = append(f.Members, Member[int]{Key: 3, Group: "pool", Used: Of(used), Started: seconds2026(3600)})
		}
		j, err := look(d, &f)
		if err != nil {
			t.Fatal(err)
		}
		if len(j.Groups) != 1 {
			t.Fatalf("second %d: groups %+v", s, j.Groups)
		}
		if j.Groups[0].Leak {
			leaks = append(leaks, s)
		}
	}
	return leaks
}

// A pool that grows by one more process, which takes its time to load, does not leak, though the
// same growth of one process alone is said to under noise.
func TestPoolThatGrowsUnderNoise(t *testing.T) {
	for seed := range uint64(12) {
		if leaks := pooled(t, noises["wandering"], seed); len(leaks) > 0 {
			t.Errorf("seed %d: the pool leaks at %d s, for %d s", seed, leaks[0], len(leaks))
		}
	}
}

// growing is a leak under noise of a process, in which the one before it is found by a line.
func growing(t *testing.T, shift time.Duration, base float64, restore func(s int) bool) (all []Verdict) {
	t.Helper()
	d := newDomain(t)
	memory := noisy(leaky(level(20), mib, 2400), 100*mib, 3)
	for s := range 4200 {
		used := base + round(memory(s))
		j, err := look(d, &Frame[int]{
			T: seconds2026(s) + shift, Used: Of(used + gib), Capacity: Of(base + 200*gib), Complete: true,
			Members: []Member[int]{{Key: 1, Used: Of(used), Started: start + shift - time.Hour}},
		})
		if err != nil {
			t.Fatal(err)
		}
		v := j.Members[0].Verdict
		if v.Trough.OK {
			v.Trough.V -= base
		}
		if v.Leak {
			v.Since -= shift
		}
		v.SecondsToFull, v.FullLower, v.FullUpper = Value{}, Value{}, Value{} // takes a share of the capacity, which the base is a part of
		all = append(all, v)
		if restore(s) {
			d = restored(t, d)
		}
	}
	return all
}

// The verdicts on growth that lines find are the same at another time, on another base, and for
// a domain that was away for a moment, at any time.
func TestLinesHaveNoOriginAndNoMemory(t *testing.T) {
	never := func(int) bool { return false }
	want := growing(t, 0, 0, never)
	for name, got := range map[string][]Verdict{
		"shifted in time":       growing(t, 987654321987*time.Nanosecond, 0, never),
		"on another base":       growing(t, 0, 1000*gib, never),
		"restored now and then": growing(t, 0, 0, func(s int) bool { return s%37 == 0 }),
		"restored in the midst": growing(t, 0, 0, func(s int) bool { return s > 2700 && s < 3000 }),
	} {
		for s := range want {
			if got[s] != want[s] {
				t.Fatalf("%s, second %d: %+v, want %+v", name, s, got[s], want[s])
			}
		}
	}
	on := slices.IndexFunc(want, func(v Verdict) bool { return v.Leak })
	if on < 2400 || on > 3000 {
		t.Errorf("it is told at %d s: lines are not what this test is of", on)
	}
}

// When growth was begun anew is not forgotten.
func TestInterruptionIsRestored(t *testing.T) {
	memory := noisy(leaky(level(20), 4*mib, 3600), 100*mib, 5)
	g := gauge(1, 80*gib).until(3600, memory, nil)
	g.interrupt()
	g.until(3900, memory, nil)
	w := codec{writing: true, last: g.last}
	g.code(&w)
	r := codec{b: w.b, last: g.last}
	again := newSeries(g.cfg)
	again.code(&r)
	if r.err != nil || g.anew != 35990 || again.anew != g.anew || !reflect.DeepEqual(flat(again), flat(g.series)) {
		t.Fatalf("%v: begun anew at %d, restored at %d", r.err, g.anew, again.anew)
	}
	for _, anew := range []int32{-1, math.MinInt32, ticks(g.last-g.first) + 1, math.MaxInt32} {
		g.anew = anew
		w := codec{writing: true, last: g.last}
		g.code(&w)
		r := codec{b: w.b, last: g.last}
		if newSeries(g.cfg).code(&r); r.err == nil {
			t.Errorf("growth that was begun anew at %d, when there was no series, is accepted", anew)
		}
	}
	g.series = again
	if at := g.lines(5400, memory); at >= 0 {
		t.Errorf("a line at %d s, of growth that began with an interruption", at)
	}
}

// A line stands for the growth of a scale where it is surer than the run is, and that is not sure
// enough for a leak.
func TestLineOrRun(t *testing.T) {
	lines, runs, sure := 0, 0, 0
	for seed := range uint64(80) {
		g := gauge(1, 80*gib)
		var closed [numScales]int64
		memory := noisy(leaky(level(20), 2*mib, 2400), float64(10+seed*3/2)*mib, seed)
		g.until(3600, memory, func() {
			for i := range g.ladder {
				e := &g.ladder[i]
				if e.closed == closed[i] || g.leak.on { // what is on changes what is sure
					continue
				}
				closed[i] = e.closed
				want, line := e.judge(g.series, g.given(i)), g.regress(i, g.given(i))
				switch {
				case want.confidence >= g.cfg.LeakThreshold:
					sure += btoi(line.confidence > want.confidence)
				case line.confidence > want.confidence:
					want = line
					lines++
				case line.confidence > 0:
					runs++
				}
				got := g.growths[i]
				got.recency = 0
				if got != want {
					t.Fatalf("seed %d, second %d, scale %d: %+v, want %+v", seed, g.second, i, got, want)
				}
			}
		})
	}
	if lines < 5 || runs < 5 || sure < 5 {
		t.Errorf("%d lines, %d runs that are surer, %d that are sure enough: the test shows little", lines, runs, sure)
	}
}

// That growth is that of a line is not forgotten.
func TestLineIsRestored(t *testing.T) {
	g, fitted := gauge(1, 80*gib), 0
	g.until(3300, noisy(leaky(level(20), mib, 2400), 100*mib, 3), func() {
		if !slices.ContainsFunc(g.growths[:], func(w growth) bool { return w.fitted }) || g.second%7 > 0 {
			return
		}
		fitted++
		w := codec{writing: true, last: g.last}
		g.code(&w)
		r := codec{b: w.b, last: g.last}
		again := newSeries(g.cfg)
		if again.code(&r); r.err != nil || again.growths != g.growths || again.leak != g.leak {
			t.Fatalf("second %d: %v, %+v\nwant\n%+v", g.second, r.err, again.growths, g.growths)
		}
	})
	if fitted < 20 || !g.leak.on {
		t.Errorf("lines at %d times, a leak: %t: the test shows little", fitted, g.leak.on)
	}
}

// Single troughs are below a line, by the noise: a leak of which a line is the proof is not taken
// back by the next one, but by the level.
func TestLeakOfALineIsHeldAtItsLevel(t *testing.T) {
	for _, fitted := range []bool{false, true} {
		s := scripted()
		at := s.last
		grow := func(confidence float64) {
			s.growths[3] = growth{levels: 20, confidence: confidence, since: at, end: at, gap: ladderBase, base: 10*gib - 100*mib, retained: gib / 4, fitted: fitted}
		}
		for range 6 {
			at += ladderBase
			grow(1)
			s.decide(&observation{t: at})
		}
		if !s.leak.on || s.leak.level != fitted {
			t.Fatalf("of a line: %t, leak %t, held at its level: %t", fitted, s.leak.on, s.leak.level)
		}
		// The level has followed the growth, and the last trough is one of noise.
		s.ladder[levelScale].push(point{at: ticks(at - s.first), v: units(10*gib + gib/8)})
		s.ladder[0].push(point{at: ticks(at - s.first), v: units(10*gib - 90*mib)})
		grow(1)
		s.decide(&observation{t: at + ladderBase})
		if s.leak.on != fitted {
			t.Errorf("of a line: %t, a leak after one low trough: %t", fitted, s.leak.on)
		}
	}
}
