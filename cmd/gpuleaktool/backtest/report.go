// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
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
}

// reportRow is one series.
type reportRow struct {
	Name, File, Verdict     string
	Class                   string // bad, warn, ok or wait
	Span, Samples, Peak     string
	Pattern, Growth, Leaked string
	Forecast, Alert         string
	Plot                    template.HTML
}

// writeReport writes a page that needs nothing else.
func writeReport(w io.Writer, list []result, loc *time.Location) error {
	r := report{Headline: headline(list, loc), Style: plot.Style}
	shown, brief := rows(list)
	for i := range shown {
		row := rowOf(&shown[i], loc, i)
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

func rowOf(f *result, loc *time.Location, number int) reportRow {
	row := reportRow{
		Name: f.name, File: f.from, Verdict: f.verdict(loc), Class: "ok",
		Span: humanize.Duration(f.span()), Samples: strconv.FormatUint(f.samples, 10), Peak: f.peakText(),
		Pattern: f.pattern(), Growth: f.growth(), Leaked: f.retained(), Forecast: f.forecast(), Alert: f.told(loc),
	}
	if !f.unknown() {
		row.Plot = f.drawing(loc, number).SVG()
	}
	switch {
	case f.level > levelVerdict:
		row.Class = "bad"
	case f.level == levelVerdict, f.suspected():
		row.Class = "warn"
	case !f.judged(), f.unknown():
		row.Class = "wait"
	}
	return row
}

// described says in words what the plot shows.
func (f *result) described(loc *time.Location) string {
	text := fmt.Sprintf("From %s to %s, %s in all, at %s in the end and %s at most.", moment(f.first, loc), moment(f.last, loc), humanize.Duration(f.span()), humanize.Bytes(f.used), f.peakText())
	if f.alarm == nil {
		return text
	}
	if growth := f.growth(); growth != "" {
		text += " At the first alarm it grew by " + growth + "."
	}
	if forecast := f.forecast(); forecast != "" {
		text += " The memory was to be full in " + forecast + "."
	}
	return text
}

// drawing returns the plot of the series, the one of that number on its page.
func (f *result) drawing(loc *time.Location, number int) *plot.Plot {
	p := &plot.Plot{
		ID: "plot-" + strconv.Itoa(number), Description: f.described(loc),
		Title: fmt.Sprintf("Memory used by %s: %s", f.name, f.verdict(loc)), Location: loc,
		From: f.first, To: f.last, Ahead: 1.0 / 3, Used: f.plot, Alarms: f.alarms, Alarm: "alarm",
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
	if !a.rate.OK || !a.trough.OK {
		return nil
	}
	return plot.FitOf(a.since, a.t, a.trough.V, a.rate.V)
}

// forecastAt returns what was foreseen at the alarm.
func forecastAt(a *step, capacity float64) *plot.Forecast {
	if a.seconds.Finite() == nil || !a.headroom.OK || capacity <= 0 {
		return nil
	}
	lower, upper := a.seconds.V, a.seconds.V
	if a.lower.OK && a.upper.OK {
		lower, upper = a.lower.V, a.upper.V
	}
	return plot.ForecastOf(a.t, capacity-a.headroom.V, a.seconds.V, lower, upper)
}
