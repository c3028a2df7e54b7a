// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"cmp"
	"maps"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
)

// TestPanelsSayWhatAlertsSay has a page fire while the detector foretells nothing any more, and go on after its own last
// sample: until it ends, the panels say what it says.
func TestPanelsSayWhatAlertsSay(t *testing.T) {
	t.Parallel()
	e := newEvaluation(t, "GPUOutOfMemoryPredicted", "critical")
	well := map[string]float64{
		"gpu_up": 1, "gpu_driver_up": 1, "gpu_memory_used_bytes": 7e10, "gpu_memory_total_bytes": 8e10, "gpu_seconds_to_oom": math.Inf(1), "gpu_leak_confidence": 0,
	}
	ill := maps.Clone(well)
	ill["gpu_predicted_oom_seconds"] = 1800
	e.until(10*time.Minute, well, false, rules.StateInactive)
	for e.now.Before(e.started.Add(20 * time.Minute)) {
		e.scrape(ill, false)
		e.agrees()
	}
	e.scrape(map[string]float64{"gpu_predicted_oom_seconds": 0}, true)
	for e.rule.State() == rules.StateFiring {
		e.scrape(well, false)
		e.agrees()
	}
	if got := e.ask("leak.json", "Time left", "A"); !math.IsInf(got.F, 1) {
		t.Errorf("after the end: %v", got)
	}
}

// agrees holds the panels against the page, if it fires.
func (e *evaluation) agrees() {
	e.t.Helper()
	if e.rule.State() != rules.StateFiring {
		return
	}
	for _, want := range []struct {
		file, panel, query, process string
		value                       float64
	}{
		{"leak.json", "Time left", "A", "", 1800},
		{"leak.json", "Culprit", "A", "train.py", 1800},
		{"leak.json", "Time to out-of-memory", "A", "", 0.5},
		{"fleet.json", "Full in an hour", "A", "", 1},
		{"fleet.json", "Full in a day", "A", "", 1},
		{"fleet.json", "GPUs and who uses them", "A", "", 1800},
		{"fleet.json", "GPUs and who uses them", "F", "train.py", 1800},
		{"fleet.json", "Lowest time to out-of-memory by node", "A", "", 0.5},
	} {
		got := e.ask(want.file, want.panel, want.query)
		if process := got.Metric.Get("process"); got.F != want.value || want.process != "" && process != want.process {
			e.t.Fatalf("%s after the start, %s, %s says %v %q, want %v %q", e.now.Sub(e.started), want.file, want.panel, got.F, process, want.value, want.process)
		}
	}
}

// ask asks a query of a panel as of the last scrape. It has one result.
func (e *evaluation) ask(file, title, ref string) promql.Sample {
	e.t.Helper()
	at := e.now.Add(-scrapeInterval)
	now := strconv.FormatInt(at.Unix(), 10)
	values := map[string]string{"node": "node-1:9844", "gpu": "GPU-a", "now": now, "latest": now}
	for _, d := range readDashboards(e.t) {
		for _, q := range d.targets() {
			if d.file != file || q.panel.Title != title || q.RefID != ref {
				continue
			}
			expr := replaceVariables(q.Expr, func(name string) string {
				if strings.Trim(name, "0123456789") == "" {
					return "$" + name // of label_replace
				}
				return cmp.Or(values[name], ".*")
			})
			engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, Parser: parser.NewParser(parser.Options{})})
			defer engine.Close()
			query, err := engine.NewInstantQuery(e.t.Context(), e.storage, promql.NewPrometheusQueryOpts(false, 0), expr, at)
			if err != nil {
				e.t.Fatal(err)
			}
			defer query.Close()
			found, err := query.Exec(e.t.Context()).Vector()
			if err != nil || len(found) != 1 {
				e.t.Fatalf("%s, %s: %v %v", file, title, found, err)
			}
			return found[0]
		}
	}
	e.t.Fatalf("%s has no %s %s", file, title, ref)
	return promql.Sample{}
}
