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

// startSim runs the exporter on a simulated node until it shows processes, some
// of them in pods, and returns what it shows.
func startSim(t *testing.T) (*harness.Process, harness.Metrics) {
	t.Helper()
	exporter := harness.StartExporter(t, harness.Options{Args: []string{"--source=sim:node", "--source.speed=60"}})
	var m harness.Metrics
	harness.Eventually(t, patience, func() error {
		var err error
		if m, err = exporter.TryScrape(); err != nil {
			return err
		}
		for _, s := range m.All("gpu_process_memory_used_bytes", nil) {
			if s.Labels["pod"] != "" {
				return nil
			}
		}
		return fmt.Errorf("no process in a pod among %d series", len(m))
	})
	return exporter, m
}

// TestExampleConfig scrapes with examples/prometheus.yml, where only the address
// is another: labels arrive as they were exposed, and nothing is added to those
// of a GPU but the target's job and instance.
func TestExampleConfig(t *testing.T) {
	exporter, _ := startSim(t)
	prometheus := harness.Example{Targets: []*harness.Process{exporter}}.StartPrometheus(t)

	processes := query(t, prometheus, `gpu_process_memory_used_bytes{pod!=""}`)
	for _, s := range processes {
		if s.Labels["exported_pod"] != "" {
			t.Errorf("%v: the process's own label was renamed", s.Labels)
		}
	}
	want := map[string]string{"job": "gpu_leak_exporter", "instance": exporter.Address()}
	for _, s := range query(t, prometheus, `gpu_memory_used_bytes`) {
		if !s.Has(want) || len(s.Labels) != len(want)+3 { // __name__, gpu, uuid
			t.Errorf("labels %v, want gpu, uuid and %v", s.Labels, want)
		}
	}
	if down := query(t, prometheus, `up`); down[0].Value != 1 {
		t.Errorf("up is %g", down[0].Value)
	}
}

// TestBacktestPrometheus asks a Prometheus for the memory of GPUs, and gets it with its processes,
// each with the capacity of its GPU.
func TestBacktestPrometheus(t *testing.T) {
	exporter, _ := startSim(t)
	const config = `
scrape_configs:
  - job_name: gpus
    scrape_interval: 1s
    honor_labels: true
    static_configs: [{targets: ['%s']}]
`
	prometheus := harness.StartPrometheus(t, fmt.Sprintf(config, exporter.Address()))
	query(t, prometheus, `count_over_time(gpu_process_memory_used_bytes{pod!=""}[1m]) > 3`)
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

// TestHonorLabels shows why the scrape contract is what it is. Prometheus adds
// the labels of a target to every series that lacks them; a target found through
// Kubernetes often carries the pod and the namespace of the exporter itself.
func TestHonorLabels(t *testing.T) {
	exporter, exposed := startSim(t)
	const config = `
global:
  scrape_interval: 1s
scrape_configs:
  - job_name: honored
    honor_labels: true
    static_configs: [{targets: ['%[1]s']}]
  - job_name: renamed
    honor_labels: false
    static_configs: [{targets: ['%[1]s']}]
  - job_name: honored_with_pod
    honor_labels: true
    static_configs: [{targets: ['%[1]s'], labels: {pod: exporter-pod, namespace: monitoring}}]
  - job_name: renamed_with_pod
    honor_labels: false
    static_configs: [{targets: ['%[1]s'], labels: {pod: exporter-pod, namespace: monitoring}}]
`
	prometheus := harness.StartPrometheus(t, fmt.Sprintf(config, exporter.Address()))

	for _, tc := range []struct {
		job string
		// What becomes of a process's pod "train-0", of a process without a pod
		// (exposed as an empty label) and of a GPU, as pod and exported_pod.
		process, without, gpu func(pod string) (string, string)
	}{
		{
			// The contract: each keeps what it had.
			job: "honored", process: kept, without: none, gpu: none,
		}, {
			// Without labels of the target there is no conflict to resolve.
			job: "renamed", process: kept, without: none, gpu: none,
		}, {
			// The trap. An empty label counts as a label, so that a process
			// without a pod stays so; a GPU's series has none and is blamed on the
			// exporter.
			job: "honored_with_pod", process: kept, without: none, gpu: exporters,
		}, {
			// Every series is the exporter's; who holds memory is in exported_pod.
			job: "renamed_with_pod", process: renamed, without: exporters, gpu: exporters,
		},
	} {
		t.Run(tc.job, func(t *testing.T) {
			got := query(t, prometheus, fmt.Sprintf(`gpu_process_memory_used_bytes{job=%q}`, tc.job))
			seen := 0
			for _, s := range exposed.All("gpu_process_memory_used_bytes", nil) {
				id := map[string]string{"uuid": s.Labels["uuid"], "pid": s.Labels["pid"], "gpu_instance": s.Labels["gpu_instance"]}
				for k, v := range id {
					if v == "" {
						delete(id, k) // Prometheus has no empty labels
					}
				}
				want := tc.process
				if s.Labels["pod"] == "" {
					want = tc.without
				}
				for _, g := range got.All("gpu_process_memory_used_bytes", id) {
					seen++
					checkPod(t, g, s.Labels["pod"], want)
				}
			}
			if seen == 0 {
				t.Error("Prometheus has no process that the exporter showed")
			}
			for _, g := range query(t, prometheus, fmt.Sprintf(`gpu_memory_used_bytes{job=%q}`, tc.job)) {
				checkPod(t, g, "", tc.gpu)
			}
		})
	}
}

func none(string) (pod, exported string)        { return "", "" }
func kept(own string) (pod, exported string)    { return own, "" }
func renamed(own string) (pod, exported string) { return "exporter-pod", own }
func exporters(string) (pod, exported string)   { return "exporter-pod", "" }

func checkPod(t *testing.T, s harness.Sample, own string, want func(string) (string, string)) {
	t.Helper()
	pod, exported := want(own)
	if s.Labels["pod"] != pod || s.Labels["exported_pod"] != exported {
		t.Errorf("%s of pod %q has pod=%q, exported_pod=%q, want %q and %q",
			s.Name, own, s.Labels["pod"], s.Labels["exported_pod"], pod, exported)
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
