// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// line returns a scenario of one process that holds 8 GiB, and from hour one on so many bytes more each second, until the GPU of
// 16 GiB is full or twelve hours are over.
func line(slice gpu.Opt[uint32], rate float64) *fleet.Scenario {
	const interval, onset, length = 15 * time.Second, time.Hour, 12 * time.Hour
	start := 1_790_000_000 * time.Second
	s := &fleet.Scenario{Interval: interval, Truth: fleet.Truth{Start: start, Length: length}}
	t, ended := time.Duration(0), false
	s.Next = func(to *gpu.Sample) bool {
		lost := max(0, rate*(t-onset).Seconds())
		used := uint64(8*gib + lost)
		if ended = ended || used > 15.5*gib; ended || t > length {
			if rate > 0 {
				s.Truth.Leaks = []fleet.LeakTruth{{
					Processes: []gpu.ProcessID{culprit}, Instance: slice, From: start + onset, Until: start + t, Rate: rate,
					Retained: uint64(lost), Visible: true, Fatal: ended,
				}}
			}
			if ended {
				s.Truth.OOMs = []fleet.OOM{{T: start + t, Instance: slice, Growth: t - onset}}
			}
			return false
		}
		memory := gpu.Memory{Total: gpu.Some[uint64](16 * gib), Used: gpu.Some(used), Reserved: gpu.Some[uint64](gib / 2)}
		*to = gpu.Sample{
			T: start + t, Memory: memory, ProcessesKnown: true, ProcessesComplete: true,
			Processes: []gpu.Process{{ID: culprit, Instance: slice, Used: gpu.Some(used), Started: gpu.Some(start - time.Hour), SM: gpu.Some(0.7)}},
		}
		if slice.OK {
			to.Instances = []gpu.Instance{{ID: slice.V, Memory: memory}, {ID: slice.V + 1, Memory: gpu.Memory{Total: memory.Total, Used: gpu.Some[uint64](gib)}}}
		}
		t += interval
		return true
	}
	return s
}

// lines are families of such scenarios, a leak and a healthy one of which are held out.
func lines() []fleet.Family {
	of := func(name string, class fleet.Class, isHeld bool, slice gpu.Opt[uint32], rate float64) fleet.Family {
		return fleet.Family{Name: name, Class: class, Held: isHeld, Draw: func(seed uint64) *fleet.Scenario {
			return line(slice, rate*(1+float64(seed)/100))
		}}
	}
	none, slice := gpu.Opt[uint32]{}, gpu.Some[uint32](5)
	return []fleet.Family{
		of("leak_fast", fleet.Leak, false, none, 1<<20), of("leak_on_a_slice", fleet.Leak, true, slice, 1<<20),
		of("leak_slow", fleet.Leak, false, none, 1<<17), of("flat", fleet.Healthy, false, none, 0), of("flat_slice", fleet.Healthy, true, slice, 0),
	}
}

func printed(t *testing.T, opt options) string {
	t.Helper()
	if opt.list == nil {
		opt.list = lines()
	}
	if opt.seeds.first == 0 {
		opt.seeds = seedRange{1, 1}
	}
	var out strings.Builder
	must(t, opt.run(&out, opt))
	return out.String()
}

// TestBench runs lines past all rules: ours finds them, names the process, pages, and is silent on the others.
func TestBench(t *testing.T) {
	got := printed(t, options{run: benchFleet})
	for _, want := range []string{
		"# How well", "## Families for tuning, seeds 1 to 1: 3 families, 3 GPUs, 1 node-days", "## Families held out", "## All families",
		"| leaks found | 3/3 100.0 % | 3/3 100.0 % |", "| … and the right culprit named | 3/3 100.0 % | – |",
		"| out-of-memories paged 10 min ahead | 2/2 100.0 % |", "| healthy, ordinary: ever alarmed | 0/2 0.0 % | 0/2 0.0 % |",
		"| **cost of a fleet** | 100 | 100 |", "| leak fast | 1 | 1/1 |", "| leak, held out | 1 | 1/1 |", "| flat | 1 | 0 |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "leak on a slice") {
		t.Error("a family that is held out has a line of its own")
	}
}

