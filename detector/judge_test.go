// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// troughs are the points of levels in MiB, 10 s apart.
func troughs(levels []float64) (pts []point) {
	for i, v := range levels {
		pts = append(pts, point{at: int32(i+1) * 100, v: uint32(math.Round(v * oneMiB))})
	}
	return pts
}

// curve is n levels from 1000 MiB on that follow f, from 0 to 1, up to high MiB more.
func curve(n int, high float64, f func(x float64) float64) (levels []float64) {
	for i := range n {
		levels = append(levels, 1000+high*f(float64(i)/float64(n-1)))
	}
	return levels
}

func line01(x float64) float64 { return x }

// saturating reaches 1 − e⁻³ of where it would go.
func saturating(x float64) float64 { return 1 - math.Exp(-3*x) }

// lulled gains nine tenths in its first and its last quarter.
func lulled(x float64) float64 {
	return 1.8*min(x, 0.25) + 0.2*max(0, min(x, 0.75)-0.25) + 1.8*max(0, x-0.75)
}

func about(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 0.01) {
		t.Errorf("%s is %.4g, want %.4g", what, got, want)
	}
}

func TestOnset(t *testing.T) {
	for _, c := range []struct {
		name   string
		levels []float64
		low    int32 // block
		want   int32 // block
	}{
		{"at once", ramp(20, 100, 10), 1, 1},
		{"flat before", join(repeat(10, 100), ramp(20, 120, 10)), 10, 10},
		{"crept before", join(ramp(10, 100, 0.5), ramp(30, 110, 10)), 1, 11},
		{"under noise", join(mibs(100, 104, 101, 105, 100, 104), ramp(30, 110, 10)), 5, 7},
		{"nothing grew", repeat(10, 100), 1, 1},
	} {
		if got := onset(troughs(c.levels), c.low*100)[0].at; got != c.want*100 {
			t.Errorf("%s: block %g, want %d", c.name, float64(got)/100, c.want)
		}
	}
}

func TestKeptLevels(t *testing.T) {
	for _, c := range []struct {
		name   string
		levels []float64
		want   int
	}{
		{"flat", repeat(20, 100), 1},
		{"growth", ramp(20, 100, 10), 20},
		{"growth by less than a quantum a block", ramp(20, 100, 1), 10},
		{"all given back", join(ramp(20, 100, 10), mibs(100)), 1},
		{"half of it", join(ramp(20, 100, 10), mibs(200)), 11},
		{"spikes", mibs(100, 500, 110, 600, 120, 700, 130), 4},
	} {
		if got := kept(troughs(c.levels)); got != c.want {
			t.Errorf("%s: %d levels, want %d", c.name, got, c.want)
		}
	}
}

func TestPace(t *testing.T) {
	for _, c := range []struct {
		name string
		f    func(x float64) float64
		want float64
	}{
		{"straight", line01, 1},
		{"it saturates", saturating, math.Exp(-1.5)},
		{"it accelerates", func(x float64) float64 { return x * x }, 3},
		{"it has stopped", func(x float64) float64 { return min(1, 2*x) }, 0},
		{"it has just begun", func(x float64) float64 { return max(0, 3*x-2) }, 1},
	} {
		for _, n := range []int{96, 95} { // in even and odd numbers alike
			got := pace(troughs(curve(n, 1e5, c.f)))
			if slack := 0.2; math.Abs(got-c.want) > slack {
				t.Errorf("%s, %d troughs: pace %.3g, want %.3g", c.name, n, got, c.want)
			}
		}
	}
}

func TestEvenness(t *testing.T) {
	// quarters are 40 equal intervals whose quarters hold those shares of the growth.
	quarters := func(shares ...float64) []float64 {
		levels, v := mibs(1000), 1000.0
		for _, share := range shares {
			for range 10 {
				v += share * 1e4 / 10
				levels = append(levels, v)
			}
		}
		return levels
	}
	for _, c := range []struct {
		name   string
		levels []float64
		want   float64
	}{
		{"straight", quarters(0.25, 0.25, 0.25, 0.25), 1},
		{"a quarter holds a tenth", quarters(0.3, 0.1, 0.3, 0.3), 1},
		{"a quarter holds 6 %", quarters(0.34, 0.3, 0.06, 0.3), 0.5},
		{"a quarter holds 2 %", quarters(0.34, 0.34, 0.3, 0.02), 0},
		{"a quarter falls", quarters(0.6, -0.2, 0.3, 0.3), 0},
		{"three jobs that come", quarters(0.5, 0, 0.3, 0.2), 0},
		{"nothing has grown", quarters(0, 0, 0, 0), 0},
		{"it falls", quarters(-0.025, -0.025, -0.025, -0.025), 0},
	} {
		about(t, c.name, evenness(troughs(c.levels), evenParts), c.want)
	}
}

