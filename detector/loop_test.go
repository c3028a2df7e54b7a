// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// lifeOf is the n-th of a loop: a minute to load 10 GiB, and then growth for so long, at so many MiB/s.
func lifeOf(n int, lasted time.Duration, rate float64) *series.LifeGrowth {
	from := start + time.Duration(n)*time.Hour
	return &series.LifeGrowth{
		From: from, Onset: from + time.Minute, To: from + time.Minute + lasted, Lasted: lasted, Base: 10 * gib,
		Trend: stat.Trend{Rate: rate * mib, Wander: 4, N: 20},
	}
}

// looping returns a proven loop of three lives of ten minutes that gained 6 GiB each.
func looping() *crashLoop {
	var r crashLoop
	for n := range leastDeaths {
		r.add(lifeOf(n, 10*time.Minute, 10.24), 0)
	}
	return &r
}

// running returns a process that was first seen so long after the last life of r ended, lived for so long
// and holds that much, and so much more with each second.
func running(r *crashLoop, after, lived time.Duration, used, rate stat.Bytes) *series.Series {
	cfg := DefaultConfig()
	s := series.New(&cfg)
	first := r.last().To + after
	for t := first; t <= first+lived; t += 5 * time.Second {
		s.Observe(&series.Sample{T: t, Used: used + rate*stat.Bytes((t-first)/time.Second), Interval: 5 * time.Second, SM: Of(1), Full: &series.Fullness{}})
	}
	return s
}

// How many deaths make a loop: fewer where lives are alike, and only those that lasted for a while together.
func TestDeathsThatProveALoop(t *testing.T) {
	type grew struct {
		lasted time.Duration
		rate   float64
	}
	for _, c := range []struct {
		name  string
		lives []grew
		span  time.Duration // as long as any growth must last
		want  bool
	}{
		{"one", []grew{{time.Hour, 10}}, 0, false},
		{"two alike", []grew{{loopLasts / 2, 10}, {loopLasts / 2, 10 * alikeFactor}}, 0, true},
		{"two alike, the slower one later", []grew{{loopLasts / 2, 10 * alikeFactor}, {loopLasts / 2, 10}}, 0, true},
		{"too short", []grew{{loopLasts / 2, 10}, {loopLasts/2 - 1, 10}}, 0, false},
		{"unlike: faster", []grew{{loopLasts, 10}, {loopLasts, 10.1 * alikeFactor}}, 0, false},
		{"unlike: slower", []grew{{loopLasts, 10.1 * alikeFactor}, {loopLasts, 10}}, 0, false},
		{"three, however unlike", []grew{{loopLasts, 10}, {loopLasts, 20}, {loopLasts, 40}}, 0, true},
		{"three that are short", []grew{{time.Minute, 10}, {time.Minute, 20}, {time.Minute, 40}}, 0, false},
		{"as long as any must last", []grew{{loopLasts, 10}, {loopLasts, 10}}, 2 * loopLasts, true},
		{"not as long", []grew{{loopLasts, 10}, {loopLasts, 10}}, 2*loopLasts + 1, false},
		{"alike later", []grew{{loopLasts, 10}, {loopLasts, 20}, {loopLasts, 21}}, 0, true},
	} {
		var r crashLoop
		for n, g := range c.lives {
			r.add(lifeOf(n, g.lasted, g.rate), c.span)
		}
		if r.Proven != c.want || r.confidence() > 0 != c.want {
			t.Errorf("%s: %t, confidence %g", c.name, r.Proven, r.confidence())
		}
	}
}

// What follows from the lives: the median of rates and bases, what it is off by, and what the last one held.
func TestWhatALoopTells(t *testing.T) {
	var r crashLoop
	if r.held() != 0 || r.ended() != 0 || r.confidence() != 0 || !r.follows(start) {
		t.Error("an empty loop tells of lives")
	}
	r.add(lifeOf(0, time.Hour, 10), 0)
	if r.Trend.Variance != 0 || r.Trend.N != 1 {
		t.Errorf("one life: %+v", r.Trend)
	}
	r.reset()
	for n, rate := range []float64{10, 12, 20} {
		l := lifeOf(n, 10*time.Minute, rate)
		l.Base = stat.Bytes(n+1) * gib
		l.From -= time.Duration(2-n) * time.Minute // the first one took longest
		r.add(l, 0)
	}
	near(t, "rate", r.Trend.Rate, 12*mib, 1e-9)
	near(t, "variance: 2² and 8² of 2", r.Trend.Variance, 34*mib*mib, 1e-9)
	near(t, "wander", r.Trend.Wander, 4, 1e-9)
	if r.Base != 2*gib || r.Trend.N != 3 || r.Since != start-2*time.Minute || r.Lasted != 30*time.Minute || r.Longest != 13*time.Minute {
		t.Errorf("%+v", r)
	}
	near(t, "held: 3 GiB and 20 MiB/s for ten minutes", float64(r.held()), float64(3*gib+12000*mib), 1e-9)
	if end := r.ended(); end != r.last().To || r.follows(end) || !r.follows(end+1) {
		t.Error("who came before the end of the last one follows")
	}
	for n := 3; n < 100; n++ {
		r.add(lifeOf(n, 10*time.Minute, 40), 0)
	}
	near(t, "rate of the last ones", r.Trend.Rate, 40*mib, 1e-9)
	if r.Trend.N != keptLives || r.N != 100 || r.Since != start-2*time.Minute {
		t.Errorf("after a hundred: %d of %d lives, since %s", r.Trend.N, r.N, r.Since-start)
	}
}

