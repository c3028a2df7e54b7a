// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"slices"
	"testing"
	"time"
)

// sample is one second of a process on a GPU of 80 GiB.
type sample struct {
	used float64 // bytes
	sm   Value
}

// follow gives a series a sample a second and calls look after each.
func follow(s *series, from, to int, at func(sec int) sample, look func(sec int)) {
	var full fullness
	for sec := from; sec < to; sec++ {
		m := at(sec)
		o := observation{
			t: int64(seconds2026(sec)), used: int64(round(m.used)), interval: int64(time.Second), capacity: 80 * gib, sm: m.sm,
		}
		full.note(o.t, o.used, int64(o.capacity))
		o.full = full
		s.observe(&o)
		if look != nil {
			look(sec)
		}
	}
}

// leaking returns in which seconds a leak of that memory begins and ends.
func leaking(seconds int, at func(sec int) float64) (changes []int) {
	s := newSeries(DefaultConfig())
	follow(s, 0, seconds, func(sec int) sample { return sample{used: at(sec)} }, func(sec int) {
		if s.leak.on != (len(changes)%2 == 1) {
			changes = append(changes, sec)
		}
	})
	return changes
}

// scripted is a series that was flat for an hour, and whose growth at the narrowest
// scale is written by hand: decide alone is on trial.
func scripted() *series {
	s := newSeries(DefaultConfig())
	follow(s, 0, 3600, func(int) sample { return sample{used: 10 * gib} }, nil)
	return s
}

// A leak is one after its confidence has been above the threshold for 45 s, and until
// it is below the clear threshold.
func TestLeakIsConfirmedAndCleared(t *testing.T) {
	cfg := DefaultConfig()
	high, low := cfg.LeakThreshold, cfg.ClearThreshold
	mid := (high + low) / 2
	for _, c := range []struct {
		name       string
		confidence []float64 // every 10 s
		on         []int     // from which to which it is
	}{
		{"never", slices.Repeat([]float64{high - 0.01}, 20), nil},
		{"for long", slices.Repeat([]float64{high}, 20), []int{5, 20}},
		{"for 40 s", join(slices.Repeat([]float64{high}, 5), repeat(10, 0)), nil},
		{"twice for 40 s", join(repeat(5, high), repeat(1, high-0.01), repeat(5, high), repeat(4, 0)), nil},
		{"then between the two", join(repeat(10, high), repeat(10, mid)), []int{5, 20}},
		{"then at the lower one", join(repeat(10, high), repeat(10, low)), []int{5, 20}},
		{"then none: held for a quarter of its time", join(repeat(10, high), repeat(10, low-0.01)), []int{5, 12}},
		{"none for a moment", join(repeat(10, high), repeat(1, 0), repeat(10, high)), []int{5, 21}},
	} {
		s := scripted()
		var on []int
		for i, confidence := range c.confidence {
			at := s.last + int64(i)*ladderBase
			s.growths[0] = growth{levels: 20, confidence: confidence, since: s.last, end: at, gap: ladderBase, base: 9 * gib, retained: gib}
			s.decide(&observation{t: at})
			if s.leak.on != (len(on)%2 == 1) {
				on = append(on, i)
			}
			if s.leak.on && s.leak.confidence < low {
				t.Errorf("%s: on at %g", c.name, s.leak.confidence)
			}
		}
		if s.leak.on {
			on = append(on, len(c.confidence))
		}
		if !slices.Equal(on, c.on) {
			t.Errorf("%s: a leak in %v, want %v", c.name, on, c.on)
		}
	}
}

// The surest scale counts, as long as its growth goes on.
func TestConfidenceOfTheScales(t *testing.T) {
	now := int64(seconds2026(3600))
	full := growth{levels: 20, confidence: 0.9, since: now - 1000e9, end: now, gap: 10e9, retained: gib, pace: 1, spread: 1}
	changed := func(change func(g *growth)) growth {
		g := full
		change(&g)
		return g
	}
	for _, c := range []struct {
		name          string
		narrow, wider growth
		want          float64
		best          int
	}{
		{"one", full, growth{}, 0.9, 0},
		{"none", growth{}, growth{}, 0, 0},
		{"the wider one", changed(func(g *growth) { g.confidence = 0.3 }), full, 0.9, 2},
		{"has just stopped", changed(func(g *growth) { g.end -= 45e9 }), growth{}, 0.45, 0},
		{"has stopped", changed(func(g *growth) { g.end -= 100e9 }), growth{}, 0, 0},
	} {
		s := scripted()
		s.growths[0], s.growths[2] = c.narrow, c.wider
		s.decide(&observation{t: now})
		if math.Abs(s.leak.confidence-c.want) > 1e-9 || int(s.leak.best) != c.best {
			t.Errorf("%s: %.3g of scale %d, want %g of %d", c.name, s.leak.confidence, s.leak.best, c.want, c.best)
		}
	}
}

