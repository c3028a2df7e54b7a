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

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
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

// TestPageOfFleet has a page of 10,000 GPUs: short, and with those that matter.
func TestPageOfFleet(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := &sampler.State{Time: now, Places: []string{"zone", "node"}}
	for i := range 10_000 {
		d := &sampler.DeviceState{
			Info: gpu.Info{Index: i % 8, UUID: fmt.Sprintf("GPU-%d", i), Place: [gpu.MaxPlaceLabels]string{"", fmt.Sprintf("node%d", i/8)}},
			Up:   i < 9_900, SampleTime: now,
		}
		d.Memory.Used, d.Judgement.T = gpu.Some(uint64(5)), 1
		d.Judgement.Device = detector.Verdict{Judged: true, Leak: i == 9_000, Rate: detector.Of(1), Pattern: detector.PatternStable}
		s.Devices = append(s.Devices, d)
	}
	h := testConfig(s, "")
	page := predict(s, "")
	says(
		t, "the page", page, "GPU 0 of node1125", "GPU 4 of node1237 (GPU-9900) cannot be read", "68 more: <a", "9744 more GPUs have no cards",
		`href="/predict/gpu-9000"`,
	)
	if len(page) > 512<<10 {
		t.Errorf("the page has %d bytes", len(page))
	}
	if v := h.view(s, "gpu-9000"); len(v.Cards) != 1 || v.Cards[0].GPU != "GPU 0 of node1125" || v.Cards[0].Verdict != "leaks" {
		t.Errorf("the page of a GPU has %+v", v.Cards)
	}
	d := fromstate.Of(s).Devices[9_000]
	testkit.Equal(t, d.Title, "GPU 0 of node1125", "the title in the JSON")
	testkit.Equal(t, d.Labels, map[string]string{"gpu": "0", "uuid": "GPU-9000", "zone": "", "node": "node1125"}, "the labels in the JSON")
	s.Devices, s.DriverReason = nil, "prometheus_tells_of_no_gpu"
	says(t, "without an answer", predict(s, ""), "The Prometheus of --source tells of no GPU")
}

// TestNamesOfMemories names GPUs in a path and in an identifier: by the index, and in a fleet so that no two are the same.
func TestNamesOfMemories(t *testing.T) {
	place := [gpu.MaxPlaceLabels]string{"10.0.0.1:9400", "", "no de/1"}
	for want, info := range map[string]gpu.Info{
		"gpu-3":                       {Index: 3, UUID: "GPU-a"},
		"gpu-a":                       {Index: 3, UUID: "GPU-a", Place: place},
		"gpu-10.0.0.1-9400-no-de-1-3": {Index: 3, Place: place},
		"gpu-b":                       {Index: -1, UUID: "GPU-b"},
	} {
		if got := fromstate.PathOf(&sampler.Domain{MemoryState: &sampler.MemoryState{}, Device: &sampler.DeviceState{Info: info}}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	names := map[string]bool{}
	for _, of := range []string{"/pods/a/main", "/pods/b/main", "/pods/a-main", "/pods/a main", "/", "/..", "process:7-1"} {
		d := sampler.Domain{MemoryState: &sampler.MemoryState{MemoryKey: sampler.MemoryKey{Of: of}}, Device: &sampler.DeviceState{}}
		name := fromstate.PathOf(&d)
		if names[name] || !regexp.MustCompile(`^[\w.-]+$`).MatchString(name) {
			t.Errorf("%q is the name of the limit %q", name, of)
		}
		names[name] = true
		d.Device.Up, d.Device.Limited = true, []sampler.MemoryState{*d.MemoryState}
		if got := fromstate.Of(&sampler.State{Devices: []*sampler.DeviceState{d.Device}}).Devices[0].Limited[0].Path; got != name {
			t.Errorf("the JSON leads to %q, and the page is %q", got, name)
		}
	}
}
