// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// TestTradeDefaults sees that the row of the defaults is measured as the exams are.
func TestTradeDefaults(t *testing.T) {
	e := allExams[0]
	for _, index := range []int{0, 17, 55, 90, 190} {
		of := (&runner{minutely: true}).examine(e, 1, index)
		s := e.make(1, index)
		got := try(s, s.Capacity, examTruth(s), settings()[:2], true)
		if got.err != nil || of.err != nil {
			t.Fatal(got.err, of.err)
		}
		if !reflect.DeepEqual(got.out[0], of.ours) {
			t.Errorf("%s: %+v, in the exam %+v", of.name, got.out[0], of.ours)
		}
	}
}

// TestTrade has a row for each setting, each of which the exporter would accept, and no two
// of which say the same.
func TestTrade(t *testing.T) {
	got := text(t, "--trade", "--markdown", "--exam=jobs,layers", "--seeds=1-1", "--kind=evaluation", "--hours=0")
	seen := map[string]string{}
	readme := document(t, "README.md")
	for _, s := range settings() {
		if !strings.Contains(got, "\n| "+s.flags+" | ") {
			t.Errorf("no row for %s in\n%s", s.flags, got)
		}
		for flag := range strings.FieldsSeq(s.flags) {
			if name, _, is := strings.Cut(flag, "="); is && !strings.Contains(readme, "| `--detector."+name+"` |") {
				t.Errorf("%s is no flag", name)
			}
		}
		cfg := detector.DefaultConfig()
		s.change(&cfg)
		if err := cfg.Validate(); err != nil {
			t.Errorf("%s: %v", s.flags, err)
		}
		key := fmt.Sprint(cfg)
		if other, ok := seen[key]; ok {
			t.Errorf("%s is %s", s.flags, other)
		}
		seen[key] = s.flags
	}
}

// TestTradeAgrees holds the row of the defaults in TRADE.md against BENCHMARK.md: who changes
// the detector makes both anew.
func TestTradeAgrees(t *testing.T) {
	trade, benchmark := document(t, "TRADE.md"), document(t, "BENCHMARK.md")
	_, row, _ := strings.Cut(trade, "\n| the defaults | ")
	cells := strings.Split(row, " | ")
	for i, name := range []string{
		"recall", "found within 15 min", "steady ≥ 50 MB/min within 15 min", "healthy series ever alarmed", "healthy time in alarm",
		"healthy series ever paged", "out-of-memories with a page 10 min before", "ETA error at half-life, 90 %",
	} {
		var both []string
		for _, exam := range []string{"jobs", "layers"} {
			_, section, _ := strings.Cut(benchmark, "\n## Exam "+exam+", seeds ")
			_, rest, _ := strings.Cut(section, "\n| "+name+" | ")
			ours, _, _ := strings.Cut(rest, " % |")
			both = append(both, ours[strings.LastIndex(ours, " ")+1:])
		}
		if want := strings.Join(both, " · "); i >= len(cells) || cells[i] != want {
			t.Errorf("%s: %q, in BENCHMARK.md %q", name, cells[min(i, len(cells)-1)], want)
		}
	}
	for _, of := range []struct{ name, cell string }{{"False episodes per 10,000 series-hours", cells[8]}, {"False tickets", cells[9]}, {"False pages", cells[10]}} {
		rate, _, _ := strings.Cut(of.cell, " ")
		if !strings.Contains(benchmark, of.name+": "+rate+", ") {
			t.Errorf("%s: %s, and not in BENCHMARK.md", of.name, rate)
		}
	}
}

// document returns a page of the detector's.
func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../../detector/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
