// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"html/template"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// Bounds of the page. A fleet has thousands of GPUs, and a phone must show the page of 16 GPUs with 256 processes each.
const (
	mostFindings, mostCards = 32, 256
	// The most urgent memories and processes have a curve.
	mostMemories, mostProcesses = 128, 48
)

// view is what the template shows, in words.
type view struct {
	Style template.CSS // of the curves
	Only  bool         // it is of one memory, and all of that is shown
	Note  string
	findings
	Notes     []string // remarks on the figures
	Cards     []card   // the most urgent first
	Left      int      // memories that have no card
	Refreshed string
}

// view puts a state into words: all memories, or every detail of the one with that name.
func (h *Config) view(s *sampler.State, only string) *view {
	v := &view{Style: plot.Style, Only: only != "", Note: h.Note, Refreshed: h.refreshed(s)}
	for _, d := range s.Devices {
		if d.Up && d.Info.UnifiedMemory && !v.Only {
			v.Notes = append(v.Notes, d.Name()+" has no memory of its own. What is shown is the memory of the host, and all its programs use it.")
		}
		for m := range d.Domains() {
			if only == "" || only == fromstate.PathOf(&m) {
				v.Cards = append(v.Cards, h.card(m, s.Time))
			}
		}
	}
	slices.SortStableFunc(v.Cards, func(a, b card) int {
		return cmp.Or(cmp.Compare(slices.Index(urgency, a.Class), slices.Index(urgency, b.Class)), cmp.Compare(a.left, b.left))
	})
	if more := len(v.Cards) - mostCards; more > 0 {
		v.Cards, v.Left = v.Cards[:mostCards], more
	}
	r := s.Report()
	if v.Only && len(v.Cards) > 0 {
		r = reportOn(&v.Cards[0], s.Time)
	}
	v.findings = findingsOf(r, mostFindings)
	left := room{mostMemories, mostProcesses}
	for i := range v.Cards {
		h.draw(&v.Cards[i], &left, v.Only)
	}
	return v
}

// reportOn sums up one memory and the hardware of its GPU.
func reportOn(c *card, now time.Time) *sampler.Report {
	r := &sampler.Report{Message: finding.Message{Severity: finding.Unknown, Summary: c.GPU + ": " + c.Verdict, Detail: c.Why}}
	if c.Verdict == finding.NoLeak {
		r.Severity = finding.Note
	}
	r.Say(nil, c.of.Device.Hardware(now).Messages()...)
	r.Say(nil, c.of.Messages()...)
	return r.Lead()
}

// room is how many curves the page may still have.
type room struct {
	memories, processes int
}

// refreshed writes the time of the page.
func (h *Config) refreshed(s *sampler.State) string {
	now := s.Time
	if h.Note != "" {
		now = s.Clock() // as the curves have it
	}
	return now.In(h.Location).Format("2006-01-02 15:04:05 MST")
}