// What holds a leak that has lasted for two hours: growth, a pause, and a memory that is full
// and was lately when it grew.
func TestWhatHoldsALeak(t *testing.T) {
	const now, minute = int64(start) + 7200e9, int64(time.Minute)
	cfg := DefaultConfig()
	for _, c := range []struct {
		name        string
		confidence  float64
		grown, full int64 // minutes ago; no time if -1
		back        bool  // more than a quarter is given back
		on          bool
		want        float64
	}{
		{"it grows", 0.9, 0, -1, false, true, 0.9},
		{"all the same, less surely", 0.36, 0, -1, false, true, 0.36},
		{"it pauses", 0, 9, -1, false, true, cfg.ClearThreshold},
		{"for long", 0, 11, -1, false, false, 0},
		{"for long, in a memory that is full", 0, 14, 0, false, true, cfg.ClearThreshold},
		{"for longer there", 0, 16, 0, false, false, 0},
		{"for long, in one that was full", 0, 11, 14, false, true, cfg.ClearThreshold},
		{"for long, in one that was full for longer ago", 0, 11, 16, false, false, 0},
		{"it is given back", 0.9, 0, -1, true, false, cfg.ClearThreshold},
		{"it is given back, and hardly was one", 0.2, 0, -1, true, false, 0.2},
		{"it is given back in a full memory", 0.9, 1, 0, true, true, 0.9},
	} {
		s := scripted()
		s.growths[0] = growth{levels: 20, base: 9 * gib, retained: gib}
		s.leak = leak{on: true, confidence: c.confidence, since: int64(start), base: 9 * gib, high: 10 * gib, grown: now - c.grown*minute}
		if c.back {
			s.leak.high = 11 * gib
		}
		o := observation{t: now}
		if c.full >= 0 {
			o.full = fullness{since: int64(start) + 1, lately: int64(start) + 1, until: now - c.full*minute}
		}
		s.hold(&o, false)
		if s.leak.on != c.on || s.leak.confidence != c.want {
			t.Errorf("%s: a leak: %t, confidence %g; want %t, %g", c.name, s.leak.on, s.leak.confidence, c.on, c.want)
		}
	}
}

// A leak is foreseen by the widest scale that sees it clearly, and by the surest if none does.
func TestWhichScaleForesees(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(g *growth) // of scale 3, which sees just enough
		want   int
	}{
		{"it sees enough", func(*growth) {}, 3},
		{"15 troughs", func(g *growth) { g.points = 15 }, 1},
		{"a little unsteady", func(g *growth) { g.steadiness = 0.79 }, 1},
		{"it may be a load", func(g *growth) { g.start = 0.79 }, 1},
		{"hardly seen to grow any more", func(g *growth) { g.recency = 0.01 }, 3},
		{"not seen to grow any more", func(g *growth) { g.recency = 0 }, 1},
	} {
		s := scripted()
		for i, step := range map[int]float64{1: 1, 3: 3} {
			for _, p := range troughs(ramp(20, 20000, step)) {
				s.ladder[i].push(p)
			}
		}
		s.growths[3] = growth{points: 16, steadiness: 0.8, start: 0.8, recency: 1}
		c.change(&s.growths[3])
		s.growths[1].points, s.leak.best = 10, 1
		s.foresee()
		if int(s.leak.scale) != c.want {
			t.Errorf("%s: scale %d, want %d", c.name, s.leak.scale, c.want)
		}
		near(t, c.name+": rate", s.leak.trend.rate, float64(c.want)*mib/10, 1e-9)
	}
}

