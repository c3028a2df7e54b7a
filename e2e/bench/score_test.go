// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

const gib = 1 << 30

// fake is a rule whose alarms are known, in minutes, and which always foretells the same.
type fake struct {
	alarms            [][2]int
	eta, lower, upper float64
	who               named
}

// minutesOf is the time of minute m.
func minutesOf(m int) time.Duration { return time.Duration(m) * time.Minute }

// score runs it past a GPU of 10 GiB that is watched for so many minutes, 6 GiB of it free.
func (f fake) score(truth fleet.Truth, length int) outcome {
	r := &record{said: make([][]answer, 1)}
	for m := 1; m <= length; m++ {
		on := slices.ContainsFunc(f.alarms, func(a [2]int) bool { return a[0] <= m && m < a[1] })
		r.minutes = append(r.minutes, minute{minutesOf(m), 4 * gib, 10 * gib})
		r.said[0] = append(r.said[0], answer{leak: on, ticket: on, eta: f.eta, lower: f.lower, upper: f.upper, who: f.who})
	}
	return score(&watched{truth: truth, length: minutesOf(length), listed: true, records: []*record{r}}, 0)
}

// culprit is the process that leaks in leakTruth.
var culprit = gpu.ProcessID{PID: 7, Start: 70}

// leakTruth leaks 1 MiB/s from 60 until 180 minutes, and is visible at 62, and out of memory then.
func leakTruth() fleet.Truth {
	return fleet.Truth{
		Length: minutesOf(300),
		Leaks: []fleet.LeakTruth{{
			Processes: []gpu.ProcessID{culprit}, Group: "pod", From: minutesOf(60), Until: minutesOf(180), Rate: 1 << 20,
			Visible: true, VisibleAt: minutesOf(62), Fatal: true,
		}},
		OOMs: []fleet.OOM{{T: minutesOf(180), Process: culprit, Growth: minutesOf(120)}},
	}
}

func TestFound(t *testing.T) {
	for _, c := range []struct {
		name     string
		alarms   [][2]int
		found    int // minute, -1 for never
		early    bool
		inTime   bool
		episodes int // false ones
	}{
		{"no alarm", nil, -1, false, false, 0},
		{"stays on", [][2]int{{70, 400}}, 70, false, true, 0},
		{"off after 9 min", [][2]int{{70, 79}}, -1, false, false, 0},
		{"on for 10 min", [][2]int{{70, 80}}, 70, false, true, 0},
		{"off and on again", [][2]int{{70, 72}, {75, 90}}, 75, false, true, 0},
		{"before the onset", [][2]int{{30, 400}}, -1, true, false, 1},
		{"before and after", [][2]int{{30, 40}, {90, 400}}, 90, true, false, 1},
		{"until the out-of-memory", [][2]int{{175, 180}}, 175, false, false, 0},
		{"a moment after the end", [][2]int{{185, 300}}, -1, false, false, 0},
		{"long after the end", [][2]int{{195, 300}}, -1, false, false, 1},
	} {
		o := fake{alarms: c.alarms, eta: math.NaN()}.score(leakTruth(), 300)
		want := minutesOf(c.found)
		if c.found < 0 {
			want = never
		}
		if l := o.leaks[0]; l.found != want || l.inTime != c.inTime || !l.rated || o.early != c.early || o.episodes != c.episodes {
			t.Errorf("%s: found %s, in time %t, early %t, %d episodes", c.name, l.found, l.inTime, o.early, o.episodes)
		}
	}
}

// A quarter of 6 GiB at 1 MiB/s is gone after 25 min 36 s.
func TestInTime(t *testing.T) {
	for begin, want := range map[int]bool{85: true, 86: false} {
		if o := (fake{alarms: [][2]int{{begin, 400}}}).score(leakTruth(), 300); o.leaks[0].inTime != want {
			t.Errorf("in minute %d: %t", begin, !want)
		}
	}
}

