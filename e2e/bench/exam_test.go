// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
)

// Kinds of both exams have this in their names, leaks among them; none of the sets
// has.
func TestExam(t *testing.T) {
	got := text(t, "--exam=jobs,layers", "--seeds=2-3", "--kind=high water", "--verbose", "--markdown")
	for _, want := range []string{
		"## Exam jobs, seeds 2 to 3: 0 leaks, 6 healthy series of ", "## Exam layers, seeds 2 to 3: 4 leaks, 12 healthy series of ",
		"| found within 15 min, without leaks that begin with their program | ", " | prototype |\n",
		"## Leaks by kind, exam layers\n", "| over high water | 4 | ", "## Healthy series by kind, exam jobs\n", "| allocator high water | 12 | ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	for _, other := range []string{"## Set ", "## Leaks by kind, exam jobs", "| serving |"} {
		if strings.Contains(got, other) {
			t.Errorf("%q is in\n%s", other, got)
		}
	}
	if again := text(t, "--exam=layers", "--seeds=2-3", "--kind=over high", "--rivals=false"); !strings.Contains(again, "\nover high water  4  ") {
		t.Errorf("as text:\n%s", again)
	}
}

// Ours is asked in an exam when the rivals are. Series of this exam have samples on
// the minute.
func TestExamIsAskedEachMinute(t *testing.T) {
	e := allExams[1]
	found := 0
	for i := range 8 {
		j := (&runner{minutely: true, verbose: true}).examine(e, 1, i)
		if j.err != nil || j.ours.first()%time.Minute != 0 && j.ours.first() != never {
			t.Errorf("%s %d: alarm at %s, %v", j.name, i, j.ours.first(), j.err)
		}
		if j.ours.found != never {
			found++
		} else if !strings.Contains(j.note, j.name+"/1/") {
			t.Errorf("%s %d has the note %q", j.name, i, j.note)
		}
	}
	if found == 0 {
		t.Error("no leak is found")
	}
}

func TestExamArguments(t *testing.T) {
	for arg, want := range map[string]string{
		"--exam=jobs,none": `"none"`, "--exam=jobs,": `""`, "--seeds=": `""`, "--seeds=5": `"5"`, "--seeds=3-2": `"3-2"`,
		"--seeds=-1-2": `"-1-2"`, "--seeds=a-b": `"a-b"`, "--seeds=1-2-3": `"1-2-3"`, "--seeds=0-4294967296": `"0-4294967296"`,
	} {
		if _, err := parse([]string{arg}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arg, err)
		}
	}
	opt, err := parse([]string{"--exam=layers,jobs", "--seeds=301-310", "--kind=no such kind"})
	if err != nil {
		t.Fatal(err)
	}
	if len(opt.exams) != 2 || opt.exams[0].name != "layers" || opt.seeds != (seedRange{301, 310}) {
		t.Errorf("%+v", opt)
	}
	if err := bench(&bytes.Buffer{}, opt); err == nil {
		t.Error("no kind, no error")
	}
}

// The tables are by kind: a leak and a healthy series must not share one.
func TestKindsOfExams(t *testing.T) {
	for _, e := range allExams {
		leaks := map[string]bool{}
		for i := range exams.Leaks + exams.Healthy {
			if kind := e.kind(i); i < exams.Leaks {
				leaks[kind] = true
			} else if leaks[kind] {
				t.Errorf("%s: %q is a kind of both", e.name, kind)
			}
		}
	}
}