// Growth goes on at a MiB a second for 40 minutes after a quiet hour, and then
// something happens. The wider scales see it later.
func TestLeakIsHeld(t *testing.T) {
	const begins, then = 3600, 6000
	grows := func(sec int) float64 { return 10*gib + float64(max(0, sec-begins))*mib }
	top := grows(then)
	for _, c := range []struct {
		name string
		then func(sec int) float64 // seconds since
		ends [2]int                // when it ends after that, from and to; 0 not within an hour
	}{
		{"goes on", func(sec int) float64 { return top + float64(sec)*mib }, [2]int{}},
		{"pauses for five minutes", func(sec int) float64 { return top + float64(max(0, sec-300))*mib }, [2]int{}},
		{"stops", func(int) float64 { return top }, [2]int{600, 2100}},
		{"gives a tenth back, and stops", func(int) float64 { return top - 240*mib }, [2]int{500, 1800}},
		{"gives all back", func(int) float64 { return 10 * gib }, [2]int{0, 20}},
		{"gives half back", func(int) float64 { return top - 1200*mib }, [2]int{0, 20}},
		{"slows down for good", func(sec int) float64 { return top + 600*mib*(1-math.Exp(-float64(sec)/600)) }, [2]int{600, 3000}},
	} {
		changes := leaking(then+3600, func(sec int) float64 {
			if sec < then {
				return grows(sec)
			}
			return c.then(sec - then)
		})
		if len(changes) == 0 || changes[0] < begins || changes[0] > begins+900 {
			t.Errorf("%s: no leak in time: %v", c.name, changes)
			continue
		}
		held := 0
		if len(changes) > 1 {
			held = changes[1] - then
		}
		if held < c.ends[0] || held > c.ends[1] {
			t.Errorf("%s: held until %d s, want %v", c.name, held, c.ends)
		}
	}
}

// A leak that has only just begun does not stay for as long without growth.
func TestYoungLeakIsNotHeldForLong(t *testing.T) {
	changes := leaking(9000, func(sec int) float64 { return 10*gib + float64(min(max(0, sec-3600), 900))*mib })
	if len(changes) != 2 || changes[1]-4500 < 150 || changes[1]-4500 > 1020 {
		t.Errorf("a leak of 15 minutes that stops: %v", changes)
	}
}

// What was not seen did not pause: a leak goes on over a time without samples, and
// one that begins is found in spite of it.
func TestGapIsNoPause(t *testing.T) {
	for _, c := range []struct {
		name string
		gap  [2]int // seconds without samples
		by   []int  // the changes come at these times at the latest
	}{
		{"once it is known", [2]int{4500, 4920}, []int{4400}},
		{"while it begins", [2]int{3900, 4200}, []int{5100}},
		{"for long", [2]int{5000, 8000}, []int{4400}},
	} {
		s := newSeries(DefaultConfig())
		var changes []int
		for sec := range 12000 {
			if sec > c.gap[0] && sec < c.gap[1] {
				continue
			}
			used := 10*gib + int64(max(0, sec-3600))*mib
			s.observe(&observation{t: int64(start) + int64(sec)*1e9, used: used, interval: 1e9, capacity: 80 * gib})
			if s.leak.on != (len(changes)%2 == 1) {
				changes = append(changes, sec)
			}
		}
		late := func(i int) bool { return changes[i] > c.by[i] }
		if len(changes) != len(c.by) || slices.ContainsFunc([]int{0, len(changes) - 1}, late) {
			t.Errorf("a gap %s: the leak changes at %v, want by %v", c.name, changes, c.by)
		}
	}
}

