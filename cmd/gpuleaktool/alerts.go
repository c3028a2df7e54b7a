// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// The thresholds of the mixin's alerts on memory that runs out, as
// mixin/config.libsonnet has them. A test holds them against the rendered rules.
const (
	// scrapeGap is how long a rule remembers the last sample of a series.
	scrapeGap = 2 * time.Minute
	// keepFiringFor is how long an alert outlives its condition.
	keepFiringFor = 2 * time.Minute
)

// silence is how far two verdicts may be apart: after more, a Prometheus would have had no sample
// for a while, and what was firing has ended.
const silence = 5 * time.Minute

// began is when a record begins, for the exporter: 0 is no time there.
const began = time.Hour

// level is the most that came of a series.
type level uint8

const (
	levelNone    level = iota
	levelVerdict       // it was called a leak, and nobody was told
	levelTicket
	levelPage
)

// String names the level as --fail-on does.
func (l level) String() string { return [...]string{"none", "verdict", "ticket", "page"}[l] }

// done is what such an alert has done.
func (l level) done() string {
	if l == levelPage {
		return "paged"
	}
	return "ticketed"
}

// alerts are what the rules of the mixin would have made of the verdicts on a series. A page is
// GPUOutOfMemoryPredicted with the severity critical, a ticket one with warning, or GPUMemoryLeakDetected. They are exact to the time
// between two verdicts, a minute at most.
type alerts struct {
	pages, tickets []plot.Span
}

// level returns the most that came of them.
func (a *alerts) level() level {
	switch {
	case len(a.pages) > 0:
		return levelPage
	case len(a.tickets) > 0:
		return levelTicket
	}
	return levelNone
}

// firing reports whether one of them fires at time t.
func firing(list []plot.Span, t time.Duration) bool {
	return slices.ContainsFunc(list, func(s plot.Span) bool { return s.From <= t && (t <= s.To || s.Open) })
}

// says returns what the exporter says of a series at each step.
func says(steps []step) []finding.Finding {
	var m finding.Memory
	list := make([]finding.Finding, len(steps))
	for i := range steps {
		s := &steps[i]
		if s.blind {
			continue
		}
		j := &detector.Judgement[gpu.ProcessID]{T: began + s.t, Evidence: s.evidence, Page: s.page}
		j.Device = detector.Verdict{Judged: s.judged, Leak: s.leak, Rate: detector.Of(1), SecondsToOOM: s.seconds, Upper: s.upper}
		for _, f := range m.Judge(&finding.Sample{Judgement: j}) {
			list[i] = f
		}
	}
	return list
}

// fires returns when an alert fires whose condition holds at some steps. It is remembered for a while after a step at which it held
// last, as last_over_time does.
func fires(steps []step, remembers time.Duration, holds func(i int) bool) (list []plot.Span) {
	var until time.Duration
	for i := range steps {
		s := &steps[i]
		if s.blind || !holds(i) { // where nothing was said, what was said before is remembered
			continue
		}
		if n := len(list); n == 0 || s.t > list[n-1].To {
			list, until = append(list, plot.Span{From: s.t}), 0
		}
		until = max(until, holdsUntil(steps, i, remembers))
		list[len(list)-1].To = until + keepFiringFor
	}
	if n := len(list); n > 0 && list[n-1].To >= steps[len(steps)-1].t {
		list[n-1].Open = true
	}
	return list
}

// holdsUntil returns the first moment at which a condition does not hold because of the i-th step. The last step
// of a record is its end: nothing is known of what came after it.
func holdsUntil(steps []step, i int, remembers time.Duration) time.Duration {
	s := &steps[i]
	next := slices.IndexFunc(steps[i+1:], func(n step) bool { return !n.blind })
	switch {
	case next < 0:
		return s.t + 1
	case s.last || steps[i+1+next].t-s.t > silence:
		return s.t + scrapeGap + 1
	}
	n := &steps[i+1+next]
	if s.evidence == detector.EvidenceFilling { // it may slow down with the next sample
		return n.t
	}
	return max(n.t, s.t+remembers+1)
}

// alertsOf returns the alerts on a series. On a memory there is one for all who leak on it: each row of these has its ticket.
func alertsOf(f *result) (a alerts) {
	says := says(f.steps)
	leaks := fires(f.steps, scrapeGap, func(i int) bool { return says[i].LeakDue })
	if f.kind != kindMemory {
		return alerts{tickets: leaks}
	}
	a.pages = fires(f.steps, scrapeGap, func(i int) bool { return says[i].OOMDue && f.steps[i].page })
	a.tickets = slices.Concat(leaks, fires(f.steps, scrapeGap, func(i int) bool {
		return says[i].OOMDue && !f.steps[i].page && says[i].Evidence == detector.EvidenceLeak && says[i].OOM.V < finding.TicketWithin.Seconds()
	}))
	slices.SortStableFunc(a.tickets, func(a, b plot.Span) int { return cmp.Compare(a.From, b.From) })
	return a
}
