// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
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
		r.said[0] = append(r.said[0], answer{leak: on, ticket: on, page: on && f.eta < pageWithin.Seconds(), eta: f.eta, lower: f.lower, upper: f.upper, who: f.who})
	}
	return score(&watched{truth: truth, length: minutesOf(length), listed: true, records: []*record{r}}, 0)
}

// culprit is the process that leaks in leakTruth.
var culprit = gpu.ProcessID{PID: 7, Start: 70}

// leakTruth leaks 1 MiB/s from 60 until 180 minutes, and shows, and is out of memory then.
func leakTruth() fleet.Truth {
	return fleet.Truth{
		Length: minutesOf(300),
		Leaks: []fleet.LeakTruth{{
			Processes: []gpu.ProcessID{culprit}, Group: "pod", From: minutesOf(60), Until: minutesOf(180), Rate: 1 << 20,
			Visible: true, Fatal: true,
		}},
		OOMs: []fleet.OOM{{T: minutesOf(180), Growth: minutesOf(120)}},
	}
}

// summary is what TestScore compares: what was found and when, the page, the forecasts, and what was false.
func (o *outcome) summary() string {
	l, oom := o.leaks[0], o.ooms[0]
	text := "missed"
	if l.found != never {
		text = fmt.Sprintf("found %.0f", l.found.Minutes())
	}
	add := func(on bool, format string, args ...any) {
		if on {
			text += fmt.Sprintf(", "+format, args...)
		}
	}
	add(l.inTime, "in time")
	add(l.named, "named")
	add(o.early, "early")
	add(oom.lead != never, "paged %.0f", oom.lead.Minutes())
	add(o.episodes+o.pages+o.tickets > 0, "%d false, %d pages, %d tickets", o.episodes, o.pages, o.tickets)
	for _, f := range []forecast{l.forecasts[atHalf], l.forecasts[atFirst]} {
		add(f.told, "error %.2f of %.2f %t", f.error, f.width, f.covered)
	}
	return text
}

