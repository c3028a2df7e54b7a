// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// NewIncidentsJSON answers with the last incidents as incident.Incident has them, the newest first:
//
//	{"status":"success","data":[…]}
func NewIncidentsJSON(state func() *sampler.State) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fromstate.Answer(w, lastOf(state()))
	})
}

// lastOf returns the incidents, the newest first; never nil.
func lastOf(s *sampler.State) []*incident.Incident {
	list := append([]*incident.Incident{}, s.Incidents.List...)
	slices.Reverse(list)
	return list
}

// incidentsView is what the template shows, in words.
type incidentsView struct {
	Style           template.CSS
	Note, Refreshed string
	Incidents       []incidentCard
}

type incidentCard struct {
	*incident.Incident
	When string
	Plot template.HTML
}

// NewIncidents serves the page of the last incidents: what filled the memory, its last hour, and whether an alert came before.
func NewIncidents(h *Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := h.State()
		v := incidentsView{Style: plot.Style, Note: h.Note, Refreshed: h.refreshed(s)}
		for _, i := range lastOf(s) {
			v.Incidents = append(v.Incidents, incidentCard{i, i.Time.In(h.Location).Format("2006-01-02 15:04:05 MST"), h.courseOf(i)})
		}
		render(w, "incidents.html", &v, h.Logger)
	})
}

// courseOf draws the last hour of a memory; "" if nothing is known of it.
func (h *Config) courseOf(i *incident.Incident) template.HTML {
	from, to := sinceEpoch(i.Start), sinceEpoch(i.Time)
	p := &plot.Plot{
		ID: "plot-" + i.ID, Title: "Memory used before the incident", Description: i.Text, Location: h.Location, Height: memoryHeight,
		From: min(from, to-shortestAxis), To: to, Used: &plot.Envelope{}, Capacity: float64(i.Capacity.V),
	}
	for n, v := range i.Course {
		if v.OK {
			at := min(from+time.Duration(n)*incident.Step, to)
			p.Used.AddRange(at, float64(v.V), float64(v.V))
		}
	}
	if _, _, ok := p.Used.Extremes(); !ok {
		return ""
	}
	p.Ends = []time.Duration{to}
	if at := i.Finding.At; at != nil && sinceEpoch(*at) > p.From {
		p.Alarms, p.Alarm = []plot.Span{{From: sinceEpoch(*at), To: to, Open: true}}, i.Finding.By
	}
	return p.SVG()
}
