// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"errors"
	"os"
	"path/filepath"
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
			Relabelings []struct {
				Action, Regex, Replacement string
				TargetLabel                string   `yaml:"targetLabel"`
				SourceLabels               []string `yaml:"sourceLabels"`
			}
		} `yaml:"podMetricsEndpoints"`
	}
}

// rules returns the relabelings as Prometheus takes them from the operator.
func (m podMonitor) rules(t *testing.T) []*relabel.Config {
	t.Helper()
	var all []*relabel.Config
	for _, r := range m.Spec.PodMetricsEndpoints[0].Relabelings {
		c := relabel.DefaultRelabelConfig
		c.NameValidationScheme = model.UTF8Validation
		c.TargetLabel = r.TargetLabel
		if r.Action != "" {
			c.Action = relabel.Action(r.Action)
		}
		if r.Regex != "" {
			c.Regex = relabel.MustNewRegexp(r.Regex)
		}
		if r.Replacement != "" {
			c.Replacement = r.Replacement
		}
		for _, name := range r.SourceLabels {
			c.SourceLabels = append(c.SourceLabels, model.LabelName(name))
		}
		if err := c.Validate(model.UTF8Validation); err != nil {
			t.Fatal(err)
		}
		all = append(all, &c)
	}
	return all
}

// TestPodMonitor holds the example for the operator to the contract of a scrape: the
// labels that the operator gives a target, the exporter's own pod among them, are gone,
// and what the mixin selects is there.
func TestPodMonitor(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(harness.Root(), "examples/kubernetes/podmonitor.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var m podMonitor
	if err := errors.Join(yaml.Unmarshal(text, &m), yaml.UnmarshalStrict(text, &map[string]any{})); err != nil {
		t.Fatal(err)
	}
	if len(m.Spec.PodMetricsEndpoints) != 1 || m.Spec.PodMetricsEndpoints[0].Port != "metrics" || !m.Spec.PodMetricsEndpoints[0].HonorLabels {
		t.Fatalf("endpoints %+v", m.Spec.PodMetricsEndpoints)
	}
	target := labels.FromStrings(
		"__address__", "10.0.0.7:9844", "__meta_kubernetes_pod_node_name", "gpu-node-07",
		"job", "gpu-leak-exporter/gpu-leak-exporter", "namespace", "gpu-leak-exporter",
		"pod", "gpu-leak-exporter-x2k4q", "container", "gpu-leak-exporter", "endpoint", "metrics",
	)
	b := labels.NewBuilder(target)
	keep := relabel.ProcessBuilder(b, m.rules(t)...)
	got := b.Labels()
	want := labels.FromStrings(
		"__address__", "10.0.0.7:9844", "__meta_kubernetes_pod_node_name", "gpu-node-07",
		"job", "gpu_leak_exporter", "instance", "gpu-node-07",
	)
	if !keep || !labels.Equal(got, want) {
		t.Errorf("target %v, want %v", got, want)
	}
}
