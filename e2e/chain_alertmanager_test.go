// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// alertOf returns an alert of ours on a GPU; of a node where uuid is empty.
func alertOf(name, severity, instance, uuid string, more ...string) harness.Alert {
	labels := map[string]string{
		"alertname": name, "severity": severity, "job": "gpu_leak_exporter", "instance": instance,
	}
	if uuid != "" {
		labels["uuid"] = uuid
	}
	return harness.Alert{
		Labels:      with(labels, more...),
		Annotations: map[string]string{"summary": name + " of " + uuid},
	}
}

// router is an Alertmanager with the example's configuration, and whom it tells.
type router struct {
	*harness.Process
	to *harness.Webhook
}

func newRouter(t *testing.T) *router {
	t.Helper()
	to := harness.StartWebhook(t)
	return &router{harness.StartExampleAlertmanager(t, to), to}
}

// sent waits until the receiver got the alert.
func (r *router) sent(t *testing.T, receiver, status string, alerts ...harness.Alert) {
	t.Helper()
	for _, a := range alerts {
		harness.Eventually(t, patience, func() error {
			if len(r.to.Sent(receiver, status, a.Labels)) == 0 {
				return fmt.Errorf("%s got no notification that %v is %s", receiver, a.Labels, status)
			}
			return nil
		})
	}
}

// tell posts alerts and waits until the receiver got them.
func (r *router) tell(t *testing.T, receiver string, alerts ...harness.Alert) {
	t.Helper()
	r.PostAlerts(t, alerts...)
	r.sent(t, receiver, "firing", alerts...)
}

// suppressed is how many alerts were left out of notifications so far.
func (r *router) suppressed() (float64, error) {
	m, err := r.TryScrape()
	if err != nil {
		return 0, err
	}
	var sum float64
	for _, s := range m.All("alertmanager_notifications_suppressed_total", map[string]string{"reason": "inhibition"}) {
		sum += s.Value
	}
	return sum, nil
}

// silent posts alerts and waits until each was left out of a notification. It fails
// the test if anybody was told of one.
func (r *router) silent(t *testing.T, alerts ...harness.Alert) {
	t.Helper()
	before, err := r.suppressed()
	if err != nil {
		t.Fatal(err)
	}
	r.PostAlerts(t, alerts...)
	// Each group leaves out what it has of them every second: in two rounds all of
	// them were, however the groups take turns.
	harness.Eventually(t, patience, func() error {
		now, err := r.suppressed()
		if want := before + 2*float64(len(alerts)); err == nil && now < want {
			err = fmt.Errorf("%g alerts left out, want %g", now, want)
		}
		return err
	})
	for _, a := range alerts {
		for _, receiver := range []string{"pager", "tickets"} {
			if n := len(r.to.Sent(receiver, "firing", a.Labels)); n != 0 {
				t.Errorf("%s was told %d times of %v", receiver, n, a.Labels)
			}
		}
	}
}

