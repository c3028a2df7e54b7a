// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// leakRow is one process, or what no process accounts for, that leaks.
type leakRow struct {
	GPU, Model   string
	Who, Where   string
	Left, At     string
	Range        string
	Growth, Held string
	Confidence   string
	Pattern      string
	Why          string
	Sites        []siteRow
	Located      string // how the search for these lines goes
	Memory       bar
	ID           string // begins the identifiers of its elements
	Page         string // of its memory
	Runbook      string
	Plot         template.HTML
	order, rate  float64              // seconds left, and bytes per second
	draw         func() template.HTML // nil where the curve of the memory shows it
}

// siteRow is a line that allocates what leaks.
type siteRow struct {
	Line, Growth string
	Frames       []string
}

// leaksOf returns a row for each part of a memory that leaks.
func (h *predictor) leaksOf(m sampler.Domain) []leakRow {
	var rows []leakRow
	for i := range m.Device.Processes {
		p := &m.Device.Processes[i]
		if p.Instance != m.Instance || !p.Verdict.Judged || !p.Verdict.Leak {
			continue
		}
		row := h.row(m, &p.Verdict)
		row.Who, row.Where = whoIs(p.ID, p.Owner)
		row.ID = nameOf(&m, p)
		row.draw = func() template.HTML { return h.processCurve(&m, p, leakHeight) }
		row.Where = finding.Joined(". ", row.Where, finding.Inside[p.Grows])
		if p.Used.OK {
			row.Held, row.Memory = humanize.Bytes(float64(p.Used.V))+" by this process", barOf(m.Memory, p.Used.V)
		}
		row.Sites, row.Located = h.located(p.Sites, m.Device.SampleTime)
		row.Why = finding.Joined(" · ", h.called(p.Curve, m.Device.SampleTime), row.Why)
		rows = append(rows, row)
	}
	j := m.Judgement
	if j.Residual.Judged && j.Residual.Leak {
		row := h.row(m, &j.Residual)
		row.Who, row.Where = "no process", "memory that no process on the GPU accounts for"
		rows = append(rows, row)
	}
	if len(rows) == 0 && j.Device.Judged && j.Device.Leak {
		rows = h.workloadLeaks(m)
	}
	if len(rows) == 0 && j.Device.Judged && j.Device.Leak {
		row := h.row(m, &j.Device)
		row.Who, row.Where = "not known", "no single process that is shown leaks, or their memory cannot be told apart"
		rows = append(rows, row)
	}
	return rows
}

// workloadLeaks returns a row for each pod or job that leaks on a memory: over processes that come and go, or because they
// fill it, die and are started again.
func (h *predictor) workloadLeaks(m sampler.Domain) []leakRow {
	var rows []leakRow
	for i := range m.Device.Workloads {
		w := &m.Device.Workloads[i]
		if w.Instance != m.Instance || !w.Verdict.Judged || !w.Verdict.Leak {
			continue
		}
		row := h.row(m, &w.Verdict)
		row.Who, row.Where = (&finding.Who{Namespace: w.Namespace, Pod: w.Pod, SlurmJob: w.SlurmJob}).Place(), "over its processes"
		row.Held, row.Memory = humanize.Bytes(float64(w.Used))+" by its processes", barOf(m.Memory, w.Used)
		row.ID = fmt.Sprintf("%s-workload-%d", row.ID, i)
		rows = append(rows, row)
	}
	return rows
}

// row fills what all leaks have in common.
func (h *predictor) row(m sampler.Domain, v *detector.Verdict) leakRow {
	row := leakRow{
		GPU: m.Name, Model: m.Device.Info.Name, Left: "not known", order: math.Inf(1),
		Confidence: finding.Percent(v.Confidence), Pattern: finding.Pattern(v), Memory: barOf(m.Memory, 0),
		Why: h.why(m, v), ID: "leak-" + nameOf(&m, nil), Page: PredictPath + "/" + nameOf(&m, nil), Runbook: headingOf(v, m.Judgement.Page),
	}
	if v.Rate.OK {
		row.Growth, row.rate = humanize.Rate(v.Rate.V), v.Rate.V
	}
	if s := v.SecondsToOOM.Finite(); s != nil {
		row.order, row.Left = *s, solid(humanize.Seconds(*s))
		row.At = h.clock(m.Device.SampleTime, *s)
		row.Range = strings.ReplaceAll(solid(finding.Interval(v)), "\u00a0to\u00a0", " to ")
	}
	return row
}

// why says what the judgement rests on.
func (h *predictor) why(m sampler.Domain, v *detector.Verdict) string {
	var parts []string
	since := " " + h.since(fromstate.SteadyTime(v.Since), m.Device.SampleTime)
	switch {
	case v.Pattern == detector.PatternCrashLoop:
		parts = append(parts, "Crash loop"+since)
	case v.Leaked.OK && v.Leaked.V > 0:
		parts = append(parts, "Kept "+humanize.Bytes(v.Leaked.V)+since)
	}
	for i := range v.Windows {
		if f := &v.Windows[i]; f.Slope.OK && f.R2.OK {
			parts = append(parts, fmt.Sprintf("slope over %s: %s, R² %.2f", cli.FormatDuration(f.Span), humanize.Rate(f.Slope.V), f.R2.V))
		}
	}
	return strings.Join(parts, " · ")
}

// called says when a leak was found; "" if that is not known.
func (h *predictor) called(c *sampler.Curve, now time.Time) string {
	if c == nil || c.Called == 0 {
		return ""
	}
	t := fromstate.SteadyTime(c.Called)
	return fmt.Sprintf("Found at %s (%s ago)", h.moment(t, now, "15:04"), humanize.Duration(max(0, now.Sub(t))))
}

// shownSites is how many lines a leak shows.
const shownSites = 3

// located says which lines allocate what leaks, or how far the search for them is.
func (h *predictor) located(s *allocator.Sites, now time.Time) (rows []siteRow, text string) {
	if s == nil {
		return nil, ""
	}
	over := humanize.Duration(s.Over)
	switch {
	case s.State == allocator.SitesRefused:
		return nil, "Which lines allocate it is not known: " + s.Reason + "."
	case s.State != allocator.SitesDone:
		return nil, "The process records where it allocates, until " + h.moment(s.Asked.Add(s.Over), now, "15:04") + "."
	case len(s.List) == 0 && s.Unsure > 0:
		return nil, fmt.Sprintf("Lines that may allocate it: %d, none of them sure. What was there before was freed meanwhile, so they may only have taken its place.", s.Unsure)
	case len(s.List) == 0:
		return nil, "No line was seen to allocate what stays in " + over + "."
	}
	for i := range s.List[:min(len(s.List), shownSites)] {
		site := &s.List[i]
		rows = append(rows, siteRow{Line: cmp.Or(site.Line, "not in Python code"), Growth: "+" + humanize.Bytes(float64(site.Growth)), Frames: site.Frames})
	}
	return rows, "Lines that allocate what stays (recorded from " + h.moment(s.Asked, now, "15:04") + " on for " + over + "):"
}
