// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// sure is growth of 1 GiB above 19 GiB of that confidence.
func sure(confidence float64) Growth {
	return Growth{Since: start + 4*time.Hour, Base: 19 * gib, Retained: gib, Levels: 20, Form: confidence, Kept: 1, Waited: 1, ToCome: stat.MaxBytes}
}

// When a leak is declared: of a series at rest, by what its scales say.
func TestALeakIsDeclared(t *testing.T) {
	cfg := defaults()
	threshold, clears := cfg.LeakThreshold, cfg.ClearThreshold()
	for _, c := range []struct {
		name       string
		change     func(s *Series)
		leaks      bool
		confidence float64
	}{
		{"nothing grows", func(*Series) {}, false, 0},
		{"a scale is sure enough", func(s *Series) { s.Growths[0] = sure(threshold) }, true, threshold},
		{"any scale", func(s *Series) { s.Growths[numScales-1] = sure(threshold) }, true, threshold},
		{"not quite", func(s *Series) { s.Growths[0] = sure(threshold - 0.01) }, false, threshold - 0.01},
		{"it slows down", func(s *Series) { s.Growths[0] = sure(1); s.Growths[0].ToCome = float64(s.Left) - 1 }, false, clears / 2},
		{"it slows down after the memory is full", func(s *Series) { s.Growths[0] = sure(1); s.Growths[0].ToCome = float64(s.Left) }, true, 1},
		{"it is as old as it must be", func(s *Series) { s.Growths[0], s.First = sure(1), s.Last-young }, true, 1},
		{"it is too young", func(s *Series) { s.Growths[0], s.First = sure(1), s.Last-young+1 }, false, 1},
		{"too few blocks have closed", func(s *Series) { s.Growths[0], s.Scales[0].Closed = sure(1), minLevels-1 }, false, 1},
	} {
		s := told(defaults())
		c.change(s)
		s.decide(&Fullness{})
		equal(t, s.Leaks(), c.leaks, "%s: leaks", c.name)
		about(t, c.name, s.Leak.Confidence, c.confidence)
	}
}

// Of several scales the surest speaks, and of those that are alike the narrowest.
func TestTheSurestScaleSpeaks(t *testing.T) {
	s := told(defaults())
	s.Growths[1], s.Growths[3], s.Growths[5] = sure(0.8), sure(0.9), sure(0.9)
	s.Growths[3].Since, s.Growths[3].Base = start+3*time.Hour, 18*gib
	s.decide(&Fullness{})
	if l := &s.Leak; l.Best != 3 || l.Since != start+3*time.Hour || l.Base != 18*gib || l.High != 19*gib {
		t.Errorf("%+v", s.Leak)
	}
}

// begun returns a series that has leaked from 19 GiB on for an hour, up to 20 GiB.
func begun() *Series {
	s := told(defaults())
	s.Growths[0] = sure(1)
	s.decide(&Fullness{})
	return s
}

// What keeps a leak and what ends it.
func TestALeakIsHeldOrEnds(t *testing.T) {
	cfg := defaults()
	clearAt := cfg.ClearThreshold()
	low := func(s *Series, v stat.Bytes) { s.Scales[0].alter(0, v) }
	quarter := stat.Bytes(retrace * float64(gib))
	for _, c := range []struct {
		name   string
		change func(s *Series, full *Fullness)
		leaks  bool
	}{
		{"it goes on", func(*Series, *Fullness) {}, true},
		{"less sure, but sure enough", func(s *Series, _ *Fullness) { s.Growths[0] = sure(clearAt) }, true},
		{"not sure enough", func(s *Series, _ *Fullness) { s.Growths[0] = sure(clearAt - 0.01) }, false},
		{"it slows down", func(s *Series, _ *Fullness) { s.Growths[0].ToCome = 0 }, false},
		{"no scale sees it", func(s *Series, _ *Fullness) { s.Growths[0] = Growth{} }, false},
		{"a quarter is given back", func(s *Series, _ *Fullness) { low(s, 20*gib-quarter) }, true},
		{"more than that", func(s *Series, _ *Fullness) { low(s, 20*gib-quarter-1) }, false},
		{"more, in the block that is open", func(s *Series, _ *Fullness) { s.Scales[0].N, s.Scales[0].Min = 1, 19*gib }, false},
		{"more, and the block that is open is higher", func(s *Series, _ *Fullness) { low(s, 19*gib); s.Scales[0].N, s.Scales[0].Min = 1, 20*gib }, false},
		{"it is too young again", func(s *Series, _ *Fullness) { s.First = s.Last }, false},
	} {
		s := begun()
		var full Fullness
		c.change(s, &full)
		s.decide(&full)
		equal(t, s.Leaks(), c.leaks, "%s: leaks", c.name)
		if s.ripe() && !s.Leaks() && (s.Leak.Confidence > clearAt || s.Leak.Since != 0 || s.Leak.Trend != stat.Trend{}) {
			t.Errorf("%s: %+v is left", c.name, s.Leak)
		}
	}
}

