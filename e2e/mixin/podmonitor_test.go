// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"go.yaml.in/yaml/v2"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// podMonitor is what this test reads of a PodMonitor.
type podMonitor struct {
	Spec struct {
		PodMetricsEndpoints []struct {
			Port        string
			HonorLabels bool `yaml:"honorLabels"`
			Relabelings []*relabel.Config
		} `yaml:"podMetricsEndpoints"`
	}
}

// TestPodMonitor holds the example for the operator to the contract of a scrape: the
// labels that the operator gives a target, the exporter's own pod among them, are gone,
// and what the mixin selects is there.
func TestPodMonitor(t *testing.T) {
	text := harness.ReadFile(t, filepath.Join(harness.Root(), "examples/kubernetes/podmonitor.yaml"))
	// The operator writes these names for Prometheus.
	text = strings.NewReplacer("sourceLabels:", "source_labels:", "targetLabel:", "target_label:").Replace(text)
	var m podMonitor
	harness.Must(t, yaml.Unmarshal([]byte(text), &m))
	if len(m.Spec.PodMetricsEndpoints) != 1 || m.Spec.PodMetricsEndpoints[0].Port != "metrics" || !m.Spec.PodMetricsEndpoints[0].HonorLabels {
		t.Fatalf("endpoints %+v", m.Spec.PodMetricsEndpoints)
	}
	rules := m.Spec.PodMetricsEndpoints[0].Relabelings
	for _, r := range rules {
		harness.Must(t, r.Validate(model.UTF8Validation))
	}
	target := labels.FromStrings(
		"__address__", "10.0.0.7:9844", "__meta_kubernetes_pod_node_name", "gpu-node-07",
		"job", "gpu-leak-exporter/gpu-leak-exporter", "namespace", "gpu-leak-exporter",
		"pod", "gpu-leak-exporter-x2k4q", "container", "gpu-leak-exporter", "endpoint", "metrics",
	)
	b := labels.NewBuilder(target)
	keep := relabel.ProcessBuilder(b, rules...)
	got := b.Labels()
	want := labels.FromStrings(
		"__address__", "10.0.0.7:9844", "__meta_kubernetes_pod_node_name", "gpu-node-07",
		"job", "gpu_leak_exporter", "instance", "gpu-node-07",
	)
	if !keep || !labels.Equal(got, want) {
		t.Errorf("target %v, want %v", got, want)
	}
}
