// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// Before it is ripe a series is not judged, but its statistics are given.
func TestAYoungSeriesIsNotJudged(t *testing.T) {
	w := watching(defaults(), time.Second)
	var v Verdict
	if w.Judge(&v); v.Judged || v.Trough.OK {
		t.Errorf("without a sample: %+v", v)
	}
	w.watch(young, steadily(10000))
	if w.Judge(&v); v.Judged || !v.Trough.OK || v.Windows[0].N == 0 {
		t.Errorf("young: %+v", v)
	}
	w.watch(time.Second, steadily(10000))
	if w.Judge(&v); !v.Judged {
		t.Error("old enough, and not judged")
	}
}

// Growth that is suspected but must wait says for how long, and why; what is not suspected says nothing.
func TestWithheldVerdicts(t *testing.T) {
	cfg := defaults()
	clearAt := cfg.ClearThreshold()
	waits := Growth{Levels: 20, Form: 1, Kept: 1, Waited: 0.3, Lasted: 20 * time.Minute, Need: time.Hour, Reason: WithheldProgramBegin, ToCome: stat.MaxBytes}
	for _, c := range []struct {
		name   string
		change func(s *Series, g *Growth)
		want   Withheld
		lasted time.Duration
	}{
		{"it waits", func(*Series, *Growth) {}, WithheldProgramBegin, 20 * time.Minute},
		{"it has waited", func(_ *Series, g *Growth) { g.Lasted = g.Need }, WithheldNone, 0},
		{"its form speaks against it", func(_ *Series, g *Growth) { g.Form = clearAt - 0.01 }, WithheldNone, 0},
		{"hardly", func(_ *Series, g *Growth) { g.Form = clearAt }, WithheldProgramBegin, 20 * time.Minute},
		{"a give-back does", func(_ *Series, g *Growth) { g.Kept = clearAt - 0.01 }, WithheldNone, 0},
		{"it slows down", func(s *Series, g *Growth) { g.Lasted, g.ToCome = time.Hour, float64(s.Left)-1 }, WithheldSlowing, time.Hour},
		{"the other reason first", func(_ *Series, g *Growth) { g.ToCome = 0 }, WithheldProgramBegin, 20 * time.Minute},
		{"it slows down, and fills the memory", func(s *Series, g *Growth) { g.Lasted, g.ToCome = time.Hour, float64(s.Left) }, WithheldNone, 0},
		{"of a memory that nobody knows", func(s *Series, g *Growth) { g.Lasted, g.ToCome, s.Capacity = time.Hour, 0, 0 }, WithheldNone, 0},
		{"it leaks", func(s *Series, _ *Growth) { s.Leak.On = true }, WithheldNone, 0},
	} {
		s := told(defaults())
		s.Leak.Best, s.Growths[2] = 2, waits
		c.change(s, &s.Growths[2])
		var v Verdict
		s.Judge(&v)
		left := waits.Need - c.lasted
		switch c.want {
		case WithheldNone:
			left = 0
		case WithheldSlowing:
			left = Forever
		}
		if v.Withheld != c.want || v.Lasted != c.lasted || v.WithheldFor != left {
			t.Errorf("%s: %q, lasted %s, %s more", c.name, v.Withheld, v.Lasted, v.WithheldFor)
		}
	}
}

// What leaked is above the level at which the leak began, up to what is held now.
func TestLeakedMemory(t *testing.T) {
	for _, c := range []struct {
		name               string
		base, trough, used stat.Bytes
		want               stat.Bytes
	}{
		{"up to the trough", 10 * gib, 15 * gib, 18 * gib, 5 * gib},
		{"less is held by now", 10 * gib, 15 * gib, 12 * gib, 2 * gib},
		{"all was given back", 10 * gib, 15 * gib, 9 * gib, 0},
	} {
		s := told(defaults())
		s.Leak = Leak{On: true, Base: c.base}
		s.Used = c.used
		s.Scales[0].alter(0, c.trough)
		var v Verdict
		s.Judge(&v)
		equal(t, v.Leaked, stat.Of(float64(c.want)), "%s: leaked", c.name)
	}
}

// Its owner began when it says, but not after the first sample; where it does not say, with that.
func TestBeginOfASeries(t *testing.T) {
	for _, c := range []struct{ started, want time.Duration }{
		{0, start}, {start - time.Hour, start - time.Hour}, {start + time.Hour, start},
	} {
		s := New(defaults())
		s.Observe(&Sample{T: start, Used: gib, Interval: time.Second, Started: c.started, Full: &Fullness{}})
		if s.Began != c.want || s.First != start {
			t.Errorf("started at %s: began at %s", c.started, s.Began)
		}
	}
}

// When it computed: any use is, but the first work must be more than a trace. What is not known may have been.
func TestWhenItComputed(t *testing.T) {
	for _, c := range []struct {
		name         string
		sm           stat.Value
		busy, worked bool
	}{
		{"nothing", stat.Of(0), false, false},
		{"a trace", stat.Of(busySM / 2), true, false},
		{"work", stat.Of(busySM), true, true},
		{"not known", stat.Value{}, true, false},
	} {
		w := watching(defaults(), time.Second)
		w.sample.SM = stat.Of(0)
		w.watch(time.Minute, steadily(1000))
		w.sample.SM = c.sm
		w.watch(time.Second, steadily(1000))
		if busy := w.BusyAt == w.Last; busy != c.busy || w.WorkedAt > 0 != c.worked {
			t.Errorf("%s: busy at %s, worked at %s", c.name, w.BusyAt-start, w.WorkedAt)
		}
		if w.rested(start+time.Second) == (c.busy || c.worked) {
			t.Errorf("%s: it rested: %t", c.name, w.rested(start+time.Second))
		}
	}
}

// A window does not count a gap as watched, and a spike may be as long as three samples.
func TestSparseSamples(t *testing.T) {
	w := watching(defaults(), time.Minute)
	w.watch(time.Hour, steadily(10000))
	w.now += 30 * time.Minute
	w.watch(time.Minute, steadily(10000))
	if fill := w.Windows[1].Fit().Fill; fill < 0.5 || fill > 0.6 { // of the last hour a half, and the most that is no gap
		t.Errorf("%g of the hour are filled", fill)
	}
	w.watch(time.Hour, steadily(10000))
	w.watch(2*time.Minute, steadily(20000))
	w.watch(2*time.Minute, steadily(10000))
	equal(t, w.Total, 1, "spikes")
}