// A leak that has filled the memory stays for a while after the memory was full last: whoever empties a cache then has given nothing back.
func TestAFullMemoryHoldsALeak(t *testing.T) {
	for _, c := range []struct {
		name          string
		lately, until time.Duration // before now
		leaks         bool
	}{
		{"it is full", time.Minute, 0, true},
		{"it was full a while ago", time.Hour / 2, fullHold - 1, true},
		{"longer ago", time.Hour / 2, fullHold, false},
		{"it was full when the leak began", time.Hour, 0, false},
		{"just after that", time.Hour - 1, 0, true},
	} {
		for name, change := range map[string]func(s *Series){
			"no scale is sure":   func(s *Series) { s.Growths[0] = Growth{} },
			"half is given back": func(s *Series) { s.Scales[0].alter(0, 19*gib+gib/2) },
		} {
			s := begun()
			full := Fullness{Lately: s.Last - c.lately, Until: s.Last - c.until}
			change(s)
			s.decide(&full)
			equal(t, s.Leaks(), c.leaks, "%s, %s: leaks", c.name, name)
			if s.Leaks() && s.Leak.Confidence < s.cfg.ClearThreshold() {
				t.Errorf("%s, %s: held, with a confidence of %g", c.name, name, s.Leak.Confidence)
			}
		}
	}
}

// The give-back that ends a leak is a share of the highest level that it reached.
func TestTheHighestLevelOfALeakCounts(t *testing.T) {
	s := begun()
	s.Growths[0].Retained = 3 * gib
	s.Scales[0].alter(0, 22*gib)
	s.decide(&Fullness{})
	s.Growths[0].Retained = gib // a shorter growth of it
	s.decide(&Fullness{})
	equal(t, s.Leak.High, 22*gib, "high")
	s.Scales[0].alter(0, 21*gib) // a third of it
	s.decide(&Fullness{})
	if s.Leaks() {
		t.Error("it is not over")
	}
}

// The surest scale foresees a leak, by the troughs that are steady. What grew before the leak began is left out, up to half of
// them, where the rest tells the rate better.
func TestTheSurestScaleForesees(t *testing.T) {
	for _, c := range []struct {
		name   string
		levels []float64
		rate   float64 // MiB a block
		steady int
		points int
	}{
		{"all of it", ramp(40, 5000, 3), 3, 40, 40},
		{"what is not steady is left out", join(ramp(20, 1000, 100), ramp(20, 3000, 3)), 3, 20, 20},
		{"it was quiet before it began", join(flat(20, 5000), ramp(20, 5003, 3)), 3, 40, 20},
	} {
		s := told(defaults())
		for i := range s.Scales {
			s.Scales[i] = *climbing(ramp(40, 1000, 50), &Fullness{})
			s.Growths[i] = sure(0.9)
			s.Growths[i].Steady = 40
		}
		s.Scales[2], s.Growths[2] = *climbing(c.levels, &Fullness{}), sure(1)
		s.Growths[2].Steady, s.Leak.Best = c.steady, 2
		s.fit()
		l := &s.Leak
		if l.TrendScale != 2 || l.Trend.N != c.points {
			t.Errorf("%s: scale %d foresees by %d troughs, want %d", c.name, l.TrendScale, l.Trend.N, c.points)
		}
		about(t, c.name, l.Trend.Rate, c.rate*float64(mib)/narrowest.Seconds())
	}
}

