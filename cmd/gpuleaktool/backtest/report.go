// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
)

const (
	// mostEvents is how many events of a memory are listed.
	mostEvents = 20
	// longestText bounds what is written of an event, in characters.
	longestText = 1000
)

// lines writes the events of a memory, or why there are none.
func (r *result) lines(loc *time.Location) (list []string) {
	for i, e := range r.events {
		if i == mostEvents {
			return append(list, fmt.Sprintf("… and %d more", len(r.events)-i))
		}
		list = append(list, e.line(loc))
	}
	if list == nil {
		list = []string{cli.Printable(r.text, longestText)}
	}
	return list
}

// writeTable writes the events of each memory, the most urgent first, and the headline below them.
func writeTable(w io.Writer, list []*result, incidents []*incident.Incident, loc *time.Location) error {
	var b bytes.Buffer
	for _, r := range slices.SortedStableFunc(slices.Values(list), compare) {
		fmt.Fprintf(&b, "%s: %s\n", cli.Printable(r.title(), longestText), r.facts())
		for _, line := range r.lines(loc) {
			fmt.Fprintf(&b, "  %s\n", line)
		}
	}
	for n, i := range incidents {
		if n == 0 {
			fmt.Fprintln(&b, "\nIncidents:")
		}
		fmt.Fprintf(&b, "  %s  %s\n", i.Time.In(loc).Format("2006-01-02 15:04 MST"), cli.Printable(i.Text, longestText))
	}
	fmt.Fprintf(&b, "\n%s\n", cli.Printable(headline(list, loc), longestText))
	_, err := b.WriteTo(w)
	return err
}

//go:embed report.html
var reportHTML string

var reportPage = template.Must(template.New("report").Parse(reportHTML))

// report is what the template shows, in words.
type report struct {
	Headline string
	Urgent   bool // it is bad news
	Style    template.CSS
	Memories []reportMemory
}

type reportMemory struct {
	Name, File, Facts string
	Tag, Class        string
	Open              bool
	Lines             []string
	Plot              template.HTML
}

// writeReport writes a page that needs nothing else.
func writeReport(w io.Writer, list []*result, loc *time.Location) error {
	r := report{Headline: headline(list, loc), Style: plot.Style}
	for i, m := range slices.SortedStableFunc(slices.Values(list), compare) {
		row := reportMemory{Name: m.name, File: m.from, Facts: m.facts(), Lines: m.lines(loc), Open: i < 8 || m.level() > levelNone}
		row.Tag, row.Class = m.tag()
		if m.samples > 0 {
			row.Plot = m.drawing(loc, i).SVG()
		}
		r.Memories = append(r.Memories, row)
		r.Urgent = r.Urgent || m.level() > levelLeak
	}
	return reportPage.Execute(w, r)
}

// tag is the worst of a memory in a word, and its class of style.
func (r *result) tag() (text, class string) {
	switch level := r.level(); {
	case level > levelNone:
		return level.String(), [...]string{levelLeak: "warn", levelTicket: "bad", levelPage: "bad"}[level]
	case r.word == finding.NoLeak:
		return r.word, "ok"
	}
	return r.word, ""
}

// drawing returns the plot of a memory, the one of that number on its page.
func (r *result) drawing(loc *time.Location, number int) *plot.Plot {
	p := &plot.Plot{
		ID: "plot-" + strconv.Itoa(number), Title: "Memory used by " + r.name,
		Description: fmt.Sprintf("From %s to %s, %s, and %s in the end.", moment(r.first, loc), moment(r.last, loc), r.facts(), humanize.Bytes(r.used)),
		Location:    loc, From: r.first, To: r.last, Ahead: 1.0 / 3, Used: r.plot, Capacity: r.capacity.V, Troughs: r.troughs, Alarm: "leak found",
	}
	for _, e := range r.events {
		if e.level == levelLeak {
			p.Alarms = append(p.Alarms, e.Span)
		}
	}
	if e := r.worst(); e != nil {
		v := &e.verdict
		if v.Leak && v.Rate.OK && v.Trough.OK {
			p.Fit = plot.FitOf(v.Since, e.From, v.Trough.V, v.Rate.V)
		}
		if v.SecondsToOOM.Finite() != nil && v.Lower.OK && v.Upper.OK && e.crest > 0 {
			p.Forecast = plot.ForecastOf(e.From, e.crest, v.SecondsToOOM.V, v.Lower.V, v.Upper.V)
		}
	}
	return p
}