// A leak that just stops is over when no scale expects more of it: the longer it has lasted,
// the wider are those that have seen it. One that works and rests goes on from one to the next.
func TestLeakThatStops(t *testing.T) {
	const begins = 7200
	for _, c := range []struct {
		name  string
		hours int
		at    func(sec int) float64 // bytes, seconds after the begin
		most  int                   // minutes until it is over
		told  int                   // how often
	}{
		{"an hour", 1, func(sec int) float64 { return 0.8 * mib * float64(sec) }, 11, 1},
		{"six hours", 6, func(sec int) float64 { return 0.8 * mib * float64(sec) }, 11, 1},
		{"a day", 24, func(sec int) float64 { return 0.4 * mib * float64(sec) }, 11, 1},
		{"half days, and three hours of rest", 57, func(sec int) float64 { return 0.2 * mib * float64(sec/54000*43200+min(sec%54000, 43200)) }, 330, 2},
		{"minutes, and two of rest", 6, func(sec int) float64 { return mib * float64(sec/600*480+min(sec%600, 480)) }, 11, 1},
		{"minutes, and ten of rest", 6, func(sec int) float64 { return mib * float64(sec/1800*1200+min(sec%1800, 1200)) }, 60, 2},
		{"a day of steps", 24, func(sec int) float64 { return 1200 * mib * float64(sec/2400) }, 300, 1},
	} {
		ends := begins + c.hours*3600
		changes := leaking(ends+6*3600, func(sec int) float64 { return 20*gib + c.at(max(0, min(sec, ends)-begins)) })
		if over := changes[len(changes)-1]; len(changes) != 2*c.told || over < ends || over > ends+c.most*60 {
			t.Errorf("%s, from %d to %d: a leak in %v, want it %d times, and over after %d min", c.name, begins, ends, changes, c.told, c.most)
		}
	}
}

// Near the capacity an allocator empties its cache before it fails, and goes on: that
// gives nothing back.
func TestLeakNearTheCapacity(t *testing.T) {
	const begins = 3600
	fills := func(high float64) func(sec int) float64 { // from 40 GiB on, then falls to 30
		full := begins + int((high-40*gib)/(8*mib))
		return func(sec int) float64 {
			if sec >= full {
				return 30 * gib
			}
			return 40*gib + float64(max(0, sec-begins))*8*mib
		}
	}
	for _, c := range []struct {
		name string
		high float64
		held [2]int
	}{
		{"there", 78 * gib, [2]int{880, 910}},
		{"there is room", 60 * gib, [2]int{0, 20}},
	} {
		changes := leaking(14400, fills(c.high))
		full := begins + int((c.high-40*gib)/(8*mib))
		if len(changes) != 2 || changes[1]-full < c.held[0] || changes[1]-full > c.held[1] {
			t.Errorf("%s: %v, full at %d", c.name, changes, full)
		}
	}
}

// Memory that grows while nothing is computed is loaded.
func TestGrowthWithoutComputeIsALoad(t *testing.T) {
	for _, c := range []struct {
		name  string
		sm    func(sec int) Value
		leaks bool
	}{
		{"it computes", func(int) Value { return Of(0.9) }, true},
		{"now and then", func(sec int) Value { return Of(0.9 * float64(btoi(sec/60%3 == 0))) }, true},
		{"not known", func(int) Value { return Value{} }, true},
		{"never", func(int) Value { return Of(0) }, false},
		{"less than a hundredth", func(int) Value { return Of(0.004) }, false},
		{"before it grew alone", func(sec int) Value { return Of(0.9 * float64(btoi(sec < quiet))) }, false},
		{"hardly ever", func(sec int) Value { return Of(0.9 * float64(btoi(sec%300 < 5))) }, false},
	} {
		s, leaks := newSeries(DefaultConfig()), false
		follow(s, 0, quiet+3000, func(sec int) sample { return sample{10*gib + leaked(sec), c.sm(sec)} }, func(int) { leaks = leaks || s.leak.on })
		if leaks != c.leaks {
			t.Errorf("%s: a leak: %t, confidence %.3g", c.name, leaks, s.leak.confidence)
		}
	}
}

// Muted in the middle of a leak there is none; what was seen is not forgotten, and what is
// slow need not show itself for hours again.
func TestMuteHidesALeak(t *testing.T) {
	s := newSeries(DefaultConfig())
	at := func(sec int) sample { return sample{used: 10*gib + leaked(sec)} }
	end := quiet + 1000
	follow(s, 0, end, at, nil)
	if !s.leak.on {
		t.Fatal("no leak")
	}
	since := s.leak.since
	mute := s.cfg
	mute.Mute = true
	s.configure(mute)
	var v Verdict
	if s.verdict(&v); v.Judged || v.Leak || v.Rate.OK || !v.Windows[0].Slope.OK {
		t.Errorf("muted: %+v", v)
	}
	follow(s, end, end+60, at, func(sec int) {
		if s.verdict(&v); v.Judged || v.Leak || !v.Muted || v.Pattern != PatternUnknown {
			t.Fatalf("second %d: muted, and %+v", sec, v)
		}
	})
	s.configure(DefaultConfig())
	follow(s, end+60, end+61, at, nil)
	if s.verdict(&v); !v.Leak || !v.Pattern.leaks() || v.Since != time.Duration(since) {
		t.Errorf("unmuted: %+v, since %d", v, since)
	}
}

