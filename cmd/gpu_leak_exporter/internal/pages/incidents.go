// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"html/template"
	"net/http"
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
		fromstate.Answer(w, append([]*incident.Incident{}, state().Incidents.List...)) // never null
	})
}

// incidentsView is what the template shows.
type incidentsView struct {
	*Config
	Style     template.CSS
	Refreshed string
	Incidents []*incident.Incident
}

// NewIncidents serves the page of the last incidents: what filled the memory, its last hour, and whether an alert came before.
func NewIncidents(h *Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := h.State()
		render(w, "incidents.html", &incidentsView{h, plot.Style, h.refreshed(s), s.Incidents.List}, h.Logger)
	})
}

// Plot draws the last hour of a memory.
func (v *incidentsView) Plot(i *incident.Incident) template.HTML {
	to := sinceEpoch(i.Time)
	p := &plot.Plot{
		ID: "plot-" + i.ID, Title: "Memory used before the incident", Description: i.Text, Location: v.Location, Height: memoryHeight,
		From: to - incident.Span, To: to, Used: &plot.Envelope{}, Capacity: float64(i.Capacity.V),
	}
	for n, used := range i.Course {
		if used.OK {
			p.Used.Add(to-time.Duration(len(i.Course)-1-n)*incident.Step, float64(used.V))
		}
	}
	if at := i.Finding.At; at != nil && sinceEpoch(*at) > p.From {
		p.Alarms, p.Alarm = []plot.Span{{From: sinceEpoch(*at), To: to, Open: true}}, i.Finding.By
	}
	return p.SVG()
}
