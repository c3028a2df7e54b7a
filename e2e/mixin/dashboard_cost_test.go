// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// maxSamples is the default of Prometheus's --query.max-samples: a query that would hold more at once is refused.
const maxSamples = 50_000_000

// What a dashboard is drawn on: Grafana asks for one point of a graph per pixel, but not more often than a scrape.
const (
	screenWidth, gridWidth = 1920, 24
	dashboardsRange        = 6 * time.Hour
)

// points is for how many points Grafana asks for a panel.
func (p panel) points() int {
	if p.MaxDataPoints > 0 {
		return p.MaxDataPoints
	}
	return min(p.GridPos.W*screenWidth/gridWidth, int(dashboardsRange/scrapeInterval))
}

// measuredPoints is for how many the test asks, of the hour that the storage has. What a query holds grows with them.
const measuredPoints = int(time.Hour / scrapeInterval)

// TestDashboardsCost holds what the queries of each dashboard need at once, with all nodes selected, against the number of nodes
// that docs/operating.md names for it.
func TestDashboardsCost(t *testing.T) {
	t.Parallel()
	const nodes = 20 // one of them has leaks
	page, dashboards := costPage(t), readDashboards(t)
	var queries []parser.Expr
	for _, d := range dashboards {
		for _, q := range d.targets() {
			expr, err := parseQuery(q.Expr)
			if err != nil {
				t.Fatalf("%s, %s %s: %v", d.file, q.panel.Title, q.RefID, err)
			}
			queries = append(queries, expr)
		}
	}
	f := newFleet(t, page, nodes, 1, queries...)
	for at := f.end.Add(-time.Hour); !at.After(f.end); at = at.Add(4 * time.Minute) { // a recorded value holds for five
		f.evaluate(t, at)
	}
	stated := statedNodes(t)
	for _, d := range dashboards {
		values := d.choose(page, f.end)
		worst, of := 0, ""
		for _, q := range d.targets() {
			peak := f.peak(t, q.target, replaceVariables(q.Expr, values, ""))
			if !q.Instant {
				peak = peak * q.panel.points() / measuredPoints
			}
			if peak > worst {
				worst, of = peak, q.panel.Title+" "+q.RefID
			}
		}
		if worst == 0 {
			t.Errorf("%s: no query holds a sample", d.file)
			continue
		}
		most := maxSamples / worst * nodes
		t.Logf("%s: %d samples a node (%s), %d nodes", d.file, worst/nodes, of, most)
		if want, ok := stated[d.Title]; !ok || most < want {
			t.Errorf("%s is for %d nodes at most (%s), and docs/operating.md says %d (of it: %t)", d.file, most, of, want, ok)
		}
	}
}

// panelTarget is a query and the panel that it is for.
type panelTarget struct {
	target
	panel panel
}

func (d dashboard) targets() (all []panelTarget) {
	for _, p := range d.panels() {
		for _, q := range p.Targets {
			all = append(all, panelTarget{q, p})
		}
	}
	return all
}

// choose returns the values of variables: all of what there is, where a dashboard has all, or else the first node, which has leaks.
func (d dashboard) choose(page harness.Metrics, end time.Time) map[string]string {
	values := map[string]string{
		"__rate_interval": "1m", "__interval": scrapeInterval.String(), "__range": "1h", "__range_s": "3600",
		"node": costInstance(0), "gpu": page.All("gpu_memory_used_bytes", nil)[0].Labels["uuid"],
		"latest": strconv.FormatInt(end.Unix(), 10), "now": strconv.FormatInt(end.Unix(), 10),
	}
	for _, v := range d.Templating.List {
		if v.IncludeAll {
			values[v.Name] = v.AllValue
		}
	}
	return values
}

// peak returns how many samples a query of a dashboard holds at once.
func (f *fleet) peak(t *testing.T, q target, expr string) int {
	t.Helper()
	opts := promql.NewPrometheusQueryOpts(false, 0)
	query, err := f.meter.engine.NewInstantQuery(t.Context(), f.meter.of, opts, expr, f.end)
	if !q.Instant {
		query, err = f.meter.engine.NewRangeQuery(t.Context(), f.meter.of, opts, expr, f.end.Add(-time.Hour), f.end, scrapeInterval)
	}
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer query.Close()
	if err := query.Exec(t.Context()).Err; err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return query.Stats().Samples.PeakSamples
}

// statedNodes is the table of docs/operating.md: for how many nodes each dashboard is, by its title.
func statedNodes(t *testing.T) map[string]int {
	t.Helper()
	text := harness.ReadFile(t, filepath.Join(harness.Root(), "docs/operating.md"))
	_, table, _ := strings.Cut(text, "<!-- dashboards -->")
	table, _, ok := strings.Cut(table, "<!-- end of dashboards -->")
	if !ok {
		t.Fatal("docs/operating.md has no table of dashboards")
	}
	stated := map[string]int{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \| ([0-9,]+) \|`).FindAllStringSubmatch(table, -1) {
		n, err := strconv.Atoi(strings.ReplaceAll(row[2], ",", ""))
		harness.Must(t, err)
		stated[row[1]] = n
	}
	return stated
}