// A new configuration in the middle of a leak leaves it, as long as its confidence is
// above the clear threshold.
func TestReconfigureInTheMiddleOfALeak(t *testing.T) {
	cfg := DefaultConfig()
	d, err := NewDomain(func(Subject[int]) Config { return cfg })
	if err != nil {
		t.Fatal(err)
	}
	see := func(s int) *Judgement[int] {
		return observe(t, d, s, 512*mib, map[int]float64{1: round(10*gib + leaked(s))})
	}
	at := quiet + 1500
	var before Verdict
	for s := range at {
		before = see(s).Members[0].Verdict
	}
	if !before.Leak {
		t.Fatal("no leak")
	}
	for name, change := range map[string]func(){
		"higher threshold": func() { cfg.LeakThreshold = 1 },
		"other windows":    func() { cfg.Windows = []time.Duration{5 * time.Minute, time.Hour} },
		"settle time":      func() { cfg.SettleTime = 12 * time.Hour },
		"least growth":     func() { cfg.MinGrowth = 256 * mib },
		"defaults":         func() { cfg = DefaultConfig() },
	} {
		change()
		d.Reconfigure()
		for range 60 {
			j := see(at)
			v := j.Members[0].Verdict
			if !v.Leak || v.Since != before.Since || !j.Device.Leak || v.Rate.V < 0.9*mib || v.Windows[1].N < 1000 {
				t.Fatalf("%s, second %d: %+v, before %+v", name, at, v, before)
			}
			at++
		}
	}
	cfg.MinGrowth = 100 * gib // that is no leak any more
	d.Reconfigure()
	for range 1200 {
		see(at)
		at++
	}
	if j := see(at); j.Members[0].Leak || j.Device.Leak {
		t.Errorf("less than the least growth: %+v", j.Members[0])
	}
}

// What a leak under cycles has retained, and the lower envelope, do not swing with
// the cycles.
func TestCyclesDoNotSwingWhatIsLeaked(t *testing.T) {
	const begins = 3600
	s := newSeries(DefaultConfig())
	var v Verdict
	leaked, trough, seen := 0.0, 0.0, 0
	follow(s, 0, 4*3600, func(sec int) sample {
		return sample{used: 20*gib + float64(sec%120)*40*mib + float64(max(0, sec-begins))*mib}
	}, func(sec int) {
		s.verdict(&v)
		if !v.Leak {
			return
		}
		if v.Leaked.V < leaked-quantum || v.Trough.V < trough-quantum {
			t.Fatalf("second %d: %.0f MiB leaked after %.0f, trough at %.0f after %.0f", sec, v.Leaked.V/mib, leaked/mib, v.Trough.V/mib, trough/mib)
		}
		if lost := float64(sec-begins) * mib; v.Leaked.V > 1.1*lost+512*mib {
			t.Fatalf("second %d: %.0f MiB leaked of %.0f", sec, v.Leaked.V/mib, lost/mib)
		}
		leaked, trough, seen = v.Leaked.V, v.Trough.V, seen+1
	})
	if seen < 3600 || leaked < 0.8*float64(3*3600)*mib {
		t.Errorf("a leak in %d seconds, %.0f MiB in the end", seen, leaked/mib)
	}
}

// The end of a cycle from before the leak shows nothing of it: what outgrows its epochs has leaked.
func TestLeakThatOutgrowsItsEpochsHasLeaked(t *testing.T) {
	for _, length := range []int{600, 7200} {
		begins := 6 * length
		memory := func(s int) float64 {
			if s < begins {
				return epochs(length, 2*gib)(s)
			}
			return 12*gib + 2*mib*float64(s-begins)
		}
		g, seen := gauge(5, 80*gib), 0
		g.until(begins+3*length, memory, func() {
			if g.second <= begins || !g.leak.on {
				return
			}
			if seen++; g.leak.kept <= g.leak.base {
				t.Fatalf("epochs of %d s: nothing has leaked %d s after it began", length, g.second-begins)
			}
		})
		if seen == 0 {
			t.Errorf("epochs of %d s: no leak", length)
		}
	}
}