// Two leaks of one memory are each found, and what does not show is not asked for.
func TestTwoLeaks(t *testing.T) {
	truth := leakTruth()
	second := truth.Leaks[0]
	second.From, second.Until = minutesOf(100), minutesOf(300)
	hidden := second
	hidden.Visible = false
	other := second
	other.Instance = gpu.Some[uint32](1)
	truth.Leaks = append(truth.Leaks, second, hidden, other)
	o := fake{alarms: [][2]int{{70, 400}}}.score(truth, 300)
	again, other2 := truth.OOMs[0], truth.OOMs[0]
	again.Again, other2.Leak = true, -1
	if list := distinct(append(truth.OOMs, again, other2)); len(list) != 1 {
		t.Errorf("%d out-of-memories", len(list))
	}
	if len(o.leaks) != 2 || o.leaks[0].delay != minutesOf(10) || o.leaks[1].delay != 0 || o.leaks[1].found != minutesOf(100) {
		t.Errorf("%+v", o.leaks)
	}
	// From minute 310 on none leaks, 10 minutes after the end.
	if o.free != 1 {
		t.Errorf("%g hours without a leak, want those before the first", o.free)
	}
}

func TestNamed(t *testing.T) {
	nobody := leakTruth()
	nobody.Leaks[0].Processes = nil
	for _, c := range []struct {
		name  string
		truth fleet.Truth
		who   named
		want  bool
	}{
		{"the process", leakTruth(), named{ok: true, id: culprit}, true},
		{"a later one of its number", leakTruth(), named{ok: true, id: gpu.ProcessID{PID: 7, Start: 71}}, false},
		{"the pod", leakTruth(), named{ok: true, group: "pod"}, true},
		{"another pod", leakTruth(), named{ok: true, group: "other"}, false},
		{"nobody", leakTruth(), named{ok: true}, false},
		{"none", leakTruth(), named{}, false},
		{"memory of no process", nobody, named{ok: true}, true},
		{"a process for that of none", nobody, named{ok: true, id: culprit}, false},
	} {
		o := fake{alarms: [][2]int{{70, 400}}, who: c.who}.score(c.truth, 300)
		if got := o.leaks[0].named; got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// The half-life is minute 120, one hour before the end; the first alarm comes 90 minutes before it.
func TestForecast(t *testing.T) {
	inf, nan := math.Inf(1), math.NaN()
	for _, c := range []struct {
		eta, lower, upper float64
		half, first       forecast
	}{
		{3600, 1800, 5400, forecast{true, true, 0, true, 1}, forecast{true, true, 1.0 / 3, true, 2.0 / 3}},
		{2700, 1800, 3000, forecast{true, true, 0.25, false, 1.0 / 3}, forecast{true, true, 0.5, false, 2.0 / 9}},
		{3600, nan, nan, forecast{true, true, 0, false, inf}, forecast{true, true, 1.0 / 3, false, inf}},
		{inf, inf, inf, forecast{true, false, 1, false, inf}, forecast{true, false, 1, false, inf}},
		{nan, nan, nan, forecast{true, false, 1, false, inf}, forecast{true, false, 1, false, inf}},
	} {
		o := fake{alarms: [][2]int{{90, 400}}, eta: c.eta, lower: c.lower, upper: c.upper}.score(leakTruth(), 300)
		if l := o.leaks[0]; l.half != c.half || l.first != c.first {
			t.Errorf("%g (%g to %g): %+v and %+v", c.eta, c.lower, c.upper, l.half, l.first)
		}
	}
	short := leakTruth()
	short.OOMs[0].Growth = held - 1
	if o := (fake{alarms: [][2]int{{90, 400}}, eta: 1}).score(short, 300); o.leaks[0].half.due || o.leaks[0].first.due {
		t.Error("a forecast of a growth that is too short, or that began after the alarm")
	}
}

// TestPages pages as the mixin does: a leak, memory full within the hour, and that for three minutes.
func TestPages(t *testing.T) {
	for _, c := range []struct {
		name           string
		alarms         [][2]int
		eta            float64
		lead           time.Duration
		pages, tickets int // false ones
	}{
		{"within the hour", [][2]int{{90, 400}}, 3599, minutesOf(87), 0, 0},
		{"in an hour", [][2]int{{90, 400}}, 3600, never, 0, 0},
		{"never", [][2]int{{90, 400}}, math.Inf(1), never, 0, 0},
		{"not told", [][2]int{{90, 400}}, math.NaN(), never, 0, 0},
		{"for three minutes", [][2]int{{177, 180}}, 60, never, 0, 0},
		{"just then", [][2]int{{177, 190}}, 60, 0, 0, 0},
		{"ended before, and kept", [][2]int{{150, 171}}, 60, minutesOf(27), 0, 0},
		{"ended long before", [][2]int{{150, 165}}, 60, never, 0, 0},
		{"interrupted", [][2]int{{150, 160}, {165, 166}}, 60, never, 0, 0},
		{"interrupted, and kept", [][2]int{{150, 160}, {169, 171}}, 60, minutesOf(27), 0, 0},
		{"since before the leak", [][2]int{{20, 400}}, 60, never, 1, 1},
		{"before it", [][2]int{{20, 30}}, 60, never, 1, 0},
	} {
		o := fake{alarms: c.alarms, eta: c.eta}.score(leakTruth(), 300)
		if got := o.ooms[0]; got.lead != c.lead || o.pages != c.pages || o.tickets != c.tickets {
			t.Errorf("%s: paged %s before, %d false pages, %d tickets", c.name, got.lead, o.pages, o.tickets)
		}
	}
}

// TestFillsUp has a page for a memory that fills up without a leak: it is false unless memory runs out within the hour.
func TestFillsUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails int // minute at which a program fails to allocate; 0 never
		pages int
	}{{"nothing fails", 0, 1}, {"it fails", 40, 0}, {"it fails long after", 200, 1}} {
		w := watched{length: minutesOf(300)}
		if c.fails > 0 {
			w.truth.OOMs = []fleet.OOM{{T: minutesOf(c.fails), Leak: -1}}
		}
		r := &record{said: make([][]answer, 1)}
		for i := range 300 {
			r.minutes = append(r.minutes, minute{t: minutesOf(i)})
			r.said[0] = append(r.said[0], answer{fills: i >= 20 && i < 250, eta: math.NaN()})
		}
		var o outcome
		newScorer(&w, r, 0, nil).count(&o)
		if o.pages != c.pages {
			t.Errorf("%s: %d false pages, want %d", c.name, o.pages, c.pages)
		}
	}
}

