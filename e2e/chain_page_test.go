// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
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

// chain is what stands between GPUs and who is on call: the exporter, Prometheus and
// Alertmanager, both as the examples configure them, and the two webhooks.
type chain struct {
	exporter *harness.Process
	to       *harness.Webhook
}

// newChain starts what is behind an exporter.
func newChain(t *testing.T, exporter *harness.Process) *chain {
	t.Helper()
	c := &chain{exporter: exporter, to: harness.StartWebhook(t)}
	harness.Example{
		Targets: []*harness.Process{exporter}, Alertmanager: harness.StartExampleAlertmanager(t, c.to), Rules: harness.FastRules(t), Interval: "1s",
	}.StartPrometheus(t)
	return c
}

// paged waits for the page that memory will be full within the hour, and returns it
// and what the exporter showed right after.
func (c *chain) paged(t *testing.T) (harness.Alert, harness.Metrics) {
	t.Helper()
	var page harness.Alert
	harness.Eventually(t, patience, func() error {
		pages := c.to.Sent("pager", "firing", map[string]string{"alertname": "GPUOutOfMemoryPredicted", "severity": "critical"})
		if len(pages) == 0 {
			return fmt.Errorf("no page; %d other notifications", len(c.to.Notifications()))
		}
		page = pages[0]
		return nil
	})
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

// readable returns an error unless an alert has all that a human needs, and nothing of
// its templates is left in it.
func readable(a harness.Alert) error {
	var errs []error
	for _, name := range []string{"summary", "description", "runbook_url"} {
		text := a.Annotations[name]
		for _, broken := range []string{"{{", "<no value>", "<error", "NaN", "%!"} {
			if text == "" || strings.Contains(text, broken) {
				errs = append(errs, fmt.Errorf("%s of %s is %q", name, a.Labels["alertname"], text))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// TestChainDriver has a process of this machine leak in real time on a GPU of the fake
// driver, until the page names it.
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
	if err := errors.Join(err, readable(page)); err != nil {
		t.Error(err)
	}
	if leaking["pid"] != strconv.FormatUint(uint64(pid), 10) {
		t.Errorf("%v leaks, want pid %d", leaking, pid)
	}
	if page.Labels["uuid"] != m.GPUs[0].UUID {
		t.Errorf("the page is on %s", page.Labels["uuid"])
	}
}
