// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestPrometheus scrapes a simulated node with examples/prometheus.yml, where only the address and the interval are others: labels
// arrive as they were exposed, and nothing is added to those of a GPU but the target's job and instance. Then the tool asks that
// Prometheus for the memory of GPUs, and gets it with its processes, each with the capacity of its GPU.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	exporter := harness.StartExporter(t, harness.Options{Args: []string{"--source=sim:node", "--source.speed=60"}})
	prometheus := harness.StartPrometheus(t, harness.ExampleConfig(t, "rules", exporter))
	// The tool judges no process before the detector's first block of 10 s is full.
	for _, s := range query(t, prometheus, `count_over_time(gpu_process_memory_used_bytes{pod!=""}[1m]) > 15`) {
		equal(t, s.Labels["exported_pod"], "", "%v: the process's own label, renamed", s.Labels)
	}
	want := map[string]string{"job": "gpu_leak_exporter", "instance": exporter.Address()}
	for _, s := range query(t, prometheus, `gpu_memory_used_bytes`) {
		if !s.Has(want) || len(s.Labels) != len(want)+3 { // __name__, gpu, uuid
			t.Errorf("labels %v, want gpu, uuid and %v", s.Labels, want)
		}
	}

	cmd := exec.Command(harness.Tool(t), "backtest", "--prometheus.url="+prometheus.URL, `--query=gpu_memory_used_bytes{instance="`+exporter.Address()+`"}`,
		"--start=-1m", "--query-step=1s", "--output=json")
	out, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() != 3) { // a minute is too short for a verdict
		t.Fatalf("%s: %v: %s", cmd, err, out)
	}
	gpus, processes := map[string]bool{}, 0
	for text := range strings.Lines(string(out)) {
		var line struct {
			Series   map[string]string
			Capacity float64 `json:"capacity_bytes"`
		}
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if line.Series["uuid"] == "" || line.Series["instance"] != exporter.Address() || line.Series["__name__"] != "" {
			t.Errorf("series %v", line.Series)
		}
		if line.Series["pid"] == "" {
			gpus[line.Series["gpu"]] = true
		} else if processes++; line.Capacity == 0 {
			t.Errorf("%v has no capacity", line.Series)
		}
	}
	if len(gpus) != 8 || processes < 8 {
		t.Errorf("%d GPUs, %d lines of processes: %s", len(gpus), processes, out)
	}
}

// query waits until Prometheus has an answer.
func query(t *testing.T, prometheus *harness.Process, expr string) harness.Metrics {
	t.Helper()
	var m harness.Metrics
	harness.Eventually(t, patience, func() error {
		var err error
		if m, err = prometheus.Query(expr); err == nil && len(m) == 0 {
			err = fmt.Errorf("%s: no series", expr)
		}
		return err
	})
	return m
}
