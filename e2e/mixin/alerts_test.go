// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// said is what a query of a panel says while an alert fires: its value, and names if that is not empty, by one of its labels.
type said struct {
	file, panel, query string
	value              float64
	names              string
}

// blamed is what the panels say of each memory that an alert is on, and full of one that will be full.
func blamed(value float64, why string, more ...said) []said {
	return append(more, said{"leak.json", "Culprit", "A", value, "train.py"}, said{"fleet.json", "GPUs and who uses them", "F", value, "train.py"}, said{"fleet.json", "GPUs and who uses them", "F", value, why})
}

func full(seconds, withinHour float64, why string) []said {
	return blamed(seconds, why, said{"leak.json", "Time left", "A", seconds, ""}, said{"leak.json", "Time to out-of-memory", "A", seconds / 3600, ""},
		said{"fleet.json", "Full in an hour", "A", withinHour, ""}, said{"fleet.json", "Full in a day", "A", 1, ""},
		said{"fleet.json", "GPUs and who uses them", "A", seconds, ""}, said{"fleet.json", "Lowest time to out-of-memory by node", "A", seconds / 3600, ""})
}

// unhealthy is what they say of a GPU with a problem, and health is a panel of the dashboard on that.
func unhealthy(problem string, more ...said) []said {
	return append(more, said{"fleet.json", "Unhealthy GPUs", "A", math.NaN(), problem})
}

func health(panel string, value float64) said { return said{"health.json", panel, "A", value, ""} }

// series are values by what is scraped, and spoken what the panels say of each alert, by what is ill.
type series = map[string]float64

var spoken = map[string]struct {
	alert, severity string
	ill             series
	says            []said
}{
	"a leak, page":         {"GPUOutOfMemoryPredicted", "critical", series{`gpu_predicted_oom_seconds{evidence="leak", process="train.py"}`: 1800}, full(1800, 1, "leak")},
	"a leak, ticket":       {"GPUOutOfMemoryPredicted", "warning", series{`gpu_predicted_oom_seconds{evidence="leak", process="train.py"}`: 7200}, full(7200, 0, "leak")},
	"it fills":             {"GPUOutOfMemoryPredicted", "critical", series{`gpu_predicted_oom_seconds{evidence="filling", process="train.py"}`: 600}, full(600, 1, "filling")},
	"it leaks":             {"GPUMemoryLeakDetected", "warning", series{`gpu_leaking_bytes_per_second{process="train.py"}`: 1e6}, blamed(1e6, "leak", said{"fleet.json", "Leaks", "A", 1, ""})},
	"a zombie":             {"GPUMemoryHeldByNobody", "warning", series{`gpu_memory_held_bytes{state="zombie", process="train.py"}`: 2e9}, blamed(2e9, "zombie", said{"fleet.json", "Memory held by nobody", "A", 2e9, "train.py"})},
	"nearly full":          {"GPUMemoryNearlyFull", "warning", series{`gpu_memory_state{state="nearly_full", process="train.py"}`: 1}, blamed(1, "nearly_full")},
	"a crash loop":         {"GPUOutOfMemoryCrashLoop", "warning", series{`gpu_memory_state{state="crash_loop", process="train.py"}`: 1}, blamed(1, "crash_loop")},
	"an XID error, page":   {"GPUXIDCritical", "critical", series{`gpu_xid_errors_total{xid="79"}`: 1, `gpu_xid_last_timestamp_seconds{xid="79"}`: errorAt}, unhealthy("XID 79 in the last hour", health("XID errors", math.NaN()), health("Last XID errors", 1))},
	"an XID error, ticket": {"GPUXIDWarning", "warning", series{`gpu_xid_errors_total{xid="61"}`: 1, `gpu_xid_last_timestamp_seconds{xid="61"}`: errorAt}, unhealthy("XID 61 in the last hour", health("XID errors", math.NaN()))},
	"memory errors":        {"GPUECCUncorrectable", "critical", series{`gpu_ecc_errors_total{type="uncorrected", counter="volatile"}`: 1}, unhealthy("memory errors without correction", health("Uncorrected errors", 1))},
	"memory errors, MIG":   {"GPUECCUncorrectable", "critical", series{`gpu_ecc_errors_total{type="uncorrected", counter="aggregate"}`: 1}, unhealthy("memory errors without correction", health("Uncorrected errors", 1))},
	"memory errors, XID":   {"GPUECCUncorrectable", "critical", series{`gpu_xid_last_timestamp_seconds{xid="48"}`: errorAt}, unhealthy("XID 48 in the last hour", health("Uncorrected errors", 1))},
	"a row":                {"GPURowRemapFailed", "critical", series{"gpu_row_remap_failed": 1}, unhealthy("a row of its memory cannot be repaired", said{"health.json", "Memory repair", "F", 1, ""})},
	"a row, XID":           {"GPURowRemapFailed", "critical", series{"gpu_row_remap_failed": 0, `gpu_xid_last_timestamp_seconds{xid="64"}`: errorAt}, unhealthy("XID 64 in the last hour", said{"health.json", "Memory repair", "F", 1, ""})},
	"a recovery":           {"GPURecoveryActionNeeded", "warning", series{"gpu_recovery_action": 2}, unhealthy("the driver asks for a recovery", health("To recover", 1), health("State", 2))},
	"a row that waits":     {"GPURecoveryActionNeeded", "warning", series{"gpu_recovery_action": 0, "gpu_row_remap_pending": 1}, unhealthy("needs a reset to repair its memory", health("To recover", 1), health("State", 1))},
	"a page that waits":    {"GPURecoveryActionNeeded", "warning", series{"gpu_retired_pages_pending": 1}, unhealthy("needs a reset to repair its memory", health("To recover", 1), health("State", 1))},
	"heat":                 {"GPUThermalThrottling", "warning", series{`gpu_clock_event_active{reason="hw_thermal_slowdown"}`: 0.5}, unhealthy("throttled: hw_thermal_slowdown", health("Throttled", 1))},
	"a lost GPU":           {"GPULost", "critical", series{"gpu_up": 0}, unhealthy("does not answer", said{"fleet.json", "Do not answer", "A", 1, ""}, health("State", 9))},
	"no driver":            {"GPUDriverDown", "critical", series{"gpu_driver_up": 0, `gpu_driver_error{reason="no_library"}`: 1}, unhealthy("driver does not answer: no_library", said{"exporter.json", "Drivers down", "A", 1, ""})},
	"no exporter":          {"GPUExporterDown", "warning", series{"up": 0}, unhealthy("is not scraped", said{"fleet.json", "Do not answer", "B", 1, ""}, said{"exporter.json", "Not scraped", "A", 1, ""})},
	"a collector":          {"GPUCollectorFailing", "warning", series{`gpu_collector_success{collector="ecc"}`: 0}, []said{{"exporter.json", "Collectors that fail", "A", 1, "ecc"}}},
}

