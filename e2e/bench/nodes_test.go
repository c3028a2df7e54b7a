// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams/nodes"
)

// storyOf returns what follows a story that is told by hand.
func storyOf(t *testing.T, s nodes.Labels) *storyJudge {
	t.Helper()
	j := newStoryJudge(&nodes.Story{Labels: s}, "test", false)
	if j.out.err != nil {
		t.Fatal(j.out.err)
	}
	return j
}

// TestWarned counts an out-of-memory as announced where the alarm had been on for ten minutes.
func TestWarned(t *testing.T) {
	j := storyOf(t, nodes.Labels{Length: 3 * time.Hour, OOMs: []time.Duration{time.Hour, 2 * time.Hour, 150 * time.Minute}})
	for at := time.Duration(0); at < 3*time.Hour; at += time.Minute {
		j.outOfMemory(at)
		for rule, from := range []time.Duration{50 * time.Minute, 51 * time.Minute} {
			// On until the second one, then again five minutes before the third.
			on := at >= from && at < 2*time.Hour || at >= 145*time.Minute
			j.askGPU(at, rule, answer{leak: on})
		}
	}
	if j.out.ooms != 3 || !slices.Equal(j.out.warned, []int{2, 1}) {
		t.Errorf("%d out-of-memories, announced %v", j.out.ooms, j.out.warned)
	}
}

// TestAccused tells an alarm on the leak from one on somebody else.
func TestAccused(t *testing.T) {
	process, pool, nobody := nodes.Leak{ID: 1}, nodes.Leak{Group: "pool"}, nodes.Leak{}
	for _, c := range []struct {
		name string
		who  subject
		leak nodes.Leak
		want bool
	}{
		{"the process", subject{id: 1}, process, true},
		{"its pod", subject{group: "pod"}, process, true},
		{"another process of its pod", subject{id: 2}, process, false},
		{"what nobody holds", subject{}, process, false},
		{"the pool", subject{group: "pool"}, pool, true},
		{"a worker of the pool", subject{id: 3}, pool, true},
		{"another pod", subject{group: "pod"}, pool, false},
		{"what nobody holds, and that leaks", subject{}, nobody, true},
		{"a process, where that leaks", subject{id: 1}, nobody, false},
	} {
		j := &storyJudge{group: map[int]string{1: "pod", 2: "pod", 3: "pool"}}
		if got := j.accused(c.who, &c.leak); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestInnocent counts alarms on what does not leak, once each.
func TestInnocent(t *testing.T) {
	j := storyOf(t, nodes.Labels{Length: time.Hour, Leaks: []nodes.Leak{{ID: 1, From: 10 * time.Minute, To: 20 * time.Minute}}})
	on, off := &detector.Verdict{Judged: true, Leak: true}, &detector.Verdict{Judged: true}
	for _, c := range []struct {
		at      time.Duration
		who     int
		verdict *detector.Verdict
		want    int
	}{
		{5 * time.Minute, 1, on, 1}, // too early
		{6 * time.Minute, 1, on, 1},
		{7 * time.Minute, 1, off, 1},
		{15 * time.Minute, 1, on, 1},
		{16 * time.Minute, 2, on, 2}, // somebody else
		{17 * time.Minute, 1, off, 2},
		{29 * time.Minute, 1, on, 2}, // it has just ended
		{30 * time.Minute, 1, off, 2},
		{31 * time.Minute, 1, on, 3},
	} {
		if j.alarm(c.at, subject{id: c.who}, c.verdict); j.out.innocent != c.want {
			t.Errorf("at %s: %d, want %d", c.at, j.out.innocent, c.want)
		}
	}
}

// TestIdleRule calls who rests for ten minutes a zombie, rightly or not.
func TestIdleRule(t *testing.T) {
	j := storyOf(t, nodes.Labels{Length: time.Hour, Zombies: []nodes.Zombie{{ID: 1, From: 5 * time.Minute, To: time.Hour}}})
	for at := time.Duration(0); at < time.Hour; at += time.Minute {
		for id := 1; id <= 3; id++ {
			p := nodes.Process{ID: id, Used: 1 << 30}
			if id == 3 && at%(9*time.Minute) == 0 || id == 1 && at < 5*time.Minute {
				p.SM = 0.1
			}
			j.rest(at, &p)
		}
	}
	if j.out.idle[0] != 10*time.Minute || j.out.falseIdle != 1 {
		t.Errorf("named after %v, %d others", j.out.idle, j.out.falseIdle)
	}
}

// TestNodes runs the exam: all who hold memory for nothing are counted, and no rule is without a figure.
func TestNodes(t *testing.T) {
	var out strings.Builder
	opt := options{seeds: seedRange{1, 1}, kind: "unreleased", rivals: true, nodes: true, verbose: true}
	if err := benchNodes(&out, opt); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Exam nodes, seeds 1 to 1: 0 GPUs with a leak, 6 healthy ones", "unreleased memory named", "gpumemprof"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("lacks %q:\n%s", want, out.String())
		}
	}
	index := 0
	for nodes.Kind(index) != "unreleased" {
		index++
	}
	r := judgeStory(nodes.New(1, index), 1, index, false)
	if r.err != nil || len(r.unreleased) == 0 || r.unreleased[0] < time.Minute || r.unreleased[0] > 10*time.Minute || len(r.gpu) != 2 || r.processes == 0 {
		t.Errorf("%+v", r)
	}
}