func TestCost(t *testing.T) {
	p := defaultPrices
	for lead, want := range map[time.Duration]float64{never: 100, 0: 100, 15 * time.Minute: 52.5, 30 * time.Minute: 5, 9 * time.Hour: 5} {
		if got := p.ofOOM(lead); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %g, want %g", lead, got, want)
		}
	}
	// One leak with a page in time, one with none; on the healthy GPU, of 100 days, a page and two tickets.
	var f figures
	f.add(fleet.Leak, &outcome{ooms: []oomOutcome{{0, time.Hour, time.Hour, never}, {0, time.Hour, time.Hour, never}, {1, never, 15 * time.Minute, never}}}, p)
	f.add(fleet.Healthy, &outcome{free: 2400, pages: 1, tickets: 2}, p)
	cost, best := f.cost(p), f.best()
	if want := 20*52.5 + 10*10 + 20*1; math.Abs(cost-want) > 1e-9 || math.Abs(best-20*(5+52.5)/2) > 1e-9 {
		t.Errorf("cost %g, want %g; oracle %g", cost, want, best)
	}
	if f.ooms != 3 || f.paged != 2 || f.ahead != 2 || f.ahead3 != 2 {
		t.Errorf("%+v", f)
	}
}

func TestQuantiles(t *testing.T) {
	list := []float64{4, 1, 3, 2}
	if median(list) != 2.5 || quantile(list, 0.5) != 2 || quantile(list, 0.9) != 4 || median([]float64{}) != 0 || quantile([]time.Duration{}, 0.5) != 0 {
		t.Errorf("%g, %g, %g", median(list), quantile(list, 0.5), quantile(list, 0.9))
	}
}