// Growth as fast as several jobs make it is looked at in twice as many parts.
func TestParts(t *testing.T) {
	for rate, want := range map[float64]int32{100: 4, 383: 4, 384: 8, 385: 8} { // MiB a minute
		if got := parts(troughs(ramp(61, 1000, rate/6))); got != want {
			t.Errorf("%g MiB a minute: %d parts, want %d", rate, got, want)
		}
	}
}

func TestSpread(t *testing.T) {
	// steps are n of the same height, and small ones between them.
	steps := func(n int, size, small float64) (levels []float64) {
		v := 1000.0
		for i := range 90 {
			v += small
			if i*n/90 != (i-1)*n/90 || i == 0 {
				v += size
			}
			levels = append(levels, v)
		}
		return join(mibs(1000), levels)
	}
	for _, c := range []struct {
		name   string
		levels []float64
		want   float64
	}{
		{"straight", curve(40, 1e4, line01), 1},
		{"five steps of 500 MiB", steps(5, 500, 0), 1},
		{"four steps of 500 MiB", steps(4, 500, 0), 0.5},
		{"three steps of 500 MiB", steps(3, 500, 0), 0},
		{"five steps of 2 GiB", steps(5, 2048, 0), 0.5},
		{"seven steps of 2 GiB", steps(7, 2048, 0), 1},
		{"seven steps of 8 GiB and more", steps(7, 10000, 0), 0.5},
		{"eleven steps of 8 GiB and more", steps(11, 10000, 0), 1},
		{"three jobs whose memory settles", steps(3, 10000, 5), 0.01},
		{"one step in much growth", join(ramp(40, 1000, 100), ramp(40, 6000, 100)), 1},
		{"all of it in one step", join(repeat(40, 1000), repeat(40, 6000)), 0},
	} {
		about(t, c.name, spread(troughs(c.levels)), c.want)
	}
}

func TestSwelling(t *testing.T) {
	for _, c := range []struct {
		name string
		f    func(x float64) float64
		want bool
	}{
		{"straight", line01, false},
		{"twice as fast in the end", func(x float64) float64 { return x + x*x/2 }, false},
		{"the morning of a daily load", func(x float64) float64 { return 1 - math.Cos(x*math.Pi/2) }, true},
		{"its afternoon", func(x float64) float64 { return math.Sin(x * math.Pi / 2) }, false},
		{"quadratic", func(x float64) float64 { return x * x }, true},
	} {
		if got := swelling(troughs(curve(96, 1e4, c.f))); got != c.want {
			t.Errorf("%s: swelling %t", c.name, got)
		}
	}
}

