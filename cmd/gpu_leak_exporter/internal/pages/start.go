// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"maps"
	"net/http"
	"slices"

	"github.com/prometheus/common/version"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// NewStart serves the start page: the findings, the watched GPUs, and links to all other pages. It has no curves, so it costs less
// than that of NewPredict.
func NewStart(h *Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := h.State()
		render(w, "start.html", &startView{
			findings: findingsOf(s.Report(), shortFindings), Note: h.Note, Counts: counts(s),
			MetricsPath: h.MetricsPath, Sites: h.Sites, Version: cmp.Or(version.Version, "unknown"), Refreshed: h.refreshed(s),
		}, h.Logger)
	})
}

// shortFindings is how many findings the page lists: PredictPath has more.
const shortFindings = 8

// startView is what the template shows, in words.
type startView struct {
	findings
	Note               string
	Counts             []verdictCount
	MetricsPath        string
	Sites              bool
	Version, Refreshed string
}

// verdictCount is how many memories have a verdict.
type verdictCount struct {
	Class, Verdict string
	N              int
}

// counts returns how many memories have each verdict, the most urgent first. A leak counts once, on the memory that it fills first:
// that one has the finding.
func counts(s *sampler.State) []verdictCount {
	n := map[verdictCount]int{}
	for _, d := range s.Devices {
		for m := range d.Domains() {
			word, _ := m.Verdict(s.Time)
			told := func(f sampler.FindingState) bool { return f.MemoryKey == m.MemoryKey && f.Grows() }
			if word == finding.Leaks && !slices.ContainsFunc(d.Findings, told) {
				continue
			}
			n[verdictCount{Class: classes[word], Verdict: word}]++
		}
	}
	list := slices.Collect(maps.Keys(n))
	for i := range list {
		list[i].N = n[list[i]]
	}
	slices.SortFunc(list, func(a, b verdictCount) int {
		return cmp.Or(cmp.Compare(slices.Index(urgency, a.Class), slices.Index(urgency, b.Class)), cmp.Compare(a.Verdict, b.Verdict))
	})
	return list
}
