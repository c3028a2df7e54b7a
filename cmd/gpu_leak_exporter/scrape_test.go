// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"compress/gzip"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuleak/gpu_leak_exporter/collector"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// testScrape returns the handler of a state, and the registry of what it shows beside.
func testScrape(t *testing.T, state func() *sampler.State, exporterMetrics bool) (*scrape, *prometheus.Registry) {
	t.Helper()
	c, err := collector.New(state, collector.Options{})
	testkit.Must(t, err)
	others := prometheus.NewRegistry()
	s, err := newScrape(c, others, exporterMetrics, slog.New(slog.DiscardHandler))
	testkit.Must(t, err)
	return s, others
}

func answerTo(t *testing.T, h http.Handler, accept, encoding string) (http.Header, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody)
	r.Header.Set("Accept", accept)
	r.Header.Set("Accept-Encoding", encoding)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var body io.Reader = w.Body
	if w.Header().Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		testkit.Must(t, err)
		body = z
	}
	text, err := io.ReadAll(body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d, %v", w.Code, err)
	}
	return w.Header(), string(text)
}

// TestScrapeAsPromhttp holds headers and bytes against promhttp's.
func TestScrapeAsPromhttp(t *testing.T) {
	for _, exporterMetrics := range []bool{true, false} {
		s, others := testScrape(t, fixture, exporterMetrics)
		others.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "between.names", Help: "Dotted."}, func() float64 { return 2 }))
		for _, accept := range []string{
			"", "*/*", "text/plain", "text/plain;version=1.0.0;escaping=allow-utf-8",
			"application/openmetrics-text;version=1.0.0;escaping=underscores;q=0.5,text/plain;q=0.2", "application/openmetrics-text;version=0.0.1",
			"application/openmetrics-text;version=2.0.0",
			"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
		} {
			for _, encoding := range []string{"", "gzip", "identity", "gzip;q=0", "zstd"} {
				head, body := answerTo(t, s, accept, encoding)
				wantHead, want := answerTo(t, s.rest, accept, encoding)
				testkit.Equal(t, head, wantHead, "Accept %q, Accept-Encoding %q: headers", accept, encoding)
				testkit.Equal(t, body, want, "Accept %q, Accept-Encoding %q: body", accept, encoding)
			}
		}
	}
}

// TestScrapeFails has something fail: that costs nothing else.
func TestScrapeFails(t *testing.T) {
	twice := func() *sampler.State {
		s := fixture()
		again := *s.Devices[0]
		s.Devices = append(s.Devices, &again)
		return s
	}
	for name, tc := range map[string]struct {
		state func() *sampler.State
		other prometheus.Collector
	}{
		"another metric":            {fixture, failing{}},
		"a panic of another metric": {fixture, panicking{}},
		"two GPUs alike":            {twice, prometheus.NewGauge(prometheus.GaugeOpts{Name: "fine", Help: "Fine."})},
	} {
		t.Run(name, func(t *testing.T) {
			s, others := testScrape(t, tc.state, true)
			others.MustRegister(tc.other)
			for before, h := range []http.Handler{s, s.rest} {
				_, body := answerTo(t, h, "application/openmetrics-text;version=1.0.0", "")
				for _, want := range []string{"promhttp_metric_handler_errors_total{cause=\"gathering\"} " + []string{"0.0", "1.0"}[before], "gpu_up{"} {
					if !strings.Contains(body, want) {
						t.Errorf("no %s in\n%s", want, body)
					}
				}
				if !strings.HasSuffix(body, "# EOF\n") {
					t.Error("no end")
				}
			}
		})
	}
}

// failing is a metric that cannot be collected.
type failing struct{}

func (failing) Describe(ch chan<- *prometheus.Desc) {
	ch <- prometheus.NewDesc("failing", "Fails.", nil, nil)
}

func (failing) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(prometheus.NewDesc("failing", "Fails.", nil, nil), errors.New("it fails"))
}

// panicking is one whose collection is a mistake of this program.
type panicking struct{ failing }

func (panicking) Collect(chan<- prometheus.Metric) { panic("a mistake") }