func TestSteadiness(t *testing.T) {
	rng := rand.New(rand.NewPCG(61, 62))
	noisy := func(levels []float64) []float64 {
		for i := range levels {
			levels[i] += 40 * rng.NormFloat64()
		}
		return levels
	}
	for _, c := range []struct {
		name       string
		levels     []float64
		pace, even [2]float64 // from, to
		points     [2]int
	}{
		{"straight", curve(96, 1e4, line01), [2]float64{1, 1}, [2]float64{1, 1}, [2]int{96, 96}},
		{"straight, with noise", noisy(curve(96, 4000, line01)), [2]float64{1, 1}, [2]float64{1, 1}, [2]int{90, 96}},
		{"it accelerates", curve(96, 1e4, func(x float64) float64 { return x * (1 + x) / 2 }), [2]float64{1, 1}, [2]float64{1, 1}, [2]int{96, 96}},
		{"a warm-up", curve(96, 1e4, saturating), [2]float64{0, 0.05}, [2]float64{0, 0.05}, [2]int{1, 96}},
		{"it has slowed down by a half", curve(96, 1e4, func(x float64) float64 { return min(x, 0.25+x/2) }), [2]float64{0, 1}, [2]float64{0, 1}, [2]int{1, 96}},
		{"a load, then a leak", join(ramp(10, 0, 2000), ramp(86, 20000, 10)), [2]float64{1, 1}, [2]float64{1, 1}, [2]int{48, 86}},
		{"a load, then nothing", join(ramp(10, 0, 2000), ramp(86, 20000, 0)), [2]float64{0, 1}, [2]float64{0, 0}, [2]int{1, 96}},
		{"too slow for jobs, a tenth in the middle half", curve(96, 1000, lulled), [2]float64{1, 1}, [2]float64{1, 1}, [2]int{48, 96}},
		{"as fast as jobs, and so", curve(96, 1e4, lulled), [2]float64{1, 1}, [2]float64{0.55, 0.65}, [2]int{48, 96}},
		{"two jobs", join(repeat(30, 1000), repeat(30, 2000), repeat(36, 3000)), [2]float64{0, 1}, [2]float64{0, 0}, [2]int{1, 96}},
	} {
		p, even, steady := steadiness(troughs(c.levels), int64(2*time.Minute))
		if p < c.pace[0] || p > c.pace[1] || even < c.even[0] || even > c.even[1] || len(steady) < c.points[0] || len(steady) > c.points[1] {
			t.Errorf("%s: pace %.3g, steady %.3g over %d troughs; want %+v", c.name, p, even, len(steady), c)
		}
	}
}

