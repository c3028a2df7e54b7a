// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/history"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// said is a series of an hour of which each step says the same.
func said(k kind, s step, pairs ...string) *series {
	x := &series{kind: k, labels: history.Labels{"gpu": "0", "uuid": "GPU-0"}.With(pairs...), samples: 60, last: time.Hour}
	x.all = true
	for i := range 60 {
		s.t = time.Duration(i) * time.Minute
		x.keep(s)
	}
	return x
}

// fallen is a series whose memory was given back in the end, as by a crash.
func fallen(x *series) *series {
	x.capacity, x.used = detector.Of(100*gib), gib
	for i := range x.steps {
		x.steps[i].used = 85 * gib
	}
	return x
}

func TestHeadline(t *testing.T) {
	fine, young, mute, leak := step{judged: true}, step{}, step{muted: true}, step{judged: true, leak: true}
	begins := step{judged: true, confidence: 0.427, withheld: detector.WithheldProgramBegin, withheldFor: 35 * time.Minute}
	for _, tt := range []struct {
		list []*series
		want string
	}{
		{[]*series{said(kindMemory, fine)}, "Would not have alerted: no leak in 1 series, the longest of 1 h."},
		{
			[]*series{said(kindMemory, fine), said(kindProcess, young), said(kindProcess, young), said(kindProcess, mute)},
			"Would not have alerted: no leak in 1 series, the longest of 1 h; not judged: 3.",
		},
		{[]*series{said(kindMemory, young)}, "Nothing was judged: all series are muted or too short, the longest of 1 h."},
		{[]*series{said(kindMemory, mute), said(kindProcess, mute)}, "Nothing was judged: all series are muted or too short, the longest of 1 h."},
		{[]*series{said(kindMemory, mute), said(kindProcess, young)}, "Nothing was judged: all series are muted or too short, the longest of 1 h."},
		{
			[]*series{said(kindMemory, leak), said(kindProcess, fine, "pid", "7"), said(kindProcess, leak, "pid", "8", "process", "a")},
			"Would have ticketed at 1970-01-01 00:30 UTC for GPU 0 (a, pid 8), 30 min before the record ends; 2 series leak in all. Without its capacity there is no forecast and no page: give --capacity.",
		},
		{
			[]*series{said(kindMemory, leak), said(kindProcess, leak, "pid", "8", "gpu_instance", "3")},
			"Would have ticketed at 1970-01-01 00:30 UTC for GPU 0, 30 min before the record ends; 2 series leak in all. Without its capacity there is no forecast and no page: give --capacity.",
		},
		{
			[]*series{fallen(said(kindMemory, leak))},
			"Would have ticketed at 1970-01-01 00:30 UTC for GPU 0, 30 min before the record ends.",
		},
		{
			[]*series{{labels: history.Labels{"gpu": "3", "UUID": "GPU-3", "Hostname": "n1", "pod": "x", "namespace": "ml"}, steps: []step{leak}}},
			"Would not have paged or ticketed: GPU 3, pod ml/x was called a leak at 1970-01-01 00:00 UTC, 0 s before the record ends.",
		},
		{
			[]*series{{labels: history.Labels{"gpu": "0", "uuid": "GPU-0"}, last: time.Hour, steps: []step{leak, {t: time.Minute, judged: true}, {t: 50 * time.Minute, judged: true, leak: true}}}},
			"Would not have paged or ticketed: GPU 0 was called a leak at 1970-01-01 00:50 UTC, 10 min before the record ends.",
		},
		{
			[]*series{said(kindMemory, fine, "instance", "a:9844"), said(kindMemory, leak, "instance", "b:9844", "job", "gpu\x1b[2J")},
			"Would have ticketed at 1970-01-01 00:30 UTC for GPU 0, instance b:9844, 30 min before the record ends. Without its capacity there is no forecast and no page: give --capacity.",
		},
		{
			[]*series{said(kindMemory, begins), said(kindProcess, begins, "pid", "7", "process", "a"), said(kindProcess, fine, "pid", "8")},
			"Would not have alerted: no leak in 3 series, the longest of 1 h; suspected at the end: 2.",
		},
	} {
		if got := headline(resultsOf(tt.list), time.UTC); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

// TestBriefRows has more short-lived processes than anyone wants to see.
func TestBriefRows(t *testing.T) {
	list := []*series{said(kindMemory, step{judged: true})}
	for range 25 {
		list = append(list, said(kindProcess, step{}))
	}
	list = append(list, said(kindProcess, step{muted: true}, "pid", "8"), said(kindProcess, step{judged: true, leak: true}, "pid", "9"))
	var table, page bytes.Buffer
	if err := writeTable(&table, resultsOf(list), time.UTC); err != nil {
		t.Fatal(err)
	}
	if got := table.String(); strings.Count(got, "not judged") != briefRows || !strings.Contains(got, "\n... and 15 more processes that ended before a verdict\n") ||
		strings.Count(got, "muted") != 1 || strings.Count(got, "leak at") != 1 {
		t.Error(got)
	}
	if err := writeReport(&page, resultsOf(list), time.UTC); err != nil {
		t.Fatal(err)
	}
	if got := page.String(); strings.Count(got, "not judged</span>") != briefRows || !strings.Contains(got, "28 series, 1 of them leaking; 1680 samples. Times are UTC. Not shown are 15 processes that ended before a verdict.") {
		t.Error(got)
	}
}