// TestPanelsSayWhatAlertsSay has each alert fire while all else is well. Until what it says is over, or for one on memory until
// it is resolved, the panels say what it says.
func TestPanelsSayWhatAlertsSay(t *testing.T) {
	t.Parallel()
	for name, c := range spoken {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEvaluation(t, c.alert, c.severity)
			well := series{"up": 1, "gpu_up": 1, "gpu_driver_up": 1, "gpu_memory_used_bytes": 7e10, "gpu_memory_total_bytes": 8e10, "gpu_seconds_to_oom": math.Inf(1), "gpu_leak_confidence": 0}
			ill := maps.Clone(well)
			for series, v := range c.ill {
				ill[series] = v
				if strings.Contains(series, "_total") {
					well[series] = 0
				}
			}
			e.until(10*time.Minute, well, false, rules.StateInactive)
			for fires := 0; fires < 12; e.agrees(c.says) {
				e.scrape(ill, false)
				if e.rule.State() == rules.StateFiring {
					fires++
				} else if e.group.Name() == "gpu-memory" || e.now.After(began.Add(time.Hour)) {
					t.Fatal("it does not fire")
				}
			}
			e.scrape(c.ill, true)
			if last := e.now; e.group.Name() == "gpu-memory" {
				for e.now.Before(last.Add(5 * time.Minute)) {
					e.scrape(well, false)
					e.agrees(c.says)
					fires := e.rule.State() == rules.StateFiring
					if since := e.now.Sub(last); fires && since > 4*time.Minute+scrapeInterval || !fires && since < 2*time.Minute {
						t.Fatalf("%s after its last sample it fires: %t", since, fires)
					}
				}
				if got := e.query(said{file: "leak.json", panel: "Time left", query: "A"}.expr(e.dashboards)); len(got) != 1 || !math.IsInf(got[0].F, 1) {
					t.Errorf("after the end: %v", got)
				}
			} else if strings.HasPrefix(e.group.Name(), "gpu-health") {
				e.agrees(c.says) // though a scrape failed
			}
		})
	}
}

