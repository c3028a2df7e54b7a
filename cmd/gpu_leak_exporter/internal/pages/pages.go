// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package pages puts the state of the GPUs on pages for people: who will run out of memory, when, and why. It also
// answers with the lines of code that allocate what leaks, and with the runbook.
//
// A page is made from one State at most, and of nothing else of a request but its path.
package pages

import (
	"bytes"
	"embed"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// Paths of what the exporter serves, besides that of the metrics, which an operator chooses. They are here because the
// page that one opens first leads to most of them.
const (
	// StartPath is what NewStart serves.
	StartPath = "/"
	// PredictPath is what NewPredict serves, and MemoryPath, a pattern of http.ServeMux, what NewMemory does.
	PredictPath = "/predict"
	MemoryPath  = PredictPath + "/{" + memoryValue + "}"
	// RunbookPath is what NewRunbook serves.
	RunbookPath = "/runbook"
	// IncidentsPath is what NewIncidents serves, and IncidentsJSONPath what NewIncidentsJSON does.
	IncidentsPath     = incident.Page
	IncidentsJSONPath = "/api/v1/incidents"
	// SitesPath is what NewSites serves.
	SitesPath = "/api/v1/sites"
	// VerdictsPath, HealthyPath, ReadyPath and ReloadPath are served by others.
	VerdictsPath = "/api/v1/verdicts"
	HealthyPath  = "/-/healthy"
	ReadyPath    = "/-/ready"
	ReloadPath   = "/-/reload"
)

// memoryValue is the name of a memory in MemoryPath.
const memoryValue = "memory"

// Config is what pages are made from. None of it is changed by them, or may be once they are served.
type Config struct {
	// State returns the last state, which does not change. It must not block. It is called from any goroutine, once for each
	// page.
	State func() *sampler.State
	// Note says that the GPUs are not real, on each page; "" where they are.
	Note string
	// MetricsPath is where the metrics are.
	MetricsPath string
	// Sites says that SitesPath is served, so that the start page leads there.
	Sites bool
	// Location is where the times of day are those of the pages.
	Location *time.Location
	// Logger gets errors of templates, which are mistakes in this program.
	Logger *slog.Logger
}

//go:embed *.html
var pageFiles embed.FS

var pageTemplates = template.Must(template.New("").Funcs(template.FuncMap{
	"predictPath": func() string { return PredictPath },
	"bytes":       func(n uint64) string { return humanize.Bytes(float64(n)) },
}).ParseFS(pageFiles, "*.html"))

// NewPredict serves the page that says who will run out of memory, when, and why: of all memories at PredictPath, and of one memory
// below it. The page of a memory that does not exist is empty: see NewMemory.
func NewPredict(h *Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		only := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, PredictPath), "/")
		render(w, "predict.html", h.view(h.State(), only), h.Logger)
	})
}

// NewMemory serves MemoryPath. It passes requests for an existing memory on to next, a handler of NewPredict, and answers all
// others with status 404. So next keeps nothing of names that somebody made up: package limits keeps the answers of each path apart.
func NewMemory(h *Config, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue(memoryValue)
		for _, d := range h.State().Devices {
			for m := range d.Domains() {
				if fromstate.PathOf(&m) == name {
					next.ServeHTTP(w, r)
					return
				}
			}
		}
		http.Error(w, "There is no such GPU or GPU instance now. See "+PredictPath+" for those there are.", http.StatusNotFound)
	})
}

// render answers with a page, whole or not at all.
func render(w http.ResponseWriter, name string, data any, logger *slog.Logger) {
	var page bytes.Buffer
	if err := pageTemplates.ExecuteTemplate(&page, name, data); err != nil {
		logger.Error("Cannot render the page", "page", name, "err", err)
		http.Error(w, "the page cannot be rendered; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = page.WriteTo(w) // the client has gone; the server notices by itself
}
