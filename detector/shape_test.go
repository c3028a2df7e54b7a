// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Each pattern that the memory of one series shows, at the given second.
func TestPatterns(t *testing.T) {
	rng := rand.New(rand.NewPCG(81, 82))
	constant := func(int) float64 { return 10 * gib }
	busy := func(int) Value { return Of(0.9) }
	for _, c := range []struct {
		name   string
		memory func(sec int) float64
		sm     func(sec int) Value
		at     int
		want   Pattern
	}{
		{"too young", constant, busy, 200, PatternUnknown},
		{"constant", constant, busy, 3600, PatternStable},
		{"jitter below a quantum", func(sec int) float64 { return 10*gib + float64(sec%2)*mib }, busy, 3600, PatternStable},
		{"nothing computed for ten minutes", constant, func(int) Value { return Of(0) }, 3600, PatternIdle},
		{"for nine", constant, func(sec int) Value { return Of(float64(btoi(sec < 3060))) }, 3600, PatternStable},
		{"utilisation not known", constant, func(int) Value { return Value{} }, 3600, PatternStable},
		{"a model that loads", func(sec int) float64 { return 2*gib + min(float64(sec)*8*mib, 20*gib) }, busy, 900, PatternWarmup},
		{"a cache that fills", func(sec int) float64 { return 2*gib + 20*gib*(1-math.Exp(-float64(sec)/600)) }, busy, 1500, PatternWarmup},
		{"and has filled", func(sec int) float64 { return 2*gib + 20*gib*(1-math.Exp(-float64(sec)/600)) }, busy, 9000, PatternPlateau},
		{"and has filled, long ago", func(sec int) float64 { return 2*gib + 20*gib*(1-math.Exp(-float64(sec)/600)) }, busy, 80000, PatternPlateau},
		{"one step", func(sec int) float64 { return 10*gib + float64(btoi(sec > 2000))*5*gib }, busy, 3600, PatternStep},
		{"a step down", func(sec int) float64 { return 10*gib - float64(btoi(sec > 2000))*5*gib }, busy, 3600, PatternStep},
		{"batches of a minute", func(sec int) float64 { return 10*gib + float64(sec%60)*100*mib }, busy, 3600, PatternSawtooth},
		{"requests all the time", func(int) float64 { return 10*gib + float64(rng.IntN(200))*40*mib }, busy, 3600, PatternSawtooth},
		{"it was one", func(sec int) float64 { return 10*gib + float64(btoi(sec < 1800))*float64(sec%60)*100*mib }, busy, 3600, PatternStep},
		{"tuning now and then", func(sec int) float64 { return 10*gib + float64(btoi(sec%100 < 2))*4*gib }, busy, 3600, PatternSpikes},
		{"twice", func(sec int) float64 { return 10*gib + float64(btoi(sec == 3000 || sec == 3300))*4*gib }, busy, 3600, PatternStable},
		{"a MiB a second", func(sec int) float64 { return 10*gib + leaked(sec) }, busy, 3600, PatternLeakLinear},
		{"for a day", func(sec int) float64 { return 10*gib + leaked(sec)/2 }, busy, 60000, PatternLeakLinear},
		{"100 MiB a minute at once", func(sec int) float64 { return 10*gib + float64(max(0, sec-quiet)/60)*100*mib }, busy, 3600, PatternLeakStaircase},
		{"under batches", func(sec int) float64 { return 10*gib + float64(sec%30)*200*mib + leaked(sec) }, busy, 3600, PatternLeakCyclic},
	} {
		s := newSeries(DefaultConfig())
		follow(s, 0, c.at+1, func(sec int) sample { return sample{c.memory(sec), c.sm(sec)} }, nil)
		var v Verdict
		if s.verdict(&v); v.Pattern != c.want || v.Leak != c.want.leaks() {
			t.Errorf("%s: %q, want %q", c.name, v.Pattern, c.want)
		}
	}
}

