// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"errors"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestChainSimulated has the leaks of a simulated node end in a page that names the
// process, while there is memory left.
func TestChainSimulated(t *testing.T) {
	t.Parallel()
	// The first leak of this node has less than an hour left after more than five
	// hours, which take three minutes. Faster, that hour would be too short for a page
	// on its way.
	c := newChain(t, harness.StartExporter(t, harness.Options{Args: []string{"--source=sim:node", "--source.speed=100"}}))
	page, s := c.paged(t, patience)
	gpu := map[string]string{"uuid": page.Labels["uuid"]}
	leaking, err := namesLeak(page, s)
	if err != nil {
		t.Error(err)
	}
	if leaking["pod"] == "" {
		t.Errorf("the process that leaks is in no pod: %v", leaking)
	}
	free, err := s.Value("gpu_memory_free_bytes", gpu)
	left, err2 := s.Value("gpu_seconds_to_oom", gpu)
	if err := errors.Join(err, err2); err != nil || free <= 0 || left <= 0 || left >= 3600 {
		t.Errorf("the page came with %g bytes free and %g s left: %v", free, left, err)
	}
	if exits, err := s.Value("gpu_process_exits_near_capacity_total", gpu); err != nil || exits != 0 {
		t.Errorf("%g processes had run out of memory before the page came, %v", exits, err)
	}
	// The tickets on this leak came before, and the page silences them.
	if len(c.to.Sent("tickets", "firing", with(gpu, "alertname", "GPUOutOfMemoryPredicted"))) == 0 {
		t.Error("nobody got a ticket in the hours before the page")
	}
	harness.Eventually(t, patience, func() error {
		n, err := (&router{c.alertmanager, c.to}).suppressed()
		if err == nil && n == 0 {
			err = errors.New("the page silences no ticket")
		}
		return err
	})
	for _, n := range c.to.Notifications() {
		for _, a := range n.Alerts {
			if err := readable(a); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestChainHealthy has nobody told anything of GPUs that only look like leaking for
// two hours, then ends the exporter: that is told.
func TestChainHealthy(t *testing.T) {
	t.Parallel()
	// A scrape that is late by some seconds is late by minutes here, and a rule remembers what a program that loads
	// had last. That such a program is nobody's page with the wait as shipped is tested in simulated time, by
	// the incidents. Prometheus is there first: it must see a load from its beginning.
	address := harness.FreeAddress(t)
	c := newChain(t, &harness.Process{URL: "http://" + address}, "forFillsUp: '15s'")
	query(t, c.prometheus, `up == 0`)
	c.exporter = harness.StartExporter(t, harness.Options{Address: address, Args: []string{"--source=sim:healthy", "--source.speed=60"}})
	begin := time.Now()
	harness.Eventually(t, patience, func() error {
		if n := c.to.Notifications(); len(n) > 0 {
			t.Fatalf("a healthy node made somebody look after %s: %+v", 60*time.Since(begin), n)
		}
		if time.Since(begin) < 2*time.Minute {
			return errors.New("not yet two hours")
		}
		return nil
	})
	judged := query(t, c.prometheus, `count(gpu_seconds_to_oom == +Inf)`)
	if judged[0].Value != 5 {
		t.Errorf("%g GPUs are judged, want 5", judged[0].Value)
	}
	c.exporter.Stop(t)
	harness.Eventually(t, patience, func() error {
		if len(c.to.Sent("tickets", "firing", map[string]string{"alertname": "GPUExporterDown"})) == 0 {
			return errors.New("nobody is told that the exporter is down")
		}
		return nil
	})
	for _, n := range c.to.Notifications() {
		for _, a := range n.Alerts {
			if a.Labels["alertname"] != "GPUExporterDown" {
				t.Errorf("%s was told of %v", n.Receiver, a.Labels)
			}
		}
	}
}
