// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"context"
	"log/slog"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/util/teststorage"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// scrapeInterval is that of examples/prometheus.yml; rules are evaluated as often.
const scrapeInterval = 15 * time.Second

// began is when evaluations begin, and errorAt when something falls ill.
var (
	began   = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	errorAt = float64(began.Add(10 * time.Minute).Unix())
)

// evaluation evaluates one shipped alert on series of its own, at times that the test
// gives.
type evaluation struct {
	t       *testing.T
	storage *teststorage.TestStorage
	group   *rules.Group
	rule    *rules.AlertingRule
	now     time.Time

	engine     *promql.Engine
	dashboards []dashboard
}

// loadGroups returns the groups of rules in files of dashboards/, over a storage.
func loadGroups(t *testing.T, storage *teststorage.TestStorage, query rules.QueryFunc, files ...string) (groups []*rules.Group) {
	t.Helper()
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: query, Appendable: storage, Queryable: storage, Context: t.Context(), Logger: slog.New(slog.DiscardHandler),
		Parser: parser.NewParser(parser.Options{}), NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	for _, file := range files {
		found, errs := manager.LoadGroups(scrapeInterval, labels.EmptyLabels(), "", nil, false, filepath.Join(shipped(), file))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		for _, g := range found {
			groups = append(groups, g)
			for _, r := range g.AlertingRules() {
				r.SetRestored(true) // without it there is no series ALERTS
			}
		}
	}
	return groups
}

func newEvaluation(t *testing.T, alert, severity string) *evaluation {
	t.Helper()
	storage, parsing := teststorage.New(t), parser.NewParser(parser.Options{})
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, Parser: parsing})
	t.Cleanup(func() { _ = engine.Close() })
	for _, g := range loadGroups(t, storage, rules.EngineQueryFunc(engine, storage), "alerts.yaml") {
		for _, r := range g.AlertingRules() {
			if r.Name() == alert && r.Labels().Get("severity") == severity {
				return &evaluation{t, storage, g, r, began, engine, readDashboards(t)}
			}
		}
	}
	t.Fatalf("there is no alert %s (%s)", alert, severity)
	return nil
}

// scrape stores these values of the alert's series, evaluates the alert at that time,
// and lets the interval pass. A scrape that fails stores the markers of stale series.
func (e *evaluation) scrape(series map[string]float64, failed bool) {
	e.t.Helper()
	app := e.storage.Appender(e.t.Context())
	for name, v := range series {
		if failed {
			v = math.Float64frombits(value.StaleNaN)
		}
		l, err := parser.NewParser(parser.Options{}).ParseMetric(name)
		harness.Must(e.t, err)
		l = labels.NewBuilder(l).Set("job", "gpu_leak_exporter").Set("instance", "node-1:9844").Set("gpu", "0").Set("uuid", "GPU-a").Labels()
		if _, err := app.Append(0, l, e.now.UnixMilli(), v); err != nil {
			e.t.Fatal(err)
		}
	}
	harness.Must(e.t, app.Commit())
	e.group.Eval(e.t.Context(), e.now)
	e.now = e.now.Add(scrapeInterval)
}

// until scrapes these values until a time after the start, that scrape included, and
// fails the test unless the alert is in one state all along.
func (e *evaluation) until(end time.Duration, series map[string]float64, failed bool, want rules.AlertState) {
	e.t.Helper()
	for !e.now.After(began.Add(end)) {
		at := e.now.Sub(began)
		e.scrape(series, failed)
		if got := e.rule.State(); got != want {
			e.t.Fatalf("after %s the alert is %s, want %s", at, got, want)
		}
	}
}

// TestMixinFailedScrapes has scrapes fail at times while an alert is pending and while
// it fires: neither does it start anew nor does it end. When its cause has gone, it ends
// after keep_firing_for, and not before.
func TestMixinFailedScrapes(t *testing.T) {
	t.Parallel()
	e := newEvaluation(t, "GPURowRemapFailed", "critical")
	well, ill := map[string]float64{"gpu_row_remap_failed": 0}, map[string]float64{"gpu_row_remap_failed": 1}
	wait, keep := e.rule.HoldDuration(), e.rule.KeepFiringFor()
	back := time.Duration(0) // how far the expression looks back: so long after its last bad sample its condition holds
	parser.Inspect(e.rule.Query(), func(n parser.Node, _ []parser.Node) error {
		if m, ok := n.(*parser.MatrixSelector); ok {
			back = max(back, m.Range)
		}
		return nil
	})
	if wait < 4*scrapeInterval || back < 4*scrapeInterval {
		t.Fatalf("for is %s, and the alert looks back for %s: a failed scrape or two end it", wait, back)
	}
	const healthy = 5 * time.Minute
	e.until(healthy-scrapeInterval, well, false, rules.StateInactive)
	// It is ill from here on. Two scrapes fail on the way.
	e.until(healthy+scrapeInterval, ill, false, rules.StatePending)
	e.until(healthy+3*scrapeInterval, ill, true, rules.StatePending)
	e.until(healthy+wait-scrapeInterval, ill, false, rules.StatePending)
	fires := healthy + wait
	e.until(fires, ill, false, rules.StateFiring)
	// All scrapes fail for as long as the expression looks back, less one.
	e.until(fires+back-scrapeInterval, ill, true, rules.StateFiring)
	last := fires + back
	e.until(last, ill, false, rules.StateFiring)
	// It is well again from here on.
	e.until(last+keep, well, false, rules.StateFiring)
	e.until(last+keep+time.Minute, well, false, rules.StateInactive)
}