// What holds growth back, how far, and for how long.
func TestStartFactor(t *testing.T) {
	const minute, hour = int64(time.Minute), int64(time.Hour)
	// known is a series that was seen for 5 hours when its growth began, at 20 of 80 GiB.
	type known struct {
		lead, span, idle int64   // quiet before the growth, its length, from when it was idle until it began
		base             float64 // bytes
		rate             float64 // bytes per second
		capacity         float64
		f                func(x float64) float64
		on               bool
		settle           time.Duration
		spread           float64
		steady           int           // of the 96 troughs, 10 s apart
		after            int64         // the growth ended
		doubted          time.Duration // how long ago; 0 never
	}
	bent := func(late float64) func(float64) float64 {
		return func(x float64) float64 { return min(x, 0.5) + late*max(x-0.5, 0) }
	}
	// plain is growth from the start on of which nothing but that is known, four hours before the end.
	plain := func(change func(k *known)) func(*known) {
		return func(k *known) {
			k.lead, k.span, k.rate, k.spread = 0, 15*minute, 60*gib/14410, 1
			change(k)
		}
	}
	excused := 0.4 + 0.3*0.25
	for _, c := range []struct {
		name   string
		change func(k *known)
		want   float64
	}{
		{"a quiet lead-in", func(*known) {}, 1},
		{"9 minutes of it, for young growth", func(k *known) { k.lead, k.span = 9*minute, 10*minute }, 1},
		{"8 minutes of it", func(k *known) { k.lead, k.span = 8*minute, 15*minute }, 0.4 + 0.3*0.25},
		{"a third of the growth", func(k *known) { k.lead, k.span = 20*minute, 59*minute }, 1},
		{"less than a third", func(k *known) { k.lead, k.span = 15*minute, 54*minute }, 0.4 + 0.3*0.9},
		{"none", func(k *known) { k.lead, k.span = 0, 15*minute }, 0.4 + 0.3*0.25},
		{"none, and it lasted for an hour", func(k *known) { k.lead, k.span = 0, hour }, 1},
		{"none, and another settle time", func(k *known) { k.lead, k.span, k.settle = 0, 15*minute, 20*time.Minute }, 0.4 + 0.3*0.75},
		{"none, and no settle time: a quarter of what is left", func(k *known) { k.lead, k.span, k.settle = 0, 6*minute+24e9, 0 }, 0.4 + 0.3*0.5},
		{"none, no settle time, and a quarter has passed", func(k *known) { k.lead, k.span, k.settle = 0, 13*minute, 0 }, 1},
		{"none, and it was a leak before", func(k *known) { k.lead, k.span, k.on = 0, minute, true }, 1},
		{"none, and it is five sixths of the way to full", func(k *known) { k.lead, k.span, k.rate = 0, 30*minute, 60*gib/359 }, 1},
		{"none, and nearly so", func(k *known) { k.lead, k.span, k.rate = 0, 30*minute, 60*gib/480 }, 0.4 + 0.3*30/40},
		{"none, and nearly full after 15 minutes", func(k *known) { k.lead, k.span, k.rate = 0, 15*minute, 60*gib/60 }, 0.4 + 0.3*0.75},
		{"none, and 20 hours are left", func(k *known) { k.lead, k.span, k.rate = 0, 20*minute, 60*gib/72e3 }, 0.4 + 0.3*20/300},
		{"none, of an unknown capacity", func(k *known) { k.lead, k.span, k.capacity, k.rate = 0, 59*minute, 0, mib/100 }, 0.4 + 0.3*59/60},
		{"slow, for 20 minutes", func(k *known) { k.span, k.rate = 20*minute, 60*gib/36e3 }, 1},
		{"slow, for an hour", func(k *known) { k.rate = 60 * gib / 36e3 }, 0.4 + 0.3/8},
		{"slow, for eight tenths of what is left", func(k *known) { k.rate, k.span = 60*gib/36e3, 8*hour }, 1},
		{"less than 4 hours are left", func(k *known) { k.rate = 60 * gib / 14300 }, 1},
		{"slower than a day, for an hour", func(k *known) { k.rate = 60 * gib / 300e3 }, 0.4 + 0.3/24},
		{"slower than a day, for hours", func(k *known) { k.rate, k.span = 60*gib/300e3, 3*hour }, 0.4 + 0.3*3/24},
		{"the same, seen for a day", func(k *known) { k.lead, k.rate, k.span = 22*hour, 60*gib/90e3, 3*hour }, 0.4 + 0.3*3/20},

		{"none, but plain", plain(func(*known) {}), 1},
		{"plain, and 4 hours are not left", plain(func(k *known) { k.rate = 60 * gib / 14390 }), excused},
		{"plain, and days are left", plain(func(k *known) { k.rate = 60 * gib / 300e3 }), 1},
		{"plain, of an unknown capacity", plain(func(k *known) { k.capacity = 0 }), excused},
		{"plain, from idle on", plain(func(k *known) { k.base = 1024 * mib }), excused},
		{"plain, from just above idle on", plain(func(k *known) { k.base = 1025 * mib }), 1},
		{"plain, from idle on, of a large memory", plain(func(k *known) {
			k.capacity, k.base, k.rate = 200*gib, 1.5*gib, 180*gib/14410
		}), excused},
		{"a second half that brought less, within what chance allows", plain(func(k *known) {
			k.f = func(x float64) float64 { return bent(0.8)(math.Floor(12*x) / 12) }
		}), excused},
		{"plain, and it was idle", plain(func(k *known) { k.lead, k.idle = 5*hour-1, minute }), 1},
		{"plain, and short of the fifth step", plain(func(k *known) { k.spread = 0.99 }), excused},
		{"steady for 10 minutes 50", plain(func(k *known) { k.steady = 66 }), excused},
		{"steady for 11 minutes", plain(func(k *known) { k.steady = 67 }), 1},
		{"plain, and a longer settle time", plain(func(k *known) { k.settle = 61 * time.Minute }), 0.4 + 0.3*15/61},
		{"plain, and a shorter settle time", plain(func(k *known) { k.settle = 50 * time.Minute }), 1},
		{"plain, as something was that was no leak", plain(func(k *known) { k.doubted = 6 * 24 * time.Hour }), excused},
		{"plain, as something was a week ago that was no leak", plain(func(k *known) { k.doubted = 8 * 24 * time.Hour }), 1},
		{"a second half that brought 0.88 of the first", plain(func(k *known) { k.f = bent(0.88) }), excused},
		{"a second half that brought 0.92 of the first", plain(func(k *known) { k.f = bent(0.92) }), 1},
		{"a second half that brought 1.08 times the first", plain(func(k *known) { k.f = bent(1.08) }), 1},
		{"a second half that brought 1.13 times the first", plain(func(k *known) { k.f = bent(1.13) }), excused},
		{"slower after a steep start that is left out", plain(func(k *known) {
			k.steady, k.f = 80, func(x float64) float64 { return 10*min(x, 0.1) + x }
		}), 1},
		{"plain, and slow, for half an hour", plain(func(k *known) { k.span, k.rate = 30*minute, 60*gib/36e3 }), 0.4 + 0.3/16},
		{"excused, and it has stopped an hour ago", func(k *known) { k.lead, k.span, k.after = 0, 15*minute, hour }, excused},

		{"from idle on, as fast as a program loads", func(k *known) { k.base, k.rate, k.span = 512*mib, 5*mib, 30*minute }, 0.4 + 0.3*0.5},
		{"from idle on, slower", func(k *known) { k.base, k.rate, k.span, k.capacity = 512*mib, 3*mib, 30*minute, 60*gib }, 1},
		{"idle until 3 minutes before", func(k *known) { k.idle, k.span = 3*minute, 15*minute }, 0.4 + 0.3*0.25},
		{"idle until 30 minutes before", func(k *known) { k.idle, k.span = 30*minute, 15*minute }, 1},

		{"it swells, for an hour", func(k *known) { k.f = func(x float64) float64 { return x * x } }, 1},
		{"it swells, for three hours, and 10 are left", func(k *known) {
			k.f, k.span, k.rate = func(x float64) float64 { return x * x }, 3*hour, 60*gib/36e3
		}, 0.4 + 0.3*0.3},
		{"it does not swell, and 10 are left", func(k *known) { k.span, k.rate = 3*hour, 60*gib/36e3 }, 0.4 + 0.3*3/8},
		{"it swells, for three hours, and 2 are left", func(k *known) {
			k.f, k.span, k.rate = func(x float64) float64 { return x * x }, 3*hour, 60*gib/7200
		}, 1},
	} {
		k := known{lead: 5 * hour, span: hour, idle: 5 * hour, base: 20 * gib, rate: 20 * mib, capacity: 80 * gib, f: line01, settle: time.Hour, steady: 96}
		c.change(&k)
		s := newSeries(DefaultConfig())
		s.cfg.SettleTime = k.settle
		s.first = int64(start)
		s.began = s.first - hour // its owner may be older: what that did is not known
		begin := s.first + k.lead
		s.last, s.used, s.capacity, s.leak.on = begin+k.span, int64(20*gib), k.capacity, k.on
		if k.idle < 5*hour {
			s.idleAt = begin - k.idle
		}
		pts := troughs(curve(96, 1e4, k.f))
		s.last += k.after
		if k.doubted > 0 {
			s.doubted = s.last - int64(k.doubted)
		}
		got := s.startFactor(&growth{since: begin, end: s.last - k.after, spread: k.spread}, pts, pts[len(pts)-k.steady:], k.rate, int64(k.base))
		about(t, c.name, got, c.want)
	}
}