// agrees holds the panels against the alert, if it fires. No number is any value of what is named, and else one that is not 0.
func (e *evaluation) agrees(says []said) {
	e.t.Helper()
	if e.rule.State() != rules.StateFiring {
		return
	}
	for _, want := range says {
		got := e.query(want.expr(e.dashboards))
		if !slices.ContainsFunc(got, func(s promql.Sample) bool {
			named := want.names == ""
			s.Metric.Range(func(l labels.Label) { named = named || l.Value == want.names })
			return named && (s.F == want.value || math.IsNaN(want.value) && (want.names != "" || s.F != 0))
		}) {
			e.t.Fatalf("%s after the start, %s, %s says %v, want %v %q", e.now.Sub(began), want.file, want.panel, got, want.value, want.names)
		}
	}
}

// expr is the query of the panel.
func (w said) expr(dashboards []dashboard) string {
	for _, d := range dashboards {
		for _, q := range d.targets() {
			if d.file == w.file && q.panel.Title == w.panel && q.RefID == w.query {
				return q.Expr
			}
		}
	}
	return w.file + " has no " + w.panel
}

// query asks a query of a dashboard as of the last scrape.
func (e *evaluation) query(expr string) promql.Vector {
	e.t.Helper()
	at, values := e.now.Add(-scrapeInterval), builtIn()
	now := strconv.FormatInt(at.Unix(), 10)
	maps.Copy(values, map[string]string{"node": "node-1:9844", "gpu": "GPU-a", "now": now, "latest": now, "__range": "1h"})
	query, err := e.engine.NewInstantQuery(e.t.Context(), e.storage, promql.NewPrometheusQueryOpts(false, 0), replaceVariables(expr, values, ".*"), at)
	harness.Must(e.t, err)
	defer query.Close()
	found, err := query.Exec(e.t.Context()).Vector()
	if err != nil {
		e.t.Fatalf("%s: %v", expr, err)
	}
	return slices.Clone(found)
}

// TestPanelsWithoutData asks what panels show where nothing is scraped: a text, and not that there is none. Grafana says "Data does not
// have a time field" of a timeline without a series, and of a graph of one moment.
func TestPanelsWithoutData(t *testing.T) {
	t.Parallel()
	e := newEvaluation(t, "GPULost", "critical")
	for _, d := range e.dashboards {
		for _, p := range d.panels() {
			var found promql.Vector
			for _, q := range p.Targets {
				found = append(found, e.query(q.Expr)...)
				if strings.Contains(p.Type, "time") && (q.Instant || q.Format == "table") {
					t.Errorf("%s, %q %s asks for one moment", d.file, p.Title, q.RefID)
				}
			}
			switch {
			case p.Type == "state-timeline":
				if len(found) != 1 || found[0].F != -1 {
					t.Errorf("%s, %q has no state: %v", d.file, p.Title, found)
				}
			case p.Title == "Culprit" && found[0].Metric.Get("process") == "not judged":
			case len(found) > 0 || p.FieldConfig.Defaults.NoValue == "" || strings.HasPrefix(p.FieldConfig.Defaults.NoValue, "None."):
				t.Errorf("%s, %q shows %v %q", d.file, p.Title, found, p.FieldConfig.Defaults.NoValue)
			}
		}
	}
}

// TestEndedWhileFull has Grafana ask in steps of a quarter of an hour when a process ended: the mark is right to one scrape.
func TestEndedWhileFull(t *testing.T) {
	t.Parallel()
	e := newEvaluation(t, "GPULost", "critical")
	for e.now.Before(began.Add(time.Hour)) {
		e.scrape(map[string]float64{"gpu_process_exits_near_capacity_total": math.Floor(e.now.Sub(began).Minutes() / 47)}, false)
	}
	expr := strings.NewReplacer("$__interval_ms", "900000", "$__interval", "15m").Replace(e.dashboards[3].Annotations.List[1].Expr)
	if found := e.query(expr); len(found) != 1 || math.Abs(found[0].F/1000-float64(began.Add(47*time.Minute).Unix())) > scrapeInterval.Seconds() {
		t.Errorf("%v, and it ended at %d", found, began.Add(47*time.Minute).Unix())
	}
}
