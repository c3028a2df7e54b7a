// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package mixin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// declared is when the detector calls the growth a leak, to the second.
func (g growth) declared(t *testing.T) time.Duration {
	t.Helper()
	for line := range bytes.Lines(g.backtest(t, time.Second)) {
		var j judged
		if err := json.Unmarshal(line, &j); err != nil {
			t.Fatal(err)
		}
		if j.Leak {
			return j.Time.Sub(began) - g.after
		}
	}
	t.Fatalf("%+v is never called a leak", g)
	return 0
}

// minSpan is the default of --detector.min-span.
func minSpan(t *testing.T) time.Duration {
	t.Helper()
	help, err := exec.Command(harness.Tool(t), "backtest", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, help)
	}
	flag := regexp.MustCompile(`--detector\.min-span=(\S+)`).FindSubmatch(help)
	if flag == nil {
		t.Fatal("backtest has no flag --detector.min-span")
	}
	d, err := time.ParseDuration(string(flag[1]))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestWaitsOfAPage says which wait has which part of the time to a page. One is measured, the others are settings.
func TestWaitsOfAPage(t *testing.T) {
	t.Parallel()
	config, err := os.ReadFile(filepath.Join(harness.Root(), "examples/prometheus.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"scrape_interval", "evaluation_interval"} {
		if line := fmt.Sprintf("  %s: %s\n", name, scrapeInterval); strings.Count(string(config), line) != 1 {
			t.Errorf("examples/prometheus.yml has no %q", line)
		}
	}
	g := growth{perMinute: 300, room: 8, after: time.Hour}
	least, declared := minSpan(t), g.declared(t)
	var table strings.Builder
	table.WriteString("| the page waits for | set by | at most | page after, at most |\n|---|---|---|---|\n")
	sum := time.Duration(0)
	for _, w := range []struct {
		what, by string
		takes    time.Duration
	}{
		{"growth to last", "`--detector.min-span`", least},
		{"the detector to see that it has", "measured", declared - least},
		{"memory to be full soon, for a while", "always", finding.PageWait},
		{"the next scrape", "`scrape_interval`", scrapeInterval},
		{"the next evaluation of the rules", "`evaluation_interval`", scrapeInterval},
		{"others of its group", "`group_wait`", pageGroupWait},
	} {
		sum += w.takes
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", w.what, w.by, minutes(w.takes), minutes(sum))
	}
	if when, alert := g.tell(t); alert != "GPUOutOfMemoryPredicted" || when.page > sum || when.page < sum-2*scrapeInterval {
		t.Errorf("%s comes after %s, and the waits are %s", alert, when.page, sum)
	}
	holdsTable(t, "TestWaitsOfAPage", table.String())
}
