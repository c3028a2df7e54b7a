// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// chain is what stands between GPUs and who is on call: the exporter, a pair of Prometheus and
// Alertmanager, as the examples configure them, and the two webhooks.
type chain struct {
	exporter, alertmanager *harness.Process
	pair                   [2]*harness.Process
	to                     *harness.Webhook
	// said is the last page of which the exporter's own pages tell, and left the seconds left then.
	said string
	left float64
}

// newChain starts what is behind an exporter.
func newChain(t *testing.T, exporter *harness.Process) *chain {
	t.Helper()
	c := &chain{exporter: exporter, to: harness.StartWebhook(t)}
	c.alertmanager = harness.StartExampleAlertmanager(t, c.to)
	config := harness.Example{Targets: []*harness.Process{exporter}, Alertmanager: c.alertmanager, Rules: harness.FastRules(t), Interval: "1s"}.Config(t)
	// What tells replicas apart is no label of an alert, as examples/prometheus-shard.yml has it.
	config = harness.Replace(t, config, "\nalerting:\n", "\nalerting:\n  alert_relabel_configs: [{regex: prometheus, action: labeldrop}]\n", 1)
	for i := range c.pair {
		c.pair[i] = harness.StartPrometheus(t, harness.Replace(t, config, "global:\n", fmt.Sprintf("global:\n  external_labels: {prometheus: gpu-%d}\n", i), 1))
	}
	return c
}

// pages are the labels of a page that memory will be full within the hour.
func pages() map[string]string {
	return map[string]string{"alertname": "GPUOutOfMemoryPredicted", "severity": "critical"}
}

// page waits for the page, or for its end, while it notes what the exporter says. The text may not contradict that.
func (c *chain) page(t *testing.T, status string) harness.Alert {
	t.Helper()
	var page harness.Alert
	harness.Eventually(t, patience, func() error {
		if body, err := harness.Get(c.exporter.URL + "/api/v1/verdicts"); err == nil {
			c.note(t, body)
		}
		pages := c.to.Sent("pager", status, pages())
		if len(pages) == 0 {
			return fmt.Errorf("no page that is %s; %d other notifications", status, len(c.to.Notifications()))
		}
		page = pages[0]
		return nil
	})
	summary := page.Annotations["summary"]
	_, left, _ := strings.Cut(strings.TrimSuffix(summary, "."), " out of memory in ")
	d, err := time.ParseDuration(strings.ReplaceAll(left, " ", ""))
	if err != nil || math.Abs(d.Seconds()-c.left) > 15 || !strings.Contains(c.said, page.Labels["process"]+" (pid ") {
		t.Errorf("the page that is %s says %q, and the exporter had said %q, %g s: %v", status, summary, c.said, c.left, err)
	}
	return page
}

