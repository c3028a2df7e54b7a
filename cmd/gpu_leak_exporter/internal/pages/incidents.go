// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// NewIncidentsJSON answers with the last incidents as incident.Incident has them, the newest first:
//
//	{"status":"success","data":[…]}
func NewIncidentsJSON(state func() *sampler.State) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer := struct {
			Status string               `json:"status"`
			Data   []*incident.Incident `json:"data"`
		}{"success", lastOf(state())}
		_ = json.NewEncoder(w).Encode(answer) // only the connection can fail
	})
}

// lastOf returns the incidents, the newest first; never nil.
func lastOf(s *sampler.State) []*incident.Incident {
	list := []*incident.Incident{}
	if s.Incidents != nil {
		list = append(list, s.Incidents.List...)
		slices.Reverse(list)
	}
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
	Who  []incidentRow
}

type incidentRow struct {
	Name, Held, End string
	Lines           []incidentLine
}

type incidentLine struct{ Line, Bytes string }

// NewIncidents serves the page of the last incidents: what filled the memory, its last hour, and whether an alert came before.
func NewIncidents(h *Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := h.State()
		v := incidentsView{Style: plot.Style, Note: h.Note, Refreshed: h.refreshed(s)}
		for _, i := range lastOf(s) {
			v.Incidents = append(v.Incidents, h.incident(i))
		}
		render(w, "incidents.html", &v, h.Logger)
	})
}

func (h *Config) incident(i *incident.Incident) incidentCard {
	c := incidentCard{Incident: i, When: i.Time.In(h.Location).Format("2006-01-02 15:04:05 MST")}
	for k := range i.Processes {
		p := &i.Processes[k]
		row := incidentRow{Name: finding.Joined(" of ", finding.Process(p.Process, p.PID), p.Place()), Held: "unknown"}
		if p.Used.OK {
			row.Held = humanize.Bytes(float64(p.Used.V))
		}
		switch {
		case p.ExitCode.OK:
			row.End = fmt.Sprintf("ended with exit code %d", p.ExitCode.V)
		case p.Ended:
			row.End = "ended"
		}
		for _, l := range p.Lines {
			row.Lines = append(row.Lines, incidentLine{cmp.Or(l.Line, "a block"), humanize.Bytes(float64(l.Bytes))})
		}
		c.Who = append(c.Who, row)
	}
	c.Plot = h.courseOf(i)
	return c
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
	p.Ends = []plot.End{{T: to, Full: i.Kind.Foretold()}}
	if at := i.Finding.At; at != nil && sinceEpoch(*at) > p.From {
		p.Alarms, p.Alarm = []plot.Span{{From: sinceEpoch(*at), To: to, Open: true}}, i.Finding.By
	}
	return p.SVG()
}
