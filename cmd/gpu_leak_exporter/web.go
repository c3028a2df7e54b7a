// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	versioncollector "github.com/prometheus/client_golang/prometheus/collectors/version"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpu_leak_exporter/internal/limits"
	"github.com/gpuleak/gpu_leak_exporter/cmd/gpu_leak_exporter/internal/pages"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// ownPaths are taken: the metrics have another one.
var ownPaths = []string{pages.HealthyPath, pages.ReadyPath, pages.PredictPath, pages.RunbookPath, pages.VerdictsPath, pages.SitesPath, pages.IncidentsPath, pages.IncidentsJSONPath, pages.ReloadPath}

// newHandler returns all that is served. state must not block; each request asks
// it once. reload answers requests to read the configuration again; more are metrics besides those of GPUs.
func newHandler(cfg *config, state func() *sampler.State, reload http.Handler, bounds *limits.Limits, logger *slog.Logger, more ...prometheus.Collector) (http.Handler, error) {
	metrics, err := newMetrics(cfg, state, bounds, logger, more)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET "+cfg.telemetryPath, metrics)
	mux.HandleFunc("GET "+pages.HealthyPath, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, program+" is healthy.")
	})
	mux.HandleFunc("GET "+pages.ReadyPath, ready(state, cfg.source.Timeout))
	mux.Handle("POST "+pages.ReloadPath, reload)
	note, _ := notReal(cfg.source)
	mux.Handle("GET "+pages.VerdictsPath, bounds.Pages(fromstate.Handler(state, note)))
	page := &pages.Config{
		State: state, Note: note,
		MetricsPath: cfg.telemetryPath, Sites: cfg.sites, Location: time.Local, Logger: logger,
	}
	if cfg.sites {
		mux.Handle("GET "+pages.SitesPath, bounds.Pages(pages.NewSites(state)))
	}
	predict := bounds.Pages(pages.NewPredict(page))
	mux.Handle("GET "+pages.StartPath+"{$}", bounds.Pages(pages.NewStart(page)))
	mux.Handle("GET "+pages.PredictPath, predict)
	mux.Handle("GET "+pages.IncidentsPath, bounds.Pages(pages.NewIncidents(page)))
	mux.Handle("GET "+pages.IncidentsJSONPath, bounds.Pages(pages.NewIncidentsJSON(state)))
	mux.Handle("GET "+pages.RunbookPath, bounds.Pages(pages.NewRunbook(logger)))
	mux.Handle("GET "+pages.MemoryPath, pages.NewMemory(page, predict))
	return harden(mux), nil
}

// harden adds headers that keep a browser from running or loading anything that
// is not on the page itself, and all from keeping an answer: it says how things are now.
func harden(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		next.ServeHTTP(w, r)
	})
}

// newMetrics returns the handler of the metrics: those of GPUs, and more, which are about the source of the GPUs.
func newMetrics(cfg *config, state func() *sampler.State, bounds *limits.Limits, logger *slog.Logger, more []prometheus.Collector) (http.Handler, error) {
	_, notReal := notReal(cfg.source)
	c, err := collector.New(state, collector.Options{
		Enabled: cfg.families, ProcessCommand: cfg.workload.Command, Fleet: collector.Fleet{Labels: cfg.source.Fleet.Labels}, ProcessDetail: cfg.processDetail,
		NotReal: notReal,
	})
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	list := append([]prometheus.Collector{versioncollector.NewCollector(program)}, more...)
	if cfg.exporterMetrics {
		list = append(list, collectors.NewGoCollector(), newProcessCollector())
		list = append(list, bounds.Collectors()...)
	}
	for _, c := range list {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("registering metrics: %w", err)
		}
	}
	s, err := newScrape(c, registry, cfg.exporterMetrics, logger)
	if err != nil {
		return nil, err
	}
	if !cfg.exporterMetrics {
		return bounds.Metrics(s), nil
	}
	return promhttp.InstrumentMetricHandler(registry, bounds.Metrics(s)), nil
}

// ready answers whether there is something to scrape, or else 503 with the reason. That no driver is there is something: the
// metrics say so and why. After patience a GPU that has not answered is news, too.
func ready(state func() *sampler.State, patience time.Duration) http.HandlerFunc {
	started := time.Now()
	return func(w http.ResponseWriter, _ *http.Request) {
		if reason := notReady(state()); reason != "" && time.Since(started) < patience {
			http.Error(w, program+" is not ready: "+reason, http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, program+" is ready.")
	}
}

// notReady says what the exporter waits for; "" if it is ready.
func notReady(s *sampler.State) string {
	switch {
	case s.DriverReason == sampler.ReasonStarting:
		return "the driver has not answered yet"
	case s.DriverReason != "" || len(s.Devices)+s.Awaited == 0:
		return ""
	}
	for _, d := range s.Devices {
		if !d.SampleTime.IsZero() {
			return ""
		}
	}
	return "no GPU has been read yet"
}
