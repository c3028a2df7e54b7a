// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package incidents

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/alertmanager/template"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// alertOn returns the labels of an alert of ours on a GPU of the node, but for more, name after name and value: no value takes a label
// away.
func alertOn(name, severity string, more ...string) template.KV {
	labels := template.KV{"alertname": name, "severity": severity, "job": "gpu_leak_exporter", "instance": instance, "uuid": "GPU-a"}
	for i := 0; i < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
	return labels
}

// post gives alerts to Alertmanager as Prometheus does. They hold for so long, or are over.
func (am *alertmanager) post(t *testing.T, lasts time.Duration, alerts ...template.KV) {
	t.Helper()
	var list []map[string]any
	for _, labels := range alerts {
		list = append(list, map[string]any{"labels": labels, "startsAt": time.Now(), "endsAt": time.Now().Add(lasts)})
	}
	body, err := json.Marshal(list)
	harness.Must(t, err)
	r := httptest.NewRequest(http.MethodPost, "/api/v2/alerts", bytes.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	if am.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Fatalf("Alertmanager takes no alerts: %d %s", w.Code, w.Body)
	}
}

// routed is an alert, and the receiver that is told: while the first alert of its case is there, and once that is over. "" is none.
type routed struct {
	alert     template.KV
	to, later string
}

// TestAlertmanagerExample has the example's configuration say for each alert of a case who is told of it. The first alert comes before
// the others, and ends before them.
func TestAlertmanagerExample(t *testing.T) {
	const other = "node-2:9844"
	page, ticket := alertOn("GPUOutOfMemoryPredicted", "critical"), alertOn("GPUOutOfMemoryPredicted", "warning")
	leak := alertOn("GPUMemoryLeakDetected", "warning", "scope", "gpu")
	owned := func(name, owner string, more ...string) template.KV {
		return alertOn(name, "warning", append(more, "process", owner+".py", "namespace", "team-"+owner, "pod", owner+"-0")...)
	}
	rank := func(uuid string, more ...string) template.KV {
		return alertOn("GPUOutOfMemoryPredicted", "critical", append(more, "uuid", uuid)...)
	}
	for name, c := range map[string]struct {
		messages int // of the first alerts, to all
		alerts   []routed
	}{
		// The ticket that says when the memory is full hides that of its owner.
		"a page hides the tickets of its memory": {1, []routed{
			{page, "pager", ""},
			{ticket, "", "tickets"},
			{leak, "", ""},
			{alertOn("GPUMemoryLeakDetected", "warning", "scope", "workload", "pod", "train-0"), "", "tickets"},
		}},
		"and none of another memory": {5, []routed{
			{page, "pager", ""},
			{alertOn("GPUMemoryLeakDetected", "warning", "uuid", "GPU-b"), "tickets", ""},
			{alertOn("GPUMemoryLeakDetected", "warning", "instance", other), "tickets", ""},
			{alertOn("GPUMemoryLeakDetected", "warning", "cluster", "west"), "tickets", ""},
			{alertOn("GPUOutOfMemoryPredicted", "warning", "gpu_instance", "3"), "tickets", ""},
			{alertOn("GPUMemoryLeakDetected", "warning", "gpu_instance", "3", "process", "b.py"), "tickets", ""},
			{alertOn("GPURecoveryActionNeeded", "warning"), "tickets", ""},
		}},
		"a job on all of its GPUs is one page, and so is a pod": {3, []routed{
			{rank("GPU-a"), "pager", ""},
			{rank("GPU-a", "slurm_job", "4711"), "pager", ""},
			{rank("GPU-b", "slurm_job", "4711"), "pager", ""},
			{rank("GPU-c", "slurm_job", "4711", "instance", other), "pager", ""},
			{rank("GPU-d", "namespace", "ml", "pod", "train-0"), "pager", ""},
			{rank("GPU-e", "namespace", "ml", "pod", "train-0"), "pager", ""},
		}},
		"a lost GPU": {2, []routed{
			{alertOn("GPULost", "critical"), "pager", ""},
			{page, "", "pager"},
			{leak, "", ""},
			{alertOn("GPUXIDCritical", "critical", "xid", "79"), "", "pager"},
			{alertOn("GPUMemoryLeakDetected", "warning", "uuid", "GPU-b", "pid", "99"), "tickets", ""},
		}},
		"no driver": {2, []routed{
			{alertOn("GPUDriverDown", "critical", "uuid", ""), "pager", ""},
			{alertOn("GPULost", "critical"), "", "pager"},
			{leak, "", ""},
			{alertOn("GPUSamplesStale", "warning", "uuid", "GPU-b"), "", "tickets"},
			{alertOn("GPULost", "critical", "instance", other), "pager", ""},
		}},
		"no exporter": {2, []routed{
			{alertOn("GPUExporterDown", "warning", "uuid", ""), "tickets", ""},
			{alertOn("GPUMemoryLeakDetected", "warning", "uuid", "GPU-b"), "", "tickets"},
			{alertOn("GPUCollectorFailing", "warning", "uuid", ""), "", "tickets"},
			{page, "pager", ""},
		}},
		"a ticket hides no other owner's": {3, []routed{
			{owned("GPUOutOfMemoryPredicted", "a"), "tickets", ""},
			{owned("GPUMemoryLeakDetected", "a", "pid", "1"), "", "tickets"},
			{owned("GPUMemoryLeakDetected", "b", "pid", "2"), "tickets", ""},
			{owned("GPUMemoryLeakDetected", "a", "pid", "3", "uuid", "GPU-b"), "tickets", ""},
		}},
		"what has no severity is a ticket": {2, []routed{{leak, "tickets", ""}, {alertOn("Another", "", "uuid", "GPU-b"), "tickets", ""}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkRoutes(t, c.messages, c.alerts)
		})
	}
}