// What is printed does not depend on how many run at a time.
func TestDeterministic(t *testing.T) {
	opt := options{run: benchFleet, seeds: seedRange{1, 2}}
	all := printed(t, opt)
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	if one := printed(t, opt); one != all {
		t.Errorf("with one processor\n%s\nwith all\n%s", one, all)
	}
}

// The values of the table of constants are those of the code.
func TestConstants(t *testing.T) {
	table, err := os.ReadFile("../../detector/CONSTANTS.md")
	must(t, err)
	rows := constants.FindAllStringSubmatch(string(table), -1)
	if len(rows) < 50 {
		t.Fatalf("%d constants", len(rows))
	}
	for _, row := range rows {
		if _, _, _, err := constantAt(row[1], row[2]); err != nil {
			t.Error(err)
		}
	}
}

func TestSeeds(t *testing.T) {
	for text, want := range map[string]seedRange{"3-3": {3, 3}, "301-310": {301, 310}, "3": {}, "2-1": {}, "x": {}, "1-": {}} {
		if got, err := parse([]string{"--seeds=" + text}); (err == nil) != (want.last > 0) || err == nil && got.seeds != want {
			t.Errorf("%q: %v, %v", text, got.seeds, err)
		}
	}
}

// TestReports lives a report of each sort again: each has its row, in the table of its sort.
func TestReports(t *testing.T) {
	for kind, want := range map[string][]string{
		"ollama-reload-loop":    {": leaks\n", "| 1 of 1 | "},
		"imagenet-defunct":      {": memory that was held for nobody\n", "| 1 of 1 |"},
		"jax-notebook-prealloc": {": what was taken for a leak and was none\n", "| 0 of 1 |"},
	} {
		got := printed(t, options{run: benchIncidents, family: kind})
		for _, want := range append(want, "["+kind+"](https://") {
			if strings.Count(got, want) != 1 {
				t.Errorf("%s: not once %q:\n%s", kind, want, got)
			}
		}
	}
}

// TestLimits judges programs with a limit, and the same ones on a GPU of that size: a leak, and what rests at its limit.
func TestLimits(t *testing.T) {
	for family, rows := range map[string][]string{
		"limit_leak_eval_outputs": {"| the end is the limit | 1/1 | 1 | 1/1 100.0 % | 1/1 100.0 % | ", "| the end is the capacity | 1/1 | 1 | 1/1 100.0 % | 1/1 100.0 % | "},
		"limit_healthy_vllm":      {"| the end is the limit | 0/0 | 0 | – | – | – | 2 | 0 | 0 | 0 |", "| the end is the capacity | 0/0 | 0 | – | – | – | 2 | 0 | 0 | 0 |"},
	} {
		got := printed(t, options{run: benchSummary, summary: "limits", family: family, seeds: seedRange{301, 301}})
		for _, row := range rows {
			if !strings.Contains(got, row) {
				t.Errorf("%s: no %q in\n%s", family, row, got)
			}
		}
	}
}

// TestChosen leaves fresh families out unless they are asked for.
func TestChosen(t *testing.T) {
	opt := options{list: []fleet.Family{{Name: "a"}, {Name: "b", Held: true}, {Name: "c", Held: true, Fresh: true}}}
	if got := len(opt.chosen(false)); got != 2 {
		t.Errorf("%d families", got)
	}
	if len(opt.chosen(true)) != 3 {
		t.Error("no fresh family")
	}
}

// TestLives prints the kinds that take a leak, and those that take a healthy service.
func TestLives(t *testing.T) {
	for family, want := range map[string][]string{
		"autograd_cycles": {"| leak in every life | found in each | 4 |", "| one earlier life leaked | silent in lives 3 to 5, found in life 6 | 4 |", "| a healthy life, and one that leaks | found in life 2 | 1 |"},
		"serve_plain":     {"| healthy | silent | 4 |", "| deploy of a larger model | silent | 4 |", "| two healthy lives | silent in life 2 where the first one shows all | 1 |"},
	} {
		got := printed(t, options{run: benchLives, family: family, list: fleet.Families()})
		for _, want := range append(want, "# What it is worth to know earlier lives", "## Families for tuning, by kind\n") {
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
		o := part.scores()[0]
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
