// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// TestLives prints the kinds that take a leak, and those that take a healthy service.
func TestLives(t *testing.T) {
	for family, want := range map[string][]string{
		"autograd_cycles": {"| leak in every life | found in each | 4 |", "| one earlier life leaked | silent in lives 3 to 5, found in life 6 | 4 |", "| a healthy life, and one that leaks | found in life 2 | 1 |"},
		"serve_plain":     {"| healthy | silent | 4 |", "| deploy of a larger model | silent | 4 |", "| two healthy lives | silent in life 2 where the first one shows all | 1 |"},
	} {
		got := printed(t, options{lives: true, family: family, list: fleet.Families()})
		for _, want := range append(want, "# What it is worth to know earlier lives", ", from the third life on, seeds 1 to 1: 1 families, ", "| … lost against the other | ") {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", family, want, got)
			}
		}
	}
}

// TestDuring cuts a life out of a recording: only what leaks in it counts, and its minutes are its own.
func TestDuring(t *testing.T) {
	w, err := watch(line(gpu.Opt[uint32]{}, 1<<20), livesJudges)
	must(t, err)
	start, end := w.truth.Start, w.truth.Start+w.length
	for name, c := range map[string]struct {
		from, until time.Duration
		leaks, ooms int
	}{
		"all": {start - 1, end + time.Hour, 1, 1}, "before the leak": {start - 1, start + 30*time.Minute, 0, 0},
		"from its middle on": {start + 90*time.Minute, end + time.Hour, 0, 1}, "until its middle": {start, start + 90*time.Minute, 1, 0},
	} {
		part := w.during(c.from, c.until)
		o := part.scoreLife(&fleet.Family{Class: fleet.Leak}, 0)
		if len(o.leaks) != c.leaks || len(o.ooms) != c.ooms {
			t.Errorf("%s: %d leaks and %d failures", name, len(o.leaks), len(o.ooms))
		}
		for _, m := range part.records[0].minutes {
			if m.t <= c.from || m.t > c.until {
				t.Errorf("%s: a minute at %v", name, m.t-start)
			}
		}
		if len(part.records[0].minutes) != len(part.records[0].said[1]) {
			t.Errorf("%s: other answers than minutes", name)
		}
	}
}
