// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const (
	// shownSites bounds the lines of code of a leak, and shownProcesses the processes of a card on the page of all memories.
	shownSites, shownProcesses = 3, 8
)

// processRow is a process that leaks, may leak, or is a zombie. The page of one memory has all processes with a curve.
type processRow struct {
	Who, Where, Held string
	Leaks            bool
	Why              string
	Facts            []fact // of one that leaks
	Sites            []allocator.Site
	Located          string // how far the search for these lines is
	Plot             template.HTML
}

// processes returns the rows of a memory, the fastest leak first. It draws as many curves as there is room for.
func (h *Config) processes(m *sampler.Domain, left *room, all bool) (list []processRow) {
	var shown []*sampler.ProcessState
	for i := range m.Device.Processes {
		p := &m.Device.Processes[i]
		if m.Has(&p.Process) && (finding.Suspect(&p.Verdict) || isZombie(p) || all && p.Curve != nil) {
			shown = append(shown, p)
		}
	}
	slices.SortStableFunc(shown, func(a, b *sampler.ProcessState) int { return cmp.Compare(leakRate(b), leakRate(a)) })
	if !all {
		shown = shown[:min(len(shown), shownProcesses)]
	}
	for _, p := range shown {
		list = append(list, h.process(m, p, left, all))
	}
	return list
}

// process puts a process into words, with a curve if there is room for it.
func (h *Config) process(m *sampler.Domain, p *sampler.ProcessState, left *room, all bool) (row processRow) {
	now, height := m.Device.SampleTime, processHeight
	row.Who, row.Where = whoIs(p.ID, p.Owner)
	if p.Used.OK {
		row.Held = humanize.Bytes(float64(p.Used.V))
	}
	row.Why = finding.Why(&p.Verdict)
	switch {
	case leakRate(p) > 0:
		if row.Leaks, height = true, leakHeight; all { // elsewhere those of the memory say nearly the same
			row.Facts = h.facts(&p.Verdict, now)
		}
		row.Why = finding.Joined(" ", row.Why, finding.Inside[p.Grows])
		row.Sites, row.Located = h.located(p.Sites, now)
	case isZombie(p) && p.Idle.OK:
		row.Why += " It has been idle " + h.since(now.Add(-p.Idle.V), now) + "."
	}
	if left.processes > 0 {
		if row.Plot = h.processCurve(m, p, height); row.Plot != "" {
			left.processes--
		}
	}
	return row
}

func isZombie(p *sampler.ProcessState) bool {
	return p.Verdict.Judged && p.Verdict.Pattern == detector.PatternZombie
}

// leakRate returns the growth of a process that leaks, at least 1 byte per second; 0 if it does not leak.
func leakRate(p *sampler.ProcessState) float64 {
	if v := &p.Verdict; v.Judged && v.Leak {
		return max(v.Rate.V, 1)
	}
	return 0
}

// unreleased returns the rows of processes that ended and left memory behind.
func (h *Config) unreleased(m *sampler.Domain) (list []processRow) {
	for i := range m.Device.Unreleased {
		if u := &m.Device.Unreleased[i]; u.Instance == m.Instance && !m.IsLimit() {
			row := processRow{Held: humanize.Bytes(float64(u.Used)), Why: "It " + finding.Stays + " " + h.since(fromstate.SteadyTime(u.At), m.Device.SampleTime) + "."}
			row.Who, row.Where = whoIs(u.ID, u.Owner)
			list = append(list, row)
		}
	}
	return list
}

// located returns the lines of code that allocate the leak, and how far the search for them is.
func (h *Config) located(s *allocator.Sites, now time.Time) (list []allocator.Site, text string) {
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
	return s.List[:min(len(s.List), shownSites)], "Lines that allocate what stays (recorded from " + h.moment(s.Asked, now, "15:04") + " on for " + over + "):"
}
