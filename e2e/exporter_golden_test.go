// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

var update = flag.Bool("update", false, "rewrite testdata/*.golden")

// enumerated are the labels whose values are part of the contract; those of the
// others are of the machine.
var enumerated = []string{
	"cause", "clock", "collector", "counter", "direction", "limit", "location", "reason", "sensor", "state", "threshold", "type",
	"window", "xid",
}

// golden holds the series of a scrape, without their values, against a file that a
// reviewer sees change: type, name and labels.
func golden(t *testing.T, name string, text []byte) {
	t.Helper()
	got := shapes(t, text)
	path := filepath.Join("testdata", name)
	if *update {
		write(t, path, got)
		return
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.SplitAfter(string(file), "\n"), strings.SplitAfter(got, "\n")
	for _, line := range was {
		if !slices.Contains(is, line) {
			t.Errorf("%s: gone: %s", name, strings.TrimSpace(line))
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			t.Errorf("%s: new: %s", name, strings.TrimSpace(line))
		}
	}
	if t.Failed() {
		t.Log("If this is as it should be: go test -run 'TestValues|TestReplay' -update .")
	}
}

// shapes writes the different shapes of series of a scrape, ordered. Those of
// libraries are left out, and what is there only while a call takes its time.
func shapes(t *testing.T, text []byte) string {
	t.Helper()
	types := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 4 && f[1] == "TYPE" {
			types[f[2]] = f[3]
		}
	}
	s, err := harness.ParseMetrics(text)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, series := range s {
		if !strings.HasPrefix(series.Name, "gpu_") || series.Name == "gpu_nvml_call_in_flight_seconds" {
			continue
		}
		var labels []string
		for _, l := range slices.Sorted(maps.Keys(series.Labels)) {
			if slices.Contains(enumerated, l) {
				l += `="` + series.Labels[l] + `"`
			}
			labels = append(labels, l)
		}
		seen[types[series.Name]+" "+series.Name+"{"+strings.Join(labels, ",")+"}\n"] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), "")
}
