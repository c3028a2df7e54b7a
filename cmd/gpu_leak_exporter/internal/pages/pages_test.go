// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testConfig has pages of a State, with times that do not depend on where the test runs.
func testConfig(s *sampler.State, note string) *Config {
	return &Config{
		State: func() *sampler.State { return found(s) }, Note: note, MetricsPath: "/metrics",
		Location: time.UTC, Logger: slog.New(slog.DiscardHandler),
	}
}

// found adds to a State what alerts would say of it.
func found(s *sampler.State) *sampler.State {
	for _, d := range s.Devices {
		d.Findings = nil
		for m := range d.Domains() {
			var memory finding.Memory
			if v := &m.Judgement.Device; v.Leak && v.SecondsToOOM.Finite() != nil {
				m.Judgement.Evidence = detector.EvidenceLeak
			}
			if sample := m.Sample(); d.Up && m.Judgement.T > 0 {
				for _, f := range memory.Judge(sample) {
					d.Findings = append(d.Findings, sampler.FindingState{MemoryKey: m.MemoryKey, Finding: f})
				}
			}
		}
	}
	return s
}

func get(h http.Handler, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w
}

var (
	tags   = regexp.MustCompile(`<[^>]*>`)
	spaces = regexp.MustCompile(`\s+`)
)

// words returns what the body of the page says, without its markup.
func words(page string) string {
	_, body, _ := strings.Cut(page, "<body>")
	return spaces.ReplaceAllString(tags.ReplaceAllString(strings.ReplaceAll(body, "\u00a0", " "), " "), " ")
}

// says fails for each text that is missing in another.
func says(t *testing.T, name, got string, want ...string) {
	t.Helper()
	for _, text := range want {
		if !strings.Contains(got, text) {
			t.Errorf("%s: no %q in\n%s", name, text, got)
		}
	}
}

// TestMemoriesThatAreNotThere has somebody ask for a thousand memories: only of those that are there is a page made.
func TestMemoriesThatAreNotThere(t *testing.T) {
	made := map[string]bool{}
	mux := http.NewServeMux()
	mux.Handle("GET "+MemoryPath, NewMemory(testConfig(fixture(), ""), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		made[r.URL.Path] = true
	})))
	for i := range 1000 {
		path := fmt.Sprintf("%s/gpu-%d", PredictPath, i)
		if w := get(mux, path); made[path] != (w.Code == http.StatusOK) {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
	if len(made) != 4 { // GPUs 0, 2, 3 and 4: 1 has its slices in its place
		t.Errorf("pages are made at %v", made)
	}
}