// note notes what the exporter says of the first GPU, if it is a page.
func (c *chain) note(t *testing.T, body []byte) {
	t.Helper()
	var answer struct {
		Data struct {
			Severity string
			Findings []struct{ Alert, Text string }
			Devices  []struct {
				Verdict struct {
					Left float64 `json:"seconds_to_oom"`
				}
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		t.Fatal(err)
	}
	if d := &answer.Data; d.Severity == "page" && d.Findings[0].Alert == "GPUOutOfMemoryPredicted" {
		c.said, c.left = d.Findings[0].Text, d.Devices[0].Verdict.Left
	}
}

// paged waits for the page, and returns it and what the exporter showed right after.
func (c *chain) paged(t *testing.T) (harness.Alert, harness.Metrics) {
	t.Helper()
	page := c.page(t, "firing")
	t.Logf("the page:\n\t%s\n\t%s\n\t%s\n\t%s", page.Annotations["summary"], page.Annotations["description"],
		page.Annotations["runbook_url"], page.Annotations["predict_url"])
	if _, err := harness.Get(page.Annotations["predict_url"]); err != nil {
		t.Errorf("the page links to %q: %v", page.Annotations["predict_url"], err)
	}
	return page, c.exporter.Scrape(t)
}

// namesLeak returns an error unless the page has the labels of the process that leaks most on its GPU, as the exporter shows
// it, and names it; and it returns the labels of that process.
func namesLeak(page harness.Alert, s harness.Metrics) (map[string]string, error) {
	var worst harness.Sample
	for _, r := range s.All("gpu_process_leak_rate_bytes_per_second", map[string]string{"uuid": page.Labels["uuid"]}) {
		if r.Labels["gpu_instance"] == page.Labels["gpu_instance"] && r.Value > worst.Value {
			worst = r
		}
	}
	if worst.Labels == nil {
		return nil, fmt.Errorf("no process of %s leaks", page.Labels["uuid"])
	}
	var errs []error
	for _, name := range []string{"process", "namespace", "pod", "container", "slurm_job"} {
		if page.Labels[name] != worst.Labels[name] {
			errs = append(errs, fmt.Errorf("the page has the %s %q, want %q", name, page.Labels[name], worst.Labels[name]))
		}
	}
	if !strings.Contains(page.Annotations["description"], worst.Labels["process"]+" ") || !strings.Contains(page.Annotations["summary"], "out of memory in ") {
		errs = append(errs, fmt.Errorf("the page says %q", page.Annotations))
	}
	return worst.Labels, errors.Join(errs...)
}

// TestChainDriver has a process of this machine leak in real time on a GPU of the fake
// driver, until the page names it, and then end. A pair of Prometheus sends one page.
func TestChainDriver(t *testing.T) {
	t.Parallel()
	const rate = 128 * mib // the page waits for three minutes: the memory must not be full before
	m := newMachine(t, 2)
	pid := m.child(t)
	m.GPUs[0].Processes = []fakenvml.Process{
		{PID: pid, Memory: fakenvml.Constant(10 * gib)},
		{PID: m.child(t), Memory: fakenvml.Constant(5 * gib)},
	}
	m.GPUs[1].Processes = []fakenvml.Process{{PID: m.child(t), Memory: fakenvml.Constant(20 * gib)}}
	c := newChain(t, m.start(t, "--sample.interval=100ms", "--detector.window="+window,
		"--detector.min-span=10s", "--detector.settle-time=10s",
		"--detector.leak-threshold=0.03"))
	// It has to hold still for so long that the growth is not taken for a start.
	harness.Eventually(t, patience, func() error {
		s, err := c.exporter.TryScrape()
		return errors.Join(err, want(s, math.Inf(1), "gpu_seconds_to_oom", m.id(0)))
	})
	before := uint64(rate * m.Elapsed(time.Now()).Seconds())
	m.GPUs[0].Processes[0].Memory = fakenvml.Ramp{Base: 10*gib - before, Rate: rate}
	m.apply(t)
	page, s := c.paged(t)
	leaking, err := namesLeak(page, s)
	if err != nil {
		t.Error(err)
	}
	if leaking["pid"] != strconv.FormatUint(uint64(pid), 10) {
		t.Errorf("%v leaks, want pid %d", leaking, pid)
	}
	if page.Labels["uuid"] != m.GPUs[0].UUID {
		t.Errorf("the page is on %s", page.Labels["uuid"])
	}
	for i, p := range c.pair {
		if n := len(query(t, p, `ALERTS{alertname="GPUOutOfMemoryPredicted", severity="critical", alertstate="firing"}`)); n != 1 {
			t.Errorf("Prometheus %d has %d pages", i, n)
		}
	}
	body, err := harness.Get(c.alertmanager.URL + "/api/v2/alerts?filter=severity%3Dcritical&filter=alertname%3DGPUOutOfMemoryPredicted")
	var all []struct{ Labels map[string]string }
	if err := errors.Join(err, json.Unmarshal(body, &all)); err != nil || len(all) != 1 || all[0].Labels["prometheus"] != "" {
		t.Errorf("Alertmanager has the pages %v: %v", all, err)
	}
	if testing.Short() { // the end takes as long as the page did: make ci-nightly waits for it
		return
	}
	m.GPUs[0].Processes = m.GPUs[0].Processes[1:]
	m.apply(t)
	c.page(t, "resolved")
}