// judged judges the troughs, 10 s apart, of a series that was flat for half an hour
// before them. given is what it gave back before, in MiB.
func judged(levels []float64, given float64) growth {
	s := newSeries(DefaultConfig())
	levels = join(repeat(180, levels[0]), levels)
	e := climbing(levels, -1)
	s.seen, s.first, s.capacity, s.used = true, int64(start), 80*gib, int64(levels[len(levels)-1]*mib)
	s.began, s.last = s.first, s.first+int64(len(levels))*ladderBase
	return e.judge(s, given*oneMiB)
}

// quarterly are four jobs of 1 GiB and more, one in each quarter of 16 minutes, at that many
// MiB a minute in all. Each takes 100 s to load, and there is next to no growth between them.
func quarterly(rate float64) (levels []float64) {
	for job := range 4 {
		from := 10000 + 4*rate*float64(job)
		levels = join(levels, ramp(14, from, 1), ramp(10, from+0.4*rate, 0.4*rate))
	}
	return levels
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name             string
		levels           []float64
		given            float64
		least, most      float64 // confidence
		levelsAre, since int     // without the first twentieth; 0: not asked
	}{
		{"a leak", ramp(70, 10000, 20), 0, 1, 1, 67, 1800},
		{"flat", repeat(70, 10000), 0, 0, 0, 0, 0},
		{"three levels", join(ramp(3, 10000, 20), repeat(5, 10040)), 0, 0, 0, 0, 0},
		{"less than the least growth", ramp(70, 10000, 0.2), 0, 0, 0, 0, 0},
		{"it falls", join(ramp(70, 10000, 20), ramp(5, 10500, -10)), 0, 0, 0, 0, 0},
		{"shorter than the least span", ramp(28, 10000, 20), 0, 0.48, 0.49, 27, 1800},
		{"as long as it", ramp(40, 10000, 20), 0, 1, 1, 39, 1800},
		{"as fast as programs load", ramp(70, 10000, 200), 0, 0.3, 0.5, 67, 1800},
		{"as fast, twice as long", ramp(122, 10000, 200), 0, 1, 1, 0, 1800},
		{"a warm-up", curve(70, 4000, saturating), 0, 0, 0.1, 0, 0},
		{"a job a quarter, as fast as jobs", quarterly(410), 0, 0, 0.2, 0, 0},
		{"a job a quarter, slower", quarterly(300), 0, 1, 1, 0, 0},
		{"few jobs", join(repeat(24, 10000), repeat(24, 11000), repeat(24, 12000), repeat(20, 13000)), 0, 0, 0, 0, 0},

		{"it gave as much back", ramp(70, 10000, 20), 1380, 0.25, 0.27, 67, 0},
		{"it gave half back", ramp(70, 10000, 20), 690, 1, 1, 67, 0},
		{"it gave two thirds back", ramp(70, 10000, 20), 920, 0.62, 0.63, 67, 0},
		{"it gave more back", ramp(70, 10000, 20), 5000, 0.25, 0.25, 67, 0},
	} {
		g := judged(c.levels, c.given)
		if !(g.confidence >= c.least-1e-9 && g.confidence <= c.most+1e-9) {
			t.Errorf("%s: confidence %.4g, want %g to %g: %+v", c.name, g.confidence, c.least, c.most, g)
		}
		if c.levelsAre > 0 && g.levels != c.levelsAre {
			t.Errorf("%s: %d levels, want %d", c.name, g.levels, c.levelsAre)
		}
		if at := int((g.since - int64(start)) / 1e9); c.since > 0 && (at < c.since-10 || at > c.since+50) {
			t.Errorf("%s: since %d s, want %d", c.name, at, c.since)
		}
	}
}

