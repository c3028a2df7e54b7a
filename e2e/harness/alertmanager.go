// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// StartAlertmanager runs the real Alertmanager with this configuration, alone, on a
// free port of 127.0.0.1 until the end of the test, and returns once it is ready.
func StartAlertmanager(t testing.TB, config string) *Process {
	t.Helper()
	return startConfigured(t, "alertmanager", config, "--storage.path=data", "--cluster.listen-address=")
}

// groupTimes are how long the example waits before it sends the notification of a
// group, and before it sends what has changed in it.
var groupTimes = regexp.MustCompile(`(group_wait|group_interval): \w+`)

// StartExampleAlertmanager runs Alertmanager with examples/alertmanager.yml, but that
// it sends to the webhook and waits for the rest of a group for a second only.
func StartExampleAlertmanager(t testing.TB, to *Webhook) *Process {
	t.Helper()
	text := ReadExample(t, "alertmanager.yml")
	if n := len(groupTimes.FindAllString(text, -1)); n != 4 {
		t.Fatalf("the example waits in %d places, want 4", n)
	}
	text = groupTimes.ReplaceAllString(text, "$1: 1s")
	for _, receiver := range []string{"/pager", "/tickets"} {
		text = Replace(t, text, "http://localhost:8060"+receiver, to.URL+receiver, 1)
	}
	return StartAlertmanager(t, text)
}

// Alert is an alert as Alertmanager takes and sends it.
type Alert struct {
	Status      string            `json:"status,omitempty"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
	StartsAt    time.Time         `json:"startsAt,omitzero"`
	EndsAt      time.Time         `json:"endsAt,omitzero"`
}

// Has reports whether the alert carries these labels, and maybe more.
func (a Alert) Has(labels map[string]string) bool { return Sample{Labels: a.Labels}.Has(labels) }

// Notification is what Alertmanager sends to a webhook: the alerts of a group. The
// format is that of its documentation, version 4.
type Notification struct {
	Receiver    string            `json:"receiver"`
	Status      string            `json:"status"`
	GroupLabels map[string]string `json:"groupLabels"`
	Alerts      []Alert           `json:"alerts"`
}

// Webhook is a service that takes notifications. Its methods may be called at any
// time.
type Webhook struct {
	// URL is where it listens, without a slash at the end. Any path will do.
	URL string

	mu       sync.Mutex
	received []Notification
	errs     []error
}

// StartWebhook runs a webhook until the end of the test.
func StartWebhook(t testing.TB) *Webhook {
	t.Helper()
	w := &Webhook{}
	server := httptest.NewServer(w)
	w.URL = server.URL
	t.Cleanup(func() {
		server.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, err := range w.errs {
			t.Error(err)
		}
	})
	return w
}

// ServeHTTP implements http.Handler.
func (w *Webhook) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var n Notification
	err := json.NewDecoder(r.Body).Decode(&n)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.errs = append(w.errs, fmt.Errorf("notification to %s: %w", r.URL.Path, err))
		return
	}
	if want := strings.TrimPrefix(r.URL.Path, "/"); n.Receiver != want {
		w.errs = append(w.errs, fmt.Errorf("notification for %q came to %s", n.Receiver, r.URL.Path))
	}
	w.received = append(w.received, n)
}

// Notifications returns what has come so far, in order.
func (w *Webhook) Notifications() []Notification {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.received)
}

// Sent returns the alerts of that status with these labels that came for a receiver
// so far; an alert comes again with each change of its group.
func (w *Webhook) Sent(receiver, status string, labels map[string]string) []Alert {
	var alerts []Alert
	for _, n := range w.Notifications() {
		for _, a := range n.Alerts {
			if n.Receiver == receiver && a.Status == status && a.Has(labels) {
				alerts = append(alerts, a)
			}
		}
	}
	return alerts
}

// PostAlerts gives alerts to Alertmanager as Prometheus does.
func (p *Process) PostAlerts(t testing.TB, alerts ...Alert) {
	t.Helper()
	body, err := json.Marshal(alerts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.URL+"/api/v2/alerts", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("POST %s: %s", req.URL, resp.Status)
	}
}