// Each life more than are needed adds to the confidence, up to no doubt. A paused loop has none.
func TestConfidenceOfALoop(t *testing.T) {
	for n, want := range map[int]float64{2: 0.7, 3: 0.7, sureLives - 2: 0.8, sureLives - 1: 0.9, sureLives: 1, 50: 1} {
		r := crashLoop{N: n, Proven: true}
		near(t, "confidence", r.confidence(), want, 1e-9)
		if r.Paused = true; r.confidence() != 0 {
			t.Errorf("%d lives, paused: %g", n, r.confidence())
		}
	}
}

// A death that was none is taken back: what is a loop without it goes on.
func TestRevokedDeath(t *testing.T) {
	r := looping()
	r.Noted = start
	r.add(lifeOf(3, 10*time.Minute, 10), 0)
	if r.removeLast(); r.N != leastDeaths || !r.Proven {
		t.Errorf("of four: %d lives, proven %t", r.N, r.Proven)
	}
	if r.removeLast(); r.N != 0 || r.Proven || r.Noted != start || r.Lasted != 0 {
		t.Errorf("of three: %+v", r)
	}
}

// A loop is paused where nobody goes on with it for a while, goes on with one that grows again, and is
// forgotten after a day.
func TestPauseOfALoop(t *testing.T) {
	r0 := looping()
	const loaded = 5 * gib // half of the base
	more := time.Duration(outlives * float64(r0.Longest))
	grown := 10*gib + stat.Bytes(growsAgain*float64(r0.held()-10*gib))
	for _, c := range []struct {
		name   string
		at     time.Duration // after the last death
		used   stat.Bytes    // of who runs; 0 nobody does
		others stat.Bytes
		was    bool // paused
		paused bool
		n      int
	}{
		{"nobody, for a while", process.Absence - 1, 0, 0, false, false, 3},
		{"nobody, for longer", process.Absence, 0, 0, false, true, 3},
		{"one who holds little", process.Absence, loaded - 1, 0, false, false, 3},
		{"one who holds little, for long", process.Absence + more, loaded - 1, 0, false, true, 3},
		{"one who has loaded", process.Absence + more, loaded, 0, false, false, 3},
		{"one who has loaded after a pause", process.Absence + more, loaded, 0, true, true, 3},
		{"one who grows after a pause, a little", process.Absence, grown, 0, true, true, 3},
		{"one who grows", process.Absence, grown + 1, 0, true, false, 3},
		{"one who was there before may be the next", process.Absence, 0, loaded, false, false, 3},
		{"not one who holds little", process.Absence, 0, loaded - 1, false, true, 3},
		{"nobody for nearly a day", forgotten - 1, 0, 0, false, true, 3},
		{"nobody for a day", forgotten, 0, 0, false, false, 0},
		{"one who holds little for a day", forgotten, loaded - 1, 0, false, false, 0},
	} {
		r := looping()
		r.Paused = c.was
		var s *series.Series
		if c.used > 0 {
			s = running(r, c.at-time.Minute, time.Minute, c.used, 0)
		}
		if r.next(s, c.others, r.last().To+c.at); r.Paused != c.paused || r.N != c.n {
			t.Errorf("%s: paused %t, %d lives", c.name, r.Paused, r.N)
		}
	}
	var none crashLoop
	if none.next(nil, 0, start); none != (crashLoop{}) {
		t.Errorf("an empty one: %+v", none)
	}
}

// Who outlives a loop without growing ends it; who grows does not, and is looked at now and then.
func TestWhoOutlivesALoop(t *testing.T) {
	long := time.Duration(outlives * float64(looping().Longest))
	for _, c := range []struct {
		name  string
		lived time.Duration
		rate  stat.Bytes // per second
		n     int
	}{
		{"not yet", long, 0, 3},
		{"it does not grow", long + 5*time.Second, 0, 0},
		{"it grows", long + 5*time.Second, 10 * mib, 3},
	} {
		r := looping()
		s := running(r, time.Minute, c.lived, 10*gib, c.rate)
		now := s.Last
		if r.next(s, 0, now); r.N != c.n {
			t.Errorf("%s: %d lives", c.name, r.N)
		}
		if look := now + r.Longest/outliveLook; c.rate > 0 && r.Look != look {
			t.Errorf("%s: looked at again at %s", c.name, r.Look-now)
		}
	}
	r := looping()
	s := running(r, time.Minute, long+time.Minute, 10*gib, 0)
	r.Look = s.Last + 1
	if r.next(s, 0, s.Last); r.N != 3 {
		t.Error("it was looked at before its time")
	}
	if r.next(s, 0, r.Look); r.N != 0 {
		t.Error("it was not looked at")
	}
	r = &crashLoop{}
	r.add(lifeOf(0, 10*time.Minute, 10), 0)
	if r.next(running(r, time.Minute, time.Hour, 10*gib, 0), 0, r.last().To+2*time.Hour); r.N != 1 {
		t.Error("a chain that is no loop was ended")
	}
}
