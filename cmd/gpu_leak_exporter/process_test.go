// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// TestProcessCollector says what client_golang's collector says, but for the network.
func TestProcessCollector(t *testing.T) {
	own, err := newProcessCollector()
	if err != nil {
		t.Fatal(err)
	}
	got, want := values(t, own), values(t, collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, name := range []string{"process_network_receive_bytes_total", "process_network_transmit_bytes_total"} {
		delete(want, name)
	}
	for name, w := range want {
		g, ok := got[name]
		// The process goes on between the two.
		if !ok || math.Abs(g.value-w.value) > 0.05*math.Abs(w.value)+1 || g.help != w.help || g.kind != w.kind {
			t.Errorf("%s: %+v, want %+v", name, g, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d metrics, want %d", len(got), len(want))
	}
	before := got["process_open_fds"].value
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if after := values(t, own)["process_open_fds"].value; after != before+1 {
		t.Errorf("%g descriptors, and %g with one more", before, after)
	}
}

// metricValue is a metric without labels.
type metricValue struct {
	value      float64
	help, kind string
}

func values(t *testing.T, c prometheus.Collector) map[string]metricValue {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]metricValue{}
	for _, f := range families {
		m := f.GetMetric()[0]
		all[f.GetName()] = metricValue{m.GetCounter().GetValue() + m.GetGauge().GetValue(), f.GetHelp(), f.GetType().String()}
	}
	return all
}