// What the growth is, not only how sure it is.
func TestGrowth(t *testing.T) {
	g := judged(ramp(70, 10000, 20), 0)
	if want := int64(69 * 20 * mib); g.retained != want || g.base != 10000*mib || g.step != 20*mib || g.flat > 0.02 || g.gap != 10e9 || g.points < 60 {
		t.Errorf("%+v", g)
	}
	stairs := judged(join(repeat(6, 10000), repeat(6, 10100), repeat(6, 10200), repeat(6, 10300), repeat(6, 10400), repeat(6, 10500), repeat(6, 10600), repeat(6, 10700), repeat(6, 10800), repeat(6, 10900), repeat(6, 11000), repeat(6, 11100), repeat(6, 11200)), 0)
	if stairs.flat < 0.8 || stairs.flat > 0.9 || stairs.step != 100*mib || stairs.gap < 55e9 || stairs.gap > 60e9 {
		t.Errorf("stairs: %+v", stairs)
	}
	// Of a growth that is longer than what is kept, shares are those of what is kept.
	long := judged(ramp(1000, 10000, 20), 0)
	if long.retained != 999*20*mib || long.flat > 0.02 || long.step != 20*mib || long.levels != scaleBlocks {
		t.Errorf("long: %+v", long)
	}
}

// Growth that goes on is fresh, and one that has ended is not any more.
func TestFresh(t *testing.T) {
	g := growth{gap: 20e9}
	for s, want := range map[int64]float64{0: 1, 59: 1, 60: 1, 90: 0.5, 120: 0, 1e6: 0} {
		about(t, "recency", g.fresh(s*1e9), want)
	}
}

func TestClampIsNeverNaN(t *testing.T) {
	for x, want := range map[float64]float64{-1: 0, 0: 0, 0.5: 0.5, 1: 1, 2: 1, math.Inf(1): 1, math.Inf(-1): 0} {
		if got := clamp(x); got != want {
			t.Errorf("%g: %g", x, got)
		}
	}
	if got := clamp(math.NaN()); got != 0 {
		t.Errorf("NaN: %g", got)
	}
}