// Where each pattern begins and ends, of a flat series but for what is said.
func TestWhereAPatternEnds(t *testing.T) {
	const length = 600 // of a cycle, ticks
	// cycling is in cycles, of which the last one ended so many lengths ago.
	cycling := func(s *series, ago float64) {
		s.ladder[cycleScale].closed, s.cycles.length = 3, length
		s.cycles.last = ticks(s.last-s.first) - int32(ago*length)
	}
	grows := growth{levels: 20, recency: 1, pace: 1}
	for _, c := range []struct {
		name   string
		change func(s *series)
		want   Pattern
	}{
		{"nothing", func(*series) {}, PatternStable},
		{"grows under cycles at 29 minutes", func(s *series) { cycling(s, 1); s.growths[0] = grows; s.began = s.last - 29*60e9 }, PatternWarmup},
		{"at 31 minutes", func(s *series) { cycling(s, 1); s.growths[0] = grows; s.began = s.last - 31*60e9 }, PatternSawtooth},
		{"grows ever slower at 31 minutes", func(s *series) {
			cycling(s, 1)
			s.growths[0] = growth{levels: 20, recency: 1, pace: 0.99}
			s.began = s.last - 31*60e9
		}, PatternWarmup},
		{"two spikes", func(s *series) { s.windows[0].spikes = 2 }, PatternStable},
		{"three", func(s *series) { s.windows[0].spikes = 3 }, PatternSpikes},
		{"three, nearly half of the time", func(s *series) { s.windows[0].spikes, s.spikes.duty = 3, 0.49 }, PatternSpikes},
		{"three, half of the time", func(s *series) { s.windows[0].spikes, s.spikes.duty = 3, 0.5 }, PatternSawtooth},
		{"one that takes less than half of the time", func(s *series) { s.spikes.duty = 0.49 }, PatternStable},
		{"two cycles", func(s *series) { cycling(s, 1); s.ladder[cycleScale].closed = 2 }, PatternStable},
		{"three cycles", func(s *series) { cycling(s, 1) }, PatternSawtooth},
		{"none for nearly three lengths", func(s *series) { cycling(s, 2.9) }, PatternSawtooth},
		{"none for more than three", func(s *series) { cycling(s, 3.1) }, PatternStable},
		{"growth at any scale", func(s *series) { s.growths[2] = grows }, PatternWarmup},
		{"growth of the level alone", func(s *series) { s.growths[levelScale] = grows }, PatternStable},
		{"a line that noise may draw", func(s *series) { s.growths[2] = grows; s.growths[2].fitted = true }, PatternStable},
	} {
		s := scripted()
		c.change(s)
		if got := s.fitting(s.last); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// What the steps and the cycles of a leak of 16 MiB a cycle must be to give it their name.
func TestNamesOfLeaks(t *testing.T) {
	for _, c := range []struct {
		name  string
		flat  float64 // share of the blocks without growth
		step  float64 // MiB
		swing float64 // of a cycle, MiB; 0: no cycles
		want  Pattern
	}{
		{"steps of 8 MiB", 0.5, 8, 0, PatternLeakStaircase},
		{"lower ones", 0.5, 7.9, 0, PatternLeakLinear},
		{"with little between them", 0.49, 8, 0, PatternLeakLinear},
		{"cycles that swing by more than four times as much", 0.5, 8, 65, PatternLeakCyclic},
		{"cycles that swing by less", 0.5, 8, 63, PatternLeakStaircase},
	} {
		s := scripted()
		s.leak.on, s.leak.trend.rate = true, 16*mib/60.0
		s.growths[0] = growth{levels: 20, flat: c.flat, step: c.step * mib}
		if c.swing > 0 {
			s.ladder[cycleScale].closed = 3
			s.cycles = cycles{last: ticks(s.last - s.first), length: 600, size: c.swing * oneMiB}
		}
		if got := s.fitting(s.last); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A pattern stays for a minute at least, but for the one that tells a leak.
func TestPatternsHold(t *testing.T) {
	rng := rand.New(rand.NewPCG(83, 84))
	s := newSeries(DefaultConfig())
	changes, leaks, last, at := 0, 0, PatternUnknown, 0
	used := 10.0 * gib
	follow(s, 0, 40000, func(sec int) sample {
		switch sec / 1000 % 5 { // now this, now that
		case 0:
			used += float64(rng.IntN(10)) * mib
		case 1:
			used -= float64(rng.IntN(10)) * mib
		case 2:
			used = 10*gib + float64(sec%40)*100*mib
		case 4:
			used = 10*gib + float64(btoi(sec%50 < 3))*4*gib
		}
		if sec > 30000 {
			used = 10*gib + float64(max(0, min(sec, 35000)-32000))*8*mib
		}
		used = max(used, gib)
		return sample{used: used}
	}, func(sec int) {
		p := s.shape.pattern
		if p.leaks() != s.leak.on && s.judged() {
			t.Fatalf("second %d: %q, a leak: %t", sec, p, s.leak.on)
		}
		if p == last {
			return
		}
		changes++
		leaks += btoi(p.leaks())
		if held := time.Duration(sec-at) * time.Second; held < time.Minute && p.leaks() == last.leaks() {
			t.Errorf("second %d: %q for %s, then %q", sec, last, held, p)
		}
		last, at = p, sec
	})
	if changes < 10 || leaks == 0 {
		t.Errorf("only %d changes, %d leaks: the test shows little", changes, leaks)
	}
}

// A pattern waits for the end of its minute; a leak waits for nothing.
func TestPatternThatWaits(t *testing.T) {
	s := scripted()
	if s.shape.pattern != PatternStable {
		t.Fatalf("pattern %q", s.shape.pattern)
	}
	since := s.last
	s.shape = shape{pattern: PatternSawtooth, since: since}
	for _, c := range []struct {
		after int64 // s
		on    bool
		want  Pattern
	}{
		{1, false, PatternSawtooth},
		{59, false, PatternSawtooth},
		{60, false, PatternStable},
		{61, true, PatternLeakLinear},
		{62, false, PatternStable},
	} {
		s.leak.on = c.on
		s.shape.update(s, since+c.after*1e9)
		if s.shape.pattern != c.want {
			t.Errorf("after %d s: %q, want %q", c.after, s.shape.pattern, c.want)
		}
	}
}

// A leak whose growth no scale shows any more, because it pauses, keeps its name.
func TestPausingLeakKeepsItsPattern(t *testing.T) {
	for _, p := range []Pattern{PatternLeakLinear, PatternLeakStaircase, PatternLeakCyclic} {
		s := scripted()
		s.leak.on, s.shape = true, shape{pattern: p}
		s.shape.update(s, s.last)
		if s.shape.pattern != p {
			t.Errorf("%q becomes %q", p, s.shape.pattern)
		}
	}
}
