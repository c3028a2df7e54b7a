// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package incidents

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/alertmanager/alert"
	apiv2 "github.com/prometheus/alertmanager/api/v2"
	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/config/receiver"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/alertmanager/eventrecorder"
	"github.com/prometheus/alertmanager/featurecontrol"
	"github.com/prometheus/alertmanager/inhibit"
	"github.com/prometheus/alertmanager/marker"
	"github.com/prometheus/alertmanager/nflog"
	"github.com/prometheus/alertmanager/notify"
	"github.com/prometheus/alertmanager/notify/webhook"
	"github.com/prometheus/alertmanager/provider/mem"
	"github.com/prometheus/alertmanager/silence"
	"github.com/prometheus/alertmanager/template"
	"github.com/prometheus/alertmanager/timeinterval"
	"github.com/prometheus/client_golang/prometheus"
	commoncfg "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// instance is the target of the node.
const instance = "node-1:9844"

func address(host string) *url.URL { return &url.URL{Scheme: "http", Host: host} }

// message is one notification that reached a webhook.
type message struct {
	at time.Duration // since the start of the play
	webhook.Message
}

// names are the alerts in it that are firing or resolved, in order, each once.
func (m *message) names(status string) []string {
	var names []string
	for _, a := range m.Alerts {
		if a.Status == status {
			names = append(names, a.Labels["alertname"])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// onCall is who the webhooks belong to. Connections to it are pipes in memory.
type onCall struct {
	began       time.Time
	connections chan net.Conn
	closed      chan struct{}
	mu          sync.Mutex
	messages    []message
}

func (o *onCall) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case o.connections <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept, Close and Addr make it a net.Listener.
func (o *onCall) Accept() (net.Conn, error) {
	select {
	case c := <-o.connections:
		return c, nil
	case <-o.closed:
		return nil, net.ErrClosed
	}
}
func (o *onCall) Close() error { close(o.closed); return nil }
func (*onCall) Addr() net.Addr { return &net.UnixAddr{Name: "on-call", Net: "pipe"} }

func (o *onCall) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := message{at: time.Since(o.began)}
	if err := json.NewDecoder(r.Body).Decode(&m.Message); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.messages = append(o.messages, m)
}

// alertmanager is one without peers, wired as its own program does, and stopped by stop.
type alertmanager struct {
	http.Handler
	stop func()
}

func startAlertmanager(t *testing.T, to *onCall) *alertmanager {
	t.Helper()
	conf, err := config.LoadFile(filepath.Join(harness.Root(), "examples/alertmanager.yml"))
	harness.Must(t, err)
	logger, registry, flags, record := slog.New(slog.DiscardHandler), prometheus.NewRegistry(), featurecontrol.NoopFlags{}, eventrecorder.Recorder{}
	tmpl, err := template.FromGlobs(conf.Templates)
	harness.Must(t, err)
	tmpl.ExternalURL = address("alertmanager:9093")
	receivers := map[string][]notify.Integration{}
	for _, r := range conf.Receivers {
		receivers[r.Name], err = receiver.BuildReceiverIntegrations(r, tmpl, logger, commoncfg.WithDialContextFunc(to.dial))
		harness.Must(t, err)
	}
	log, err := nflog.New(nflog.Options{Retention: 5 * 24 * time.Hour, Logger: logger, Metrics: registry})
	harness.Must(t, err)
	silences, err := silence.New(silence.Options{Retention: 5 * 24 * time.Hour, Logger: logger, Metrics: registry})
	harness.Must(t, err)
	silencer, groups := silence.NewSilencer(silences, logger, record), marker.NewGroupMarker()
	alerts, err := mem.NewAlerts(t.Context(), 30*time.Minute, 0, silencer, logger, record, registry, flags)
	harness.Must(t, err)
	inhibitor := inhibit.NewInhibitor(alerts, conf.InhibitRules, logger, record)
	pipeline := notify.NewPipelineBuilder(registry, flags, record).New(receivers, func() time.Duration { return 0 },
		inhibitor, silencer, timeinterval.NewIntervener(nil), groups, log, nil)
	dispatcher := dispatch.NewDispatcher(alerts, dispatch.NewRoute(conf.Route, nil), pipeline, groups,
		func(d time.Duration) time.Duration { return max(d, notify.MinTimeout) }, 30*time.Second, nil, logger, record,
		dispatch.NewDispatcherMetrics(false, registry, flags), tmpl)
	go inhibitor.Run()
	inhibitor.WaitForLoading()
	go dispatcher.Run(time.Now())
	dispatcher.WaitForLoading()
	of := func(ctx context.Context, r func(*dispatch.Route) bool, a func(*alert.Alert, time.Time) bool) (dispatch.AlertGroups, map[model.Fingerprint][]string, error) {
		return dispatcher.Groups(ctx, r, a)
	}
	api, err := apiv2.NewAPI(alerts, of, groups.Muted, silences, nil, logger, registry)
	harness.Must(t, err)
	api.Update(conf, func(ctx context.Context, l model.LabelSet) {
		inhibitor.Mutes(ctx, l)
		silencer.Mutes(ctx, l)
	})
	return &alertmanager{api.Handler, func() {
		dispatcher.Stop()
		inhibitor.Stop()
		alerts.Close()
	}}
}

// notified runs Alertmanager in a bubble while something is done, and returns what the on-call was told.
func notified(t *testing.T, do func(t *testing.T, am *alertmanager)) (messages []message) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		to := &onCall{began: time.Now(), connections: make(chan net.Conn), closed: make(chan struct{})}
		hook := &http.Server{Handler: to}
		go func() { _ = hook.Serve(to) }()
		am := startAlertmanager(t, to)
		do(t, am)
		am.stop()
		_ = hook.Close()
		synctest.Wait()
		messages = to.messages
	})
	return messages
}