// checkRoutes holds what is told of alerts to what is wanted.
func checkRoutes(t *testing.T, messages int, alerts []routed) {
	t.Helper()
	const later = 30 * time.Minute
	sent := notified(t, func(t *testing.T, am *alertmanager) {
		am.post(t, 2*time.Hour, alerts[0].alert)
		time.Sleep(5 * time.Minute)
		for _, a := range alerts[1:] {
			am.post(t, 2*time.Hour, a.alert)
		}
		time.Sleep(later - 5*time.Minute)
		am.post(t, 0, alerts[0].alert)
		time.Sleep(later)
	})
	for _, a := range alerts {
		to := map[bool]string{}
		for _, m := range sent {
			for _, is := range m.Alerts {
				if is.Status == "firing" && maps.Equal(is.Labels, a.alert) && to[false] == "" {
					to[m.at >= later] = m.Receiver
				}
			}
		}
		if to[false] != a.to || to[true] != a.later {
			t.Errorf("%v: %q is told, and then %q; want %q and %q", a.alert, to[false], to[true], a.to, a.later)
		}
	}
	first := slices.DeleteFunc(slices.Clone(sent), func(m message) bool { return m.Status != "firing" || m.at >= later })
	if len(first) != messages {
		t.Errorf("%d messages, want %d", len(first), messages)
	}
	if !slices.ContainsFunc(sent, func(m message) bool {
		return m.Receiver == alerts[0].to && slices.Contains(m.names("resolved"), alerts[0].alert["alertname"])
	}) {
		t.Errorf("nobody was told of the end of %v", alerts[0].alert)
	}
}

// TestAlertmanagerExampleNames holds the names of alerts in the example against the rules: an inhibition by an alert that does not
// exist never takes place.
func TestAlertmanagerExampleNames(t *testing.T) {
	rules := harness.ReadFile(t, filepath.Join(harness.Root(), "dashboards", "alerts.yaml"))
	names := regexp.MustCompile(`\bGPU[A-Z]\w+`).FindAllString(harness.ReadExample(t, "alertmanager.yml"), -1)
	if len(names) == 0 {
		t.Error("the example names no alert")
	}
	for _, name := range names {
		if !regexp.MustCompile(`alert: "?` + name + `\b`).MatchString(rules) {
			t.Errorf("the example has %s, and there is no such alert", name)
		}
	}
}