// The load of a model before the growth is no part of what must be straight.
func TestPlainAfterALoad(t *testing.T) {
	levels := join(ramp(10, 10000, 100), ramp(76, 10920, 20))
	s := newSeries(DefaultConfig())
	e := climbing(levels, -1)
	s.seen, s.first, s.capacity, s.used = true, int64(start), 80*gib, int64(levels[len(levels)-1]*mib)
	s.began, s.last = s.first, s.first+int64(len(levels))*ladderBase
	if g := e.judge(s, 0); g.start != 1 || !g.plain || g.points >= len(levels)-1 || g.points < 67 {
		t.Errorf("%+v", g)
	}
}

// Growth of 2, 6, 4 and 2 MiB: 8 in the first half and 6 in the second one.
func TestHalves(t *testing.T) {
	pts := troughs(mibs(1000, 1002, 1008, 1012, 1014))
	ratio, deviation := halves(pts)
	// The variances are 2²+6²−8²/2 and 4²+2²−6²/2.
	near(t, "ratio", ratio, 0.75, 1e-9)
	near(t, "deviation", deviation, math.Sqrt(2+0.75*0.75*8)/8, 1e-9)
	near(t, "pace", pace(pts), 0.75+0.6*deviation, 1e-9)
	if ratio, deviation := halves(troughs(mibs(1000, 1000, 1000, 1004, 1008))); ratio != 1 || deviation != 0 {
		t.Errorf("growth in the second half only: %g, deviation %g", ratio, deviation)
	}
}

// What is left is that of the GPU, and fills by all that grows in it.
func TestPlainOnASharedGPU(t *testing.T) {
	for _, c := range []struct {
		name               string
		others, rising     float64 // what other programs hold, GiB, and gain, MiB/s
		base, rate         float64 // of each of so many, GiB, MiB/s
		replicas           int
		until, least, most int // seconds; the first leak in [least, most], -1 for none
	}{
		{"alone", 0, 0, 2, 2.2, 1, 1200, 600, 900},
		{"little is left", 72, 0, 2, 0.25, 1, 1200, 600, 900},
		{"too little is left", 72, 0, 2, 2.2, 1, 1500, -1, -1},
		{"three grow together", 0, 0, 5, 1, 3, 1200, 600, 900},
		{"eight grow together", 0, 0, 5, 2, 8, 1200, -1, -1},
		{"others shrink meanwhile", 40, -5, 2, 6, 1, 1200, -1, -1},
	} {
		d, first := newDomain(t), -1
		f := Frame[int]{Capacity: Of(80 * gib), Complete: true}
		for second := range c.until {
			f.T, f.Used = seconds2026(second), Of(c.others*gib+c.rising*mib*float64(second))
			f.Members = append(f.Members[:0], Member[int]{Key: 99, Used: f.Used, Started: start})
			for n := range c.replicas {
				used := round(c.base*gib + c.rate*mib*float64(second))
				f.Members = append(f.Members, Member[int]{Key: n, Used: Of(used), Started: start})
				f.Used.V += used
			}
			if err := d.Observe(&f); err != nil {
				t.Fatal(err)
			}
			if first < 0 && d.Judgement().Device.Leak {
				first = second
			}
		}
		if first < c.least || first > c.most {
			t.Errorf("%s: a leak at %d s, want it in [%d, %d]", c.name, first, c.least, c.most)
		}
	}
}

// What others hold is not left: 1 MiB/s from the start of a program on is not slow where they
// hold nearly all of the GPU.
func TestSlowOnASharedGPU(t *testing.T) {
	for _, c := range []struct {
		name        string
		others      float64 // GiB
		least, most float64 // minutes until it is told
	}{
		{"6 GiB are left", 72, 55, 65},
		{"2 GiB are left", 76, 20, 32},
	} {
		d, first := newDomain(t), -1.0
		f := Frame[int]{Capacity: Of(80 * gib), Complete: true}
		for second := range 3 * 3600 {
			used := round(2*gib + mib*float64(second))
			f.T, f.Used = seconds2026(second), Of(min(used+c.others*gib, 80*gib))
			f.Members = append(f.Members[:0], Member[int]{Key: 1, Used: Of(used), Started: start}, Member[int]{Key: 2, Used: Of(f.Used.V - used), Started: start - time.Hour})
			if err := d.Observe(&f); err != nil {
				t.Fatal(err)
			}
			if first < 0 && d.Judgement().Device.Leak {
				first = float64(second) / 60
			}
		}
		if first < c.least || first > c.most {
			t.Errorf("%s: told after %g min, want it in [%g, %g]", c.name, first, c.least, c.most)
		}
	}
}

