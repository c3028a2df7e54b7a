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
	if err != nil {
		t.Fatal(err)
	}
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

// TestSoon counts steady leaks that are above the healthy lives for long enough, and whether they are told by then.
func TestSoon(t *testing.T) {
	for name, c := range map[string]struct {
		family      string
		above       time.Duration // after the onset; 0 is never
		rate        float64
		rated, told bool
	}{
		"told later": {"kept_outputs", -5 * time.Minute, 1 << 20, true, false}, "told before": {"kept_outputs", 100 * time.Minute, 1 << 20, true, true},
		"never above": {"kept_outputs", 0, 1 << 20, false, false}, "not steady": {"errors_only", time.Minute, 1 << 20, false, false},
		"slow": {"kept_outputs", time.Minute, 1 << 19, false, false}, "ends soon": {"kept_outputs", 11 * time.Hour, 1 << 20, false, false},
	} {
		w, err := watch(line(gpu.Opt[uint32]{}, 1<<20), livesJudges)
		if err != nil {
			t.Fatal(err)
		}
		l := &w.truth.Leaks[0]
		l.Rate = c.rate
		if c.above != 0 {
			l.AboveAt, l.FarAboveAt = l.From+c.above, l.From+c.above
		}
		o := w.scoreLife(&fleet.Family{Name: c.family, Class: fleet.Leak}, 0)
		if got := o.leaks[0]; got.above != [2]bool{c.rated, c.rated} || got.soon != [2]bool{c.told, c.told} {
			t.Errorf("%s: %t, %t, found after %v", name, got.above, got.soon, got.delay)
		}
	}
	with, without := outcome{leaks: []leakOutcome{{found: never}, {found: 1}, {found: never}}}, outcome{leaks: []leakOutcome{{found: 1}, {found: 1}, {found: never}}}
	if with.lose(&without); !with.leaks[0].lost || with.leaks[1].lost || with.leaks[2].lost {
		t.Errorf("lost: %+v", with.leaks)
	}
}
