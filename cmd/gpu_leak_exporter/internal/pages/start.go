// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"net/http"

	"github.com/prometheus/common/version"
)

// NewStart serves the start page: the findings, the watched GPUs, and links to all other pages. It has no curves, so it costs less
// than that of NewPredict.
func NewStart(h *Config) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s := h.State()
		render(w, "start.html", &startView{
			findings: findingsOf(s.Report(), shortFindings), Note: h.Note,
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
	MetricsPath        string
	Sites              bool
	Version, Refreshed string
}