// How fast the troughs rose: over what is remembered, at the narrowest scale that reaches back.
func TestRising(t *testing.T) {
	g := gauge(1, 80*gib)
	if got := g.rising(int64(start)); got != 0 {
		t.Errorf("nothing was seen: %g", got)
	}
	g.until(6*3600, func(s int) float64 { return 10*gib + mib*float64(min(s, 7200)) + 3*mib*float64(max(s-7200, 0)) }, nil)
	for _, c := range []struct{ since, want float64 }{ // hours, MiB/s
		{5.9, 3}, {3, 3}, {2, 3}, {1, 2.6}, {0, 7 / 3.}, {-1, 7 / 3.},
	} {
		near(t, fmt.Sprintf("since hour %g", c.since), g.rising(int64(start)+int64(c.since*3600e9)), c.want*mib, 0.05)
	}
}

// Where samples are minutes apart, growth takes longer to show itself, and is not slow for that.
func TestSeldomSamples(t *testing.T) {
	for interval, most := range map[int]int{60: 10, 120: 20, 180: 30, 300: 45, 600: 90} { // s, min
		d, found := newDomain(t), -1
		f := Frame[int]{Capacity: Of(80 * gib)}
		begins := max(7200, 30*interval)
		for s := 0; s < begins+2*3600 && found < 0; s += interval {
			f.T, f.Used = seconds2026(s), Of(round(10*gib+mib/3.*float64(max(0, s-begins))))
			if err := d.Observe(&f); err != nil {
				t.Fatal(err)
			}
			if d.Judgement().Device.Leak {
				found = (s - begins) / 60
			}
		}
		if found < 0 || found > most {
			t.Errorf("20 MiB a minute, sampled every %d s: found after %d min, want %d at most", interval, found, most)
		}
	}
}

// A ramp of five minutes is shorter than the least span however wide the blocks are in which it is seen,
// and a leak of as much is told in time.
func TestRampIsNotLongerThanItIs(t *testing.T) {
	for _, interval := range []int{1, 5, 10, 15} {
		for _, ramp := range []int{300, 3600} {
			told := 0
			for phase := 0; phase < 60; phase += 7 {
				s := newSeries(DefaultConfig())
				for sec := 0; sec < 2*3600 && !s.leak.on; sec += interval {
					used := 20*gib + 5*mib*float64(max(0, min(sec-3600-phase, ramp)))
					s.observe(&observation{t: int64(seconds2026(sec)), used: int64(round(used)), interval: int64(interval) * 1e9, capacity: 80 * gib})
				}
				if s.leak.on && s.last <= int64(seconds2026(3600+phase+900)) {
					told++
				}
			}
			if want := 9 * (ramp / 3600); told != want {
				t.Errorf("every %d s, growth of %d s: told in %d of 9 cases, want %d", interval, ramp, told, want)
			}
		}
	}
}

// Slow growth that a load would excuse in a process is none in memory that nobody computes with: a
// wave that takes a day to rise is a leak there within hours, and not in the process.
func TestNobodysMemoryHasNoLoad(t *testing.T) {
	wave := func(s int) float64 { return 10*gib + 10*gib*(1-math.Cos(2*math.Pi*float64(s)/86400)) }
	told := func(used func(s int) (residual, member float64)) int {
		d := newDomain(t)
		for s := 10; s < 10*3600; s += 10 {
			residual, member := used(s)
			if j := observe(t, d, s, residual, map[int]float64{1: round(member)}); j.Device.Leak {
				return s
			}
		}
		return math.MaxInt
	}
	residual := told(func(s int) (float64, float64) { return round(wave(s)), 10 * gib })
	member := told(func(s int) (float64, float64) { return gib, wave(s) })
	if residual > 4*3600 || member < 2*residual {
		t.Errorf("the wave of nobody's memory is told at %d s, that of a process at %d s", residual, member)
	}
}
