// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
)

//go:embed report.html
var reportHTML string

var reportPage = template.Must(template.New("report").Parse(reportHTML))

// report is what the template shows, in words.
type report struct {
	Headline string
	Urgent   bool // it is bad news
	Detail   string
	Style    template.CSS
	Leaks    []reportRow
	Others   []reportRow

	Suspected bool // a plot marks growth that was suspected
}

// reportRow is one series.
type reportRow struct {
	Name, File, Verdict     string
	Class                   string // bad, warn, ok or wait
	Span, Samples, Peak     string
	Pattern, Growth, Leaked string
	Forecast, Alert         string
	Withheld, AtEnd         string // why it was no leak yet when it was surest, and why it is none yet
	Knew                    string
	Plot                    template.HTML
}

// writeReport writes a page that needs nothing else.
func writeReport(w io.Writer, list []finding, loc *time.Location) error {
	r := report{Headline: headline(list, loc), Style: plot.Style}
	shown, brief := rows(list)
	for i := range shown {
		row := rowOf(&shown[i], loc)
		r.Suspected = r.Suspected || shown[i].suspected.surest != nil
		if shown[i].level > levelNone {
			r.Leaks = append(r.Leaks, row)
			r.Urgent = r.Urgent || shown[i].level > levelVerdict
		} else {
			r.Others = append(r.Others, row)
		}
	}
	var samples uint64
	for i := range list {
		samples += list[i].samples
	}
	r.Detail = fmt.Sprintf("%d series, %d of them leaking; %d samples. Times are %s.", len(list), len(r.Leaks), samples, loc)
	if brief > 0 {
		r.Detail += fmt.Sprintf(" Not shown are %d %s.", brief, briefWords)
	}
	return reportPage.Execute(w, r)
}

func rowOf(f *finding, loc *time.Location) reportRow {
	row := reportRow{
		Name: f.name, File: f.from, Verdict: f.verdict(loc), Class: "ok",
		Span: humanize.Duration(f.span()), Samples: strconv.FormatUint(f.samples, 10), Peak: f.peakText(),
		Pattern: f.pattern(), Growth: f.growth(), Leaked: f.retained(), Forecast: f.forecast(), Alert: f.told(loc),
		Withheld: f.atSurest(loc), AtEnd: f.atEnd(), Knew: f.knew(),
		Plot: f.drawing(loc).SVG(),
	}
	switch {
	case f.level > levelVerdict:
		row.Class = "bad"
	case f.level == levelVerdict:
		row.Class = "warn"
	case f.suspected.open():
		row.Class = "warn"
	case !f.judged():
		row.Class = "wait"
	}
	return row
}

// drawing returns the plot of the series.
func (f *finding) drawing(loc *time.Location) *plot.Plot {
	p := &plot.Plot{
		Title: fmt.Sprintf("Memory used by %s: %s", f.name, f.verdict(loc)), Location: loc,
		From: f.first, To: f.last, Used: f.plot, Alarms: f.alarms, Suspected: f.suspected.spans,
	}
	if f.capacity.OK && f.kind == kindMemory { // a process meets no capacity of its own
		p.Capacity = f.capacity.V
	}
	for i := range f.steps {
		if s := &f.steps[i]; s.trough.OK {
			p.Troughs = append(p.Troughs, plot.Point{T: min(s.t, f.last), V: s.trough.V})
		}
	}
	if a := f.alarm; a != nil {
		p.Fit, p.Forecast = fitAt(a), forecastAt(a, p.Capacity)
	}
	return p
}

// fitAt returns the line of the growth that was told at the alarm, from the start
// of the leak on.
func fitAt(a *step) []plot.Point {
	if !a.rate.OK || !a.trough.OK || a.since >= a.t {
		return nil
	}
	return []plot.Point{{T: a.since, V: math.Max(0, a.trough.V-a.rate.V*(a.t-a.since).Seconds())}, {T: a.t, V: a.trough.V}}
}

// forecastAt returns what was foreseen at the alarm. The memory that meets the
// capacity then is its crest, which lies above the troughs.
func forecastAt(a *step, capacity float64) *plot.Forecast {
	if !a.seconds.OK || math.IsInf(a.seconds.V, 1) || !a.headroom.OK || capacity <= 0 {
		return nil
	}
	after := func(seconds float64) time.Duration {
		const far = 100 * 365 * 24 * time.Hour
		return a.t + time.Duration(math.Min(seconds*float64(time.Second), float64(far)))
	}
	f := &plot.Forecast{
		From: plot.Point{T: a.t, V: capacity - a.headroom.V},
		At:   after(a.seconds.V), Lower: after(a.seconds.V), Upper: after(a.seconds.V),
	}
	if a.lower.OK && a.upper.OK {
		f.Lower, f.Upper = after(a.lower.V), after(a.upper.V)
	}
	return f
}
