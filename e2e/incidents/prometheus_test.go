// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package incidents

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/notifier"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/teststorage"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// server is Prometheus with the example's configuration and the shipped rules.
type server struct {
	t       *testing.T
	storage *teststorage.TestStorage
	seen    map[string]labels.Labels // of the last scrape
	every   time.Duration
	stop    func()
}

// loader gives rule files names that are the same in every checkout: when Prometheus evaluates a group hangs on them.
type loader struct {
	rules.GroupLoader
	parsing parser.Parser
}

func (l loader) Load(name string, _ bool, scheme model.ValidationScheme) (*rulefmt.RuleGroups, []error) {
	return rulefmt.ParseFile(filepath.Join(harness.Root(), "dashboards", name), false, scheme, l.parsing, slog.New(slog.DiscardHandler))
}

func (l loader) Parse(query string) (parser.Expr, error) { return l.parsing.ParseExpr(query) }

func startPrometheus(t *testing.T, am http.Handler) *server {
	t.Helper()
	logger, parsing := slog.New(slog.DiscardHandler), parser.NewParser(parser.Options{})
	conf, err := config.LoadFile(filepath.Join(harness.Root(), "examples/prometheus.yml"), false, logger)
	harness.Must(t, err)
	db, err := teststorage.NewWithError(func(o *tsdb.Options) { o.WALSegmentSize = -1 })
	harness.Must(t, err)
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 5e7, Timeout: 2 * time.Minute, Parser: parsing})
	sender := notifier.NewManager(&notifier.Options{
		QueueCapacity: 10000, Registerer: prometheus.NewRegistry(),
		Do: func(_ context.Context, _ *http.Client, r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			am.ServeHTTP(w, r)
			if w.Code != http.StatusOK {
				t.Errorf("Alertmanager takes no alerts: %d %s", w.Code, w.Body)
			}
			return w.Result(), nil
		},
	}, model.UTF8Validation, logger)
	harness.Must(t, sender.ApplyConfig(conf))
	targets := make(chan map[string][]*targetgroup.Group)
	go sender.Run(targets)
	found := map[string][]*targetgroup.Group{}
	for name := range conf.AlertingConfig.AlertmanagerConfigs.ToMap() {
		found[name] = []*targetgroup.Group{{Targets: []model.LabelSet{{model.AddressLabel: "localhost:9093"}}}}
	}
	targets <- found
	manager := rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(engine, db), Appendable: db, Queryable: db, Context: t.Context(),
		Logger: logger, Parser: parsing, ExternalURL: address("prometheus:9090"), GroupLoader: loader{parsing: parsing},
		NotifyFunc: rules.SendAlerts(sender, "http://prometheus:9090"),
		// Prometheus's own defaults.
		OutageTolerance: time.Hour, ForGracePeriod: 10 * time.Minute, ResendDelay: time.Minute,
	})
	harness.Must(t, manager.Update(time.Duration(conf.GlobalConfig.EvaluationInterval), []string{"alerts.yaml", "rules.yaml"}, labels.EmptyLabels(), "http://prometheus:9090", nil))
	go manager.Run()
	s := &server{t: t, storage: db, every: time.Duration(conf.GlobalConfig.ScrapeInterval)}
	s.stop = func() {
		manager.Stop()
		sender.Stop()
		close(targets)
		_ = engine.Close()
		harness.Must(t, db.Close())
	}
	return s
}

// scrape stores what a registry gathers; nil is a target that does not answer.
func (s *server) scrape(registry prometheus.Gatherer) {
	s.t.Helper()
	now, app := time.Now(), s.storage.Appender(s.t.Context())
	put := func(l labels.Labels, v float64) {
		_, err := app.Append(0, l, now.UnixMilli(), v)
		harness.Must(s.t, err)
	}
	up, seen := 0.0, map[string]labels.Labels{}
	if registry != nil {
		up = 1
		families, err := registry.Gather()
		harness.Must(s.t, err)
		samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnixNano(now.UnixNano())}, families...)
		harness.Must(s.t, err)
		for _, sample := range samples {
			// The target's labels; those of the series stay where they have the same name: honor_labels.
			sample.Metric["job"], sample.Metric["instance"] = "gpu_leak_exporter", instance
			l := labelsOf(sample.Metric)
			seen[l.String()] = l
			put(l, float64(sample.Value))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(s.seen)) {
		if _, ok := seen[key]; !ok {
			put(s.seen[key], math.Float64frombits(value.StaleNaN))
		}
	}
	s.up(app, instance, up)
	harness.Must(s.t, app.Commit())
	s.seen = seen
}

// up stores whether a target answers.
func (s *server) up(app storage.Appender, target string, v float64) {
	s.t.Helper()
	l := labels.FromStrings(model.MetricNameLabel, "up", "job", "gpu_leak_exporter", "instance", target)
	_, err := app.Append(0, l, time.Now().UnixMilli(), v)
	harness.Must(s.t, err)
}

// neighbour stores that another node answers, without which the whole job would be missing.
func (s *server) neighbour() {
	s.t.Helper()
	app := s.storage.Appender(s.t.Context())
	s.up(app, "node-2:9844", 1)
	harness.Must(s.t, app.Commit())
}

func labelsOf(m model.Metric) labels.Labels {
	pairs := make([]string, 0, 2*len(m))
	for name, v := range m {
		if v != "" {
			pairs = append(pairs, string(name), string(v))
		}
	}
	return labels.FromStrings(pairs...)
}