// TestScore runs alarms past a leak from minute 60 to 180. A quarter of 6 GiB at 1 MiB/s is gone after 25 min 36 s. It pages as
// the mixin does: a leak, memory full within the hour, and that for three minutes. The half-life is minute 120, one hour before
// the end.
func TestScore(t *testing.T) {
	nobody := leakTruth()
	nobody.Leaks[0].Processes = nil
	inf, nan, on := math.Inf(1), math.NaN(), [][2]int{{70, 400}}
	for name, c := range map[string]struct {
		fake
		truth fleet.Truth
		want  string
	}{
		"no alarm":                {fake{}, leakTruth(), "missed"},
		"stays on":                {fake{alarms: on}, leakTruth(), "found 70, in time"},
		"off after 9 min":         {fake{alarms: [][2]int{{70, 79}}}, leakTruth(), "missed"},
		"on for 10 min":           {fake{alarms: [][2]int{{70, 80}}}, leakTruth(), "found 70, in time"},
		"off and on again":        {fake{alarms: [][2]int{{70, 72}, {75, 90}}}, leakTruth(), "found 75, in time"},
		"the last minute":         {fake{alarms: [][2]int{{85, 400}}}, leakTruth(), "found 85, in time"},
		"a minute too late":       {fake{alarms: [][2]int{{86, 400}}}, leakTruth(), "found 86"},
		"before the onset":        {fake{alarms: [][2]int{{30, 400}}}, leakTruth(), "missed, early, 1 false, 0 pages, 0 tickets"},
		"before and after":        {fake{alarms: [][2]int{{30, 40}, {90, 400}}}, leakTruth(), "found 90, early, 1 false, 0 pages, 0 tickets"},
		"until the out-of-memory": {fake{alarms: [][2]int{{175, 180}}}, leakTruth(), "found 175"},
		"a moment after the end":  {fake{alarms: [][2]int{{185, 300}}}, leakTruth(), "missed, 0 false, 0 pages, 1 tickets"},
		"long after the end":      {fake{alarms: [][2]int{{195, 300}}}, leakTruth(), "missed, 1 false, 0 pages, 1 tickets"},

		"the process":                 {fake{alarms: on, who: named{ok: true, id: culprit}}, leakTruth(), "found 70, in time, named"},
		"a later one of its number":   {fake{alarms: on, who: named{ok: true, id: gpu.ProcessID{PID: 7, Start: 71}}}, leakTruth(), "found 70, in time"},
		"the pod":                     {fake{alarms: on, who: named{ok: true, group: "pod"}}, leakTruth(), "found 70, in time, named"},
		"another pod":                 {fake{alarms: on, who: named{ok: true, group: "other"}}, leakTruth(), "found 70, in time"},
		"nobody":                      {fake{alarms: on, who: named{ok: true}}, leakTruth(), "found 70, in time"},
		"memory of no process":        {fake{alarms: on, who: named{ok: true}}, nobody, "found 70, in time, named"},
		"a process for that of none":  {fake{alarms: on, who: named{ok: true, id: culprit}}, nobody, "found 70, in time"},
		"a forecast":                  {fake{[][2]int{{90, 400}}, 3600, 1800, 5400, named{}}, leakTruth(), "found 90, error 0.00 of 1.00 true, error 0.33 of 0.67 true"},
		"one that does not cover":     {fake{[][2]int{{90, 400}}, 3660, 1800, 3000, named{}}, leakTruth(), "found 90, error 0.02 of 0.33 false, error 0.32 of 0.22 false"},
		"one without an interval":     {fake{[][2]int{{90, 400}}, 3660, nan, nan, named{}}, leakTruth(), "found 90, error 0.02 of +Inf false, error 0.32 of +Inf false"},
		"none in sight":               {fake{[][2]int{{90, 400}}, inf, inf, inf, named{}}, leakTruth(), "found 90"},
		"within the hour":             {fake{alarms: [][2]int{{90, 400}}, eta: 3599}, leakTruth(), "found 90, paged 87"},
		"for three minutes":           {fake{alarms: [][2]int{{177, 180}}, eta: 60}, leakTruth(), "found 177"},
		"just then":                   {fake{alarms: [][2]int{{177, 190}}, eta: 60}, leakTruth(), "found 177, paged 0"},
		"ended before, and kept":      {fake{alarms: [][2]int{{150, 179}}, eta: 60}, leakTruth(), "found 150, paged 27"},
		"ended long before":           {fake{alarms: [][2]int{{150, 165}}, eta: 60}, leakTruth(), "found 150"},
		"interrupted":                 {fake{alarms: [][2]int{{150, 160}, {165, 166}}, eta: 60}, leakTruth(), "found 150"},
		"interrupted, and kept":       {fake{alarms: [][2]int{{150, 160}, {161, 179}}, eta: 60}, leakTruth(), "found 150, paged 27"},
		"paged since before the leak": {fake{alarms: [][2]int{{20, 400}}, eta: 60}, leakTruth(), "missed, early, 1 false, 1 pages, 1 tickets"},
		"paged before it":             {fake{alarms: [][2]int{{20, 30}}, eta: 60}, leakTruth(), "missed, early, 1 false, 1 pages, 0 tickets"},
	} {
		if c.eta == 0 {
			c.eta, c.lower, c.upper = nan, nan, nan
		} else if c.upper == 0 { // told, but of no interest
			c.lower, c.upper = nan, nan
		}
		o := c.score(c.truth, 300)
		if got := o.summary(); got != c.want && !strings.HasPrefix(got, c.want+", error") {
			t.Errorf("%s: %s", name, got)
		}
	}
	short := leakTruth()
	short.OOMs[0].Growth = held - 1
	if o := (fake{alarms: [][2]int{{90, 400}}, eta: 1}).score(short, 300); o.leaks[0].forecasts[atHalf].due || o.leaks[0].forecasts[atFirst].due {
		t.Error("a forecast of a growth that is too short, or that began after the alarm")
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
			r.said[0] = append(r.said[0], answer{page: i >= 20 && i < 250, eta: math.NaN()})
		}
		var o outcome
		newScorer(&w, r, 0, nil).count(&o)
		if o.pages != c.pages {
			t.Errorf("%s: %d false pages, want %d", c.name, o.pages, c.pages)
		}
	}
}

func TestCost(t *testing.T) {
	for lead, want := range map[time.Duration]float64{never: 100, 0: 100, 15 * time.Minute: 52.5, 30 * time.Minute: 5, 9 * time.Hour: 5} {
		if got := costOfOOM(lead); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %g, want %g", lead, got, want)
		}
	}
	// One leak with a page in time, one with none; on the healthy GPU, of 100 days, a page and two tickets.
	var f figures
	f.add(fleet.Leak, &outcome{ooms: []oomOutcome{{0, time.Hour, never}, {0, time.Hour, never}, {1, never, never}}})
	f.add(fleet.Healthy, &outcome{free: 2400, pages: 1, tickets: 2})
	if got, want := f.cost(), 20*52.5+10*10+20*1; math.Abs(got-want) > 1e-9 {
		t.Errorf("cost %g, want %g", got, want)
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