// TestLeakWithoutCompute leaks in a process that never uses the multiprocessors, as a server that holds
// memory for others: for an hour that may be a model that loads, and no longer.
func TestLeakWithoutCompute(t *testing.T) {
	for _, sm := range []float64{0, 0.5} {
		d, found := newDomain(t), -1
		for s := 0; s < quiet+2*3600 && found < 0; s++ {
			f := Frame[int]{T: start + time.Duration(s)*time.Second, Used: Of(round(10*gib + 8*leaked(s))), Capacity: Of(80 * gib), Complete: true}
			f.Members = []Member[int]{{Key: 1, Used: f.Used, Started: start - time.Hour, SM: Of(sm)}}
			j, err := look(d, &f)
			if err != nil {
				t.Fatal(err)
			}
			if j.Members[0].Leak {
				found = s - quiet
			}
		}
		if low, high := 3600, 3600+300; sm == 0 && (found < low || found > high) || sm > 0 && (found < 0 || found > 900) {
			t.Errorf("utilisation %g: found after %d s", sm, found)
		}
	}
}

// What was plain and stopped is held against others for a week from then, and not from the end of
// its process on, which may be days later.
func TestDoubtIsNotRenewedByTheEndOfAProcess(t *testing.T) {
	d, ends := newDomain(t), 86400
	var doubted int64
	for s := 0; s < ends+60; s += 10 {
		m := map[int]float64{2: 5 * gib}
		if s < ends {
			m[1] = round(10*gib + min(float64(s), 1500)*mib)
		}
		observe(t, d, s, 0, m)
		if s == ends/2 {
			doubted = d.used.doubted
		}
	}
	if doubted == 0 || d.used.doubted != doubted {
		t.Errorf("in doubt since %s, and then for %s more", time.Duration(doubted)-start, time.Duration(d.used.doubted-doubted))
	}
}

// acrossGap returns after how many seconds of growth at 5 MiB a second, which lasts for ramp
// seconds, a series is told that was quiet for some seconds and then not seen for gap seconds;
// 0 if it never is.
func acrossGap(before, gap, ramp int) int {
	s := newSeries(DefaultConfig())
	for sec := range before + 3600 {
		at := sec
		if sec >= before {
			at += gap
		}
		used := 20*gib + 5*mib*min(float64(max(0, sec-before)), float64(ramp))
		s.observe(&observation{t: int64(seconds2026(at)), used: int64(round(used)), interval: int64(time.Second), capacity: 80 * gib})
		if s.leak.on {
			return sec - before
		}
	}
	return 0
}

// What was not seen did not grow: an exporter that was away for a few minutes does not make a
// ramp of three minutes long enough for a leak, nor a new program old enough.
func TestGapIsNoGrowth(t *testing.T) {
	for _, gap := range []int{0, 180, 300, 600, 900} {
		if told := acrossGap(3600, gap, 180); told > 0 {
			t.Errorf("gap of %d s: a ramp of 3 minutes is a leak after %d s", gap, told)
		}
		if told := acrossGap(3600, gap, 1200); told < 420 || told > 720 {
			t.Errorf("gap of %d s: a leak is told after %d s", gap, told)
		}
	}
}

// A leak that filled the memory stays for a while when the program gives back what it held, but
// what is not in use any more is not leaked.
func TestNoMoreIsLeakedThanIsInUse(t *testing.T) {
	d, held := newDomain(t), 0
	for s := range 5200 {
		used := round(10*gib + 20*leaked(s))
		if used >= 78*gib || held > 0 {
			held++
			used = 12 * gib
		}
		j := observe(t, d, s, 0, map[int]float64{1: used})
		if m := &j.Members[0]; m.Leak && m.Leaked.V > used {
			t.Fatalf("%d s after it was given back: %g GiB are leaked of %g GiB", held, m.Leaked.V/gib, used/gib)
		}
	}
	if held == 0 {
		t.Error("the memory was never full")
	}
}
