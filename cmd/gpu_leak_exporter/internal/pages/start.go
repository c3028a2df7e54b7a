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
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// startLink leads to another page.
type startLink struct{ Address, Text, Description string }

// NewStart serves the start page: the findings, the watched GPUs, and links to all other pages. It has no curves, so it costs less
// than that of NewPredict.
func NewStart(h *Config) http.Handler {
	links := []startLink{
		{PredictPath, "Predictions", "which GPU runs out of memory, when, and why: with a curve of each"},
		{h.MetricsPath, "Metrics", "what Prometheus scrapes"},
		{IncidentsPath, "Incidents", "what ended while its memory was full: who filled it, and whether an alert came before"},
		{VerdictsPath, "Verdicts", "the judgement of each GPU, process and workload, as JSON"},
	}
	if h.Sites {
		links = append(links, startLink{SitesPath, "Sites", "the lines that allocate what leaks, as JSON"})
	}
	links = append(
		links,
		startLink{RunbookPath, "Runbook", "what to do about each alert"},
		startLink{HealthyPath, "Health", "whether the exporter serves"},
		startLink{ReadyPath, "Readiness", "whether it knows something to serve"},
	)
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := h.State()
		render(w, "start.html", &startView{
			findings: findingsOf(s.Report(), shortFindings), Note: h.Note, Watched: watchedWords(s), Counts: h.counts(s),
			Links: links, Version: cmp.Or(version.Version, "unknown"), Refreshed: h.refreshed(s),
		}, h.Logger)
	})
}

// shortFindings is how many findings the page lists: PredictPath has more.
const shortFindings = 8

// startView is what the template shows, in words.
type startView struct {
	findings
	Note               string
	Watched            string
	Counts             []verdictCount
	Links              []startLink
	Version, Refreshed string
}

// verdictCount is how many memories have a verdict.
type verdictCount struct {
	Class, Verdict string
	N              int
}

// counts returns how many memories have each verdict, the most urgent first.
func (h *Config) counts(s *sampler.State) []verdictCount {
	n := map[verdictCount]int{}
	for _, d := range s.Devices {
		if !d.Up {
			n[verdictCount{Class: "down", Verdict: finding.Unreadable}]++
			continue
		}
		for m := range d.Domains() {
			word := m.Word(s.Time, &h.Detector)
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

// watchedWords counts the GPUs and what is on them.
func watchedWords(s *sampler.State) string {
	instances, processes, known := 0, 0, false
	for _, d := range s.Devices {
		instances, processes, known = instances+len(d.Instances), processes+d.ProcessCount, known || d.ProcessesKnown
	}
	if len(s.Devices) == 0 {
		return ""
	}
	text := humanize.Count(len(s.Devices), "GPU")
	if instances > 0 {
		text += ", " + humanize.Count(instances, "MIG instance")
	}
	if known {
		text += ", " + humanize.Count(processes, "process")
	}
	return text + "."
}
