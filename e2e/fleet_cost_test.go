// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

const (
	fleetGPUs = 10_000
	// leaksFor is how long the leaks are on when the exporter starts; 41 GB are free then.
	leaksFor = 2 * time.Hour
	// fleetPast is how much history is read, and fleetFor how long the background is measured.
	fleetPast, fleetFor = "6h", 2 * time.Minute
)

// fakeFleet answers as a Prometheus that has scraped DCGM exporter on nodes with 8 GPUs each, every 15 s. One GPU of
// 100 leaks 200 MiB a minute, from a moment on.
type fakeFleet struct {
	gpus  int
	leaks int64 // when they begin, in seconds since the Unix epoch
}

func (f fakeFleet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.FormValue("query")
	i := strings.LastIndexByte(query, '[')
	span, err := time.ParseDuration(strings.TrimSuffix(query[i+1:], "]"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	at := time.Now().Unix()
	if s, err := strconv.ParseFloat(r.FormValue("time"), 64); err == nil {
		at = int64(s)
	}
	var out io.Writer = w
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		defer z.Close()
		out = z
	}
	b := []byte(`{"status":"success","data":{"resultType":"matrix","result":[`)
	first := true
	for g := range f.gpus {
		for _, metric := range []string{"DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"} {
			if !strings.Contains(query[:i], metric) {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = fmt.Appendf(b, `{"metric":{"__name__":%q,"DCGM_FI_DRIVER_VERSION":"580.95.05","Hostname":"gpu-node-%04d","UUID":"GPU-%08x-7314-46f8-abc4-b88b36dcf3ef","container":"main","device":"nvidia%d","gpu":"%d","instance":"10.0.%d.%d:9400","job":"dcgm-exporter","modelName":"NVIDIA H100 80GB HBM3","namespace":"training","pci_bus_id":"00000000:%02X:00.0","pod":"train-llama-%05d-worker-%d"},"values":[`,
				metric, g/8, g, g%8, g%8, g/8/250, g/8%250, g%8+16, g/8, g%8)
			for t := (at-int64(span.Seconds()))/15*15 + 15; t <= at; t += 15 {
				used := 40000 + g%100*20 + int(t/15+int64(g))%7
				if g%100 == 0 {
					used += int(max(0, t-f.leaks)) * 10 / 3
				}
				if metric == "DCGM_FI_DEV_FB_FREE" {
					used = 81000 - used
				}
				b = fmt.Appendf(b, `[%d.123,"%d"],`, t, used)
			}
			if b[len(b)-1] == ',' {
				b = b[:len(b)-1]
			}
			b = append(b, "]}"...)
			if len(b) > 1<<20 {
				_, _ = out.Write(b)
				b = b[:0]
			}
		}
	}
	_, _ = out.Write(append(b, "]}}"...))
}

// TestFleetCost, which make bench-fleet runs alone, measures what a fleet costs: CPU a second while it is asked for and nobody scrapes, CPU and size of a
// scrape, and memory.
func TestFleetCost(t *testing.T) {
	server := httptest.NewServer(fakeFleet{fleetGPUs, time.Now().Add(-leaksFor).Unix()})
	defer server.Close()
	began := time.Now()
	config := filepath.Join(t.TempDir(), "fleet.yml")
	harness.WriteFile(t, config, "history: "+fleetPast+"\n")
	exporter := harness.StartExporter(t, harness.Options{Args: []string{"--source=prometheus:" + server.URL, "--source.config=" + config}})
	harness.Eventually(t, 10*time.Minute, func() error {
		if strings.Count(exporter.Output(), "The history was read") == 0 {
			return errors.New("the history is being read")
		}
		m, err := exporter.TryScrape()
		if err != nil {
			return err
		}
		if n := len(m.All("gpu_leak_detected", nil)); n != fleetGPUs {
			return fmt.Errorf("%d GPUs have a verdict\n%s", n, exporter.Output())
		}
		return nil
	})
	cpu := func() float64 {
		m, err := harness.ParseMetrics(fetch(t, exporter, "", "identity"))
		harness.Must(t, err)
		v, err := m.Value("process_cpu_seconds_total", nil)
		harness.Must(t, err)
		return v
	}
	t.Logf("all have verdicts after %s and %.1f s of CPU, with %s of history", time.Since(began).Round(time.Second), cpu(), fleetPast)

	const scrapes = 10
	before := cpu()
	size, zipped := 0, 0
	for range scrapes {
		size = len(fetch(t, exporter, "", "identity"))
	}
	plain := (cpu() - before) / (scrapes + 1)
	before = cpu()
	for range scrapes {
		zipped = len(fetch(t, exporter, "", "gzip"))
	}
	packed := (cpu() - before - plain) / scrapes
	m, err := harness.ParseMetrics(fetch(t, exporter, "", "identity"))
	harness.Must(t, err)
	t.Logf("a scrape: %d series, %.1f MB plain in %.0f ms of CPU, %.2f MB with gzip in %.0f ms", len(m), float64(size)/1e6, 1e3*plain, float64(zipped)/1e6, 1e3*packed)

	before, began = cpu(), time.Now()
	time.Sleep(fleetFor)
	used := cpu() - before - plain
	m, err = harness.ParseMetrics(fetch(t, exporter, "", "identity"))
	harness.Must(t, err)
	rss, err := m.Value("process_resident_memory_bytes", nil)
	harness.Must(t, err)
	t.Logf("%d GPUs at 15 s: %.1f ms of CPU a second, %.0f MiB resident, %d leaks", fleetGPUs, 1e3*used/time.Since(began).Seconds(), rss/(1<<20), len(m.All("gpu_leak_rate_bytes_per_second", nil)))
}
