// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
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
	owned          bool // the ticket of a memory is that of who holds it
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

// says returns what the exporter says of a series at each step, once that has lasted. leaks reports whether it leaks.
func says(steps []step, leaks func(s *step) bool) []finding.Finding {
	var m finding.Memory
	list := make([]finding.Finding, len(steps))
	for i := range steps {
		s := &steps[i]
		if s.blind {
			continue
		}
		j := &detector.Judgement[gpu.ProcessID]{T: began + s.t, Evidence: s.evidence, Page: s.page}
		j.Device = detector.Verdict{Judged: s.judged, Leak: leaks(s), Rate: detector.Of(1), SecondsToOOM: s.seconds, Upper: s.upper}
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

// alertsOf returns the alerts on each series. Those of a memory depend on who is on it.
func alertsOf(list []result) []alerts {
	all := make([]alerts, len(list))
	for i := range list {
		f := &list[i]
		if f.kind == kindMemory {
			all[i] = memoryAlerts(f, on(list, f))
			continue
		}
		hidden := func(time.Duration) bool { return false }
		if f.kind == kindWorkload {
			members := on(list, f)
			hidden = func(t time.Duration) bool {
				return slices.ContainsFunc(members, func(m *result) bool { return m.kind == kindProcess && m.sameWorkload(f) && m.leaksAt(t, 0) })
			}
		}
		all[i].tickets = leaking(f, hidden)
	}
	return all
}

// on returns the processes and workloads on the memory that a result is about or is on.
func on(list []result, f *result) (members []*result) {
	for i := range list {
		m := &list[i]
		if m.kind != kindMemory && m.from == f.from && m.labels.uuid() == f.labels.uuid() && m.labels.get("gpu_instance") == f.labels.get("gpu_instance") {
			members = append(members, m)
		}
	}
	return members
}

// sameWorkload reports whether both belong to one pod or job.
func (f *result) sameWorkload(other *result) bool {
	for _, name := range []string{"namespace", "pod", "slurm_job"} {
		if f.labels.get(name) != other.labels.get(name) {
			return false
		}
	}
	return true
}

// leaksAt reports whether it is called a leak at time t, and was for so long before.
func (f *result) leaksAt(t, before time.Duration) bool {
	return slices.ContainsFunc(f.alarms, func(a plot.Span) bool {
		return a.From <= t-before && (t < a.To || a.Open && t <= a.To || a.From == t)
	})
}

// leaking returns the tickets on a series that leaks, but where others have them.
func leaking(f *result, others func(t time.Duration) bool) []plot.Span {
	says := says(f.steps, func(s *step) bool { return s.leak && !others(s.t) })
	return fires(f.steps, 0, func(i int) bool { return says[i].LeakDue })
}

// memoryAlerts returns the alerts on a memory. members are who is on it.
func memoryAlerts(f *result, members []*result) (a alerts) {
	// Who holds the memory that leaks has the ticket, once that has lasted.
	owned := func(t time.Duration) bool {
		return slices.ContainsFunc(members, func(m *result) bool { return m.leaksAt(t, finding.LeakWait) })
	}
	says := says(f.steps, func(s *step) bool { return s.leak })
	a.pages = fires(f.steps, scrapeGap, func(i int) bool { return says[i].OOMDue && f.steps[i].page })
	tickets := fires(f.steps, scrapeGap, func(i int) bool {
		return says[i].OOMDue && says[i].Evidence == detector.EvidenceLeak && says[i].OOM.V < finding.TicketWithin.Seconds()
	})
	a.tickets = inOrder(tickets, leaking(f, owned))
	a.owned = slices.ContainsFunc(f.steps, func(s step) bool { return s.leak && owned(s.t) })
	return a
}

// inOrder returns both lists in the order of time.
func inOrder(a, b []plot.Span) []plot.Span {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(a, b plot.Span) int { return int(min(max(a.From-b.From, -1), 1)) })
	return all
}