// TestAlertmanagerExample posts alerts to the real Alertmanager with the example's
// configuration: who is told, and what is not told because of another alert.
func TestAlertmanagerExample(t *testing.T) {
	const node, other = "node-1:9844", "node-2:9844"
	page := alertOf("GPUOutOfMemoryPredicted", "critical", node, "GPU-a")
	ticket := alertOf("GPUOutOfMemoryPredicted", "warning", node, "GPU-a")
	leak := alertOf("GPUMemoryLeakDetected", "warning", node, "GPU-a", "scope", "gpu")
	workload := alertOf("GPUMemoryLeakDetected", "warning", node, "GPU-a", "scope", "workload", "pod", "train-0")

	t.Run("a page alone, and its end", func(t *testing.T) {
		t.Parallel()
		r := newRouter(t)
		r.tell(t, "pager", page)
		r.silent(t, ticket, leak, workload)
		ended := page
		ended.StartsAt, ended.EndsAt = time.Now().Add(-time.Minute), time.Now()
		r.PostAlerts(t, ended)
		r.sent(t, "pager", "resolved", page)
		// The tickets are there still, and the page hides them no more. The one that says when the memory is full hides
		// that of its owner.
		r.sent(t, "tickets", "firing", ticket, workload)
		r.silent(t, leak)
		for _, n := range r.to.Notifications() {
			if want := map[string]string{"instance": node, "uuid": "GPU-a"}; !equalLabels(n.GroupLabels, want) {
				t.Errorf("a notification of %v, want one of %v", n.GroupLabels, want)
			}
		}
	})
	t.Run("a job that leaks on all of its GPUs is one page", func(t *testing.T) {
		t.Parallel()
		r := newRouter(t)
		ranks := []harness.Alert{
			alertOf("GPUOutOfMemoryPredicted", "critical", node, "GPU-a", "slurm_job", "4711"),
			alertOf("GPUOutOfMemoryPredicted", "critical", node, "GPU-b", "slurm_job", "4711"),
			alertOf("GPUOutOfMemoryPredicted", "critical", other, "GPU-c", "slurm_job", "4711"),
		}
		pod := alertOf("GPUOutOfMemoryPredicted", "critical", node, "GPU-d", "namespace", "ml", "pod", "train-0")
		r.tell(t, "pager", append(ranks, pod)...)
		for _, n := range r.to.Notifications() {
			job, of := map[string]string{"slurm_job": "4711"}, map[string]string{"namespace": "ml", "pod": "train-0"}
			if !equalLabels(n.GroupLabels, job) && !equalLabels(n.GroupLabels, of) {
				t.Errorf("a notification of %v", n.GroupLabels)
			}
		}
	})
	for _, c := range []struct {
		name           string
		receiver       string // of the cause
		cause          harness.Alert
		silent         []harness.Alert
		othersReceiver string
		others         []harness.Alert
	}{
		{"a page hides no ticket of another memory", "pager", page, nil, "tickets", []harness.Alert{
			alertOf("GPUMemoryLeakDetected", "warning", node, "GPU-b"),
			alertOf("GPUMemoryLeakDetected", "warning", other, "GPU-a"),
			alertOf("GPUMemoryLeakDetected", "warning", node, "GPU-a", "cluster", "west"),
			alertOf("GPUOutOfMemoryPredicted", "warning", node, "GPU-a", "gpu_instance", "3"),
			alertOf("GPURecoveryActionNeeded", "warning", node, "GPU-a"),
		}},
		{
			"a lost GPU", "pager", alertOf("GPULost", "critical", node, "GPU-a"),
			[]harness.Alert{page, leak, alertOf("GPUXIDCritical", "critical", node, "GPU-a", "xid", "79")},
			"tickets",
			[]harness.Alert{alertOf("GPUMemoryLeakDetected", "warning", node, "GPU-b", "pid", "99")},
		},
		{
			"no driver", "pager", alertOf("GPUDriverDown", "critical", node, ""),
			[]harness.Alert{alertOf("GPULost", "critical", node, "GPU-a"), leak, alertOf("GPUSamplesStale", "warning", node, "GPU-b")},
			"pager",
			[]harness.Alert{alertOf("GPULost", "critical", other, "GPU-a")},
		},
		{
			"no exporter", "tickets", alertOf("GPUExporterDown", "warning", node, ""),
			[]harness.Alert{leak, alertOf("GPUCollectorFailing", "warning", node, "")},
			"pager",
			[]harness.Alert{page},
		},
		{
			"a ticket hides no other owner's", "tickets",
			alertOf("GPUOutOfMemoryPredicted", "warning", node, "GPU-a", "process", "a.py", "namespace", "team-a", "pod", "a-0"),
			[]harness.Alert{alertOf("GPUMemoryLeakDetected", "warning", node, "GPU-a", "process", "a.py", "namespace", "team-a", "pod", "a-0", "pid", "1")},
			"tickets",
			[]harness.Alert{
				alertOf("GPUMemoryLeakDetected", "warning", node, "GPU-a", "process", "b.py", "namespace", "team-b", "pod", "b-0", "pid", "2"),
				alertOf("GPUMemoryLeakDetected", "warning", node, "GPU-b", "process", "a.py", "namespace", "team-a", "pod", "a-0", "pid", "3"),
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRouter(t)
			r.tell(t, c.receiver, c.cause)
			if c.silent != nil {
				r.silent(t, c.silent...)
			}
			r.tell(t, c.othersReceiver, c.others...)
		})
	}
	t.Run("what has no severity is a ticket", func(t *testing.T) {
		t.Parallel()
		unknown := alertOf("Another", "", node, "GPU-b")
		delete(unknown.Labels, "severity")
		newRouter(t).tell(t, "tickets", leak, unknown)
	})
}

func equalLabels(a, b map[string]string) bool {
	return len(a) == len(b) && harness.Sample{Labels: a}.Has(b)
}

// TestAlertmanagerExampleNames holds the names of alerts in the example against the
// rules: an inhibition by an alert that does not exist never takes place.
func TestAlertmanagerExampleNames(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join(harness.Root(), "dashboards", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`\bGPU[A-Z]\w+`).FindAllString(harness.ReadExample(t, "alertmanager.yml"), -1)
	if len(names) == 0 {
		t.Error("the example names no alert")
	}
	for _, name := range names {
		if !regexp.MustCompile(`alert: "?` + name + `\b`).Match(rules) {
			t.Errorf("the example has %s, and there is no such alert", name)
		}
	}
}