// A leak that stands still for much longer than it ever did is over; one whose memory goes up and down does
// not stand still. The narrowest scale that has seen all of it tells.
func TestALeakThatStandsStill(t *testing.T) {
	span := int(defaults().MinSpan / narrowest)
	q := float64(quantum) / float64(mib)
	rest := span/restTimes + 2 // blocks
	for _, c := range []struct {
		name   string
		levels []float64
		stands bool
	}{
		{"it grows", ramp(60, 1000, 10), false},
		{"it has stood for as long as any may", join(ramp(20, 1000, 10), flat(span, 1190)), false},
		{"for longer", join(ramp(20, 1000, 10), flat(span+1, 1190)), true},
		{"but for less than a quantum", join(ramp(20, 1000, 10), ramp(span+1, 1190, 0.9*q/float64(span))), true},
		{"it goes down a bit", join(ramp(20, 1000, 10), flat(span-1, 1190), mibs(1190-q, 1190-q)), false},
		{"it rested for nearly as long before", join(steps(2, rest, 1000, 100), flat(restTimes*rest+1, 1200)), false},
		{"for much longer than ever", join(steps(2, rest, 1000, 100), flat(restTimes*rest+2, 1200)), true},
	} {
		s := told(defaults())
		s.Scales[0] = *climbing(c.levels, &Fullness{})
		s.Scales[1] = *climbing(c.levels, &Fullness{})
		s.Leak.Since, s.Last = block(1), s.Scales[0].Troughs.Last().At
		if got := s.goesOn(); got == c.stands {
			t.Errorf("%s: goes on: %t", c.name, got)
		}
		s.Scales[0] = *climbing(ramp(2*scaleBlocks, 1000, 10), &Fullness{}) // it has not seen the begin
		if got := s.goesOn(); got == c.stands {
			t.Errorf("%s, at the next scale: goes on: %t", c.name, got)
		}
		for i := range s.Scales {
			s.Scales[i].Troughs, s.Scales[i].Closed = pointsOf(stat.Point{At: s.Last, V: s.Scales[i].Troughs.First().V}), 1000
		}
		if !s.goesOn() {
			t.Errorf("%s: it stands, and nobody has seen it", c.name)
		}
	}
}

// A line is laid anew with a new trough, and not before; one that does not rise foresees nothing.
func TestTheLineOfALeakIsKept(t *testing.T) {
	s := told(defaults())
	s.Growths[0] = Growth{Steady: 16}
	s.Scales[0] = *climbing(ramp(40, 1000, 10), &Fullness{})
	s.fit()
	first := s.Leak.Trend
	s.Scales[0].alter(39, s.Scales[0].Troughs.Last().V+10*gib)
	if s.fit(); s.Leak.Trend != first {
		t.Error("it is another one without a new trough")
	}
	s.Scales[0].Closed++
	if s.fit(); s.Leak.Trend.Rate <= first.Rate {
		t.Errorf("with a new trough the rate is %g, before %g", s.Leak.Trend.Rate, first.Rate)
	}
	first = s.Leak.Trend
	s.Scales[0] = *climbing(ramp(41, 1000, -10), &Fullness{})
	s.Scales[0].Closed = 50
	s.fit()
	equal(t, s.Leak.Trend, first, "a line that falls")
}

// The whole way: quiet, growth, a leak, its end. It is declared once it has lasted, and soon after. The
// time is from the begin of growth.
func TestALeakFromItsBeginToItsEnd(t *testing.T) {
	cfg := defaults()
	for _, every := range []time.Duration{time.Second, 5 * time.Second, 15 * time.Second, time.Minute} {
		w := watching(cfg, every)
		const quiet, grows = time.Hour, 30 * time.Minute
		var found time.Duration
		w.look = func() {
			if w.Leaks() && found == 0 {
				found = w.now - quiet
			}
		}
		w.watch(quiet+grows, leaking(40000, quiet, 2))
		if found < cfg.MinSpan || found > cfg.MinSpan+6*time.Minute {
			t.Fatalf("every %s: found after %s", every, found)
		}
		var v Verdict
		w.Judge(&v)
		if !v.Judged || !v.Leak || v.Confidence < cfg.LeakThreshold || !v.Pattern.Leaks() || v.Withheld != WithheldNone {
			t.Errorf("every %s: %+v", every, v)
		}
		// The trough is the lowest of a block, so that it lies behind by a minute at most, and the begin too.
		if off := v.Since - start - quiet; off < -2*time.Minute || off > 2*time.Minute {
			t.Errorf("every %s: since %s from its begin", every, off)
		}
		if want := 2 * grows.Seconds() * float64(mib); v.Leaked.V < 0.9*want || v.Leaked.V > want {
			t.Errorf("every %s: %.0f MiB leaked", every, v.Leaked.V/float64(mib))
		}
		if want := 2 * float64(mib); v.Rate.V < 0.98*want || v.Rate.V > 1.02*want {
			t.Errorf("every %s: %.3f MiB/s", every, v.Rate.V/float64(mib))
		}
		w.watch(5*time.Minute, steadily(41000)) // it gives back 2600 of 3600 MiB
		if w.Judge(&v); v.Leak || v.Rate.OK || v.Leaked.OK || v.Since != 0 {
			t.Errorf("every %s: given back, but %+v", every, v)
		}
	}
}
