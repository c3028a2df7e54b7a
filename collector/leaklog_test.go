// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/go-kit/log"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// A crash loop is one leak from its first line to its last: between two lives the
// workload has no process, and the GPU leaks on without one.
func TestLeakLogOfACrashLoop(t *testing.T) {
	leak := detector.Verdict{Judged: true, Leak: true}
	workload := []WorkloadState{{Namespace: "ml", Pod: "train-0", Verdict: leak}}
	lives := &DeviceState{Workloads: workload, Judgement: detector.Judgement[gpu.ProcessID]{Device: leak}}
	pauses := &DeviceState{Judgement: detector.Judgement[gpu.ProcessID]{Device: leak}}
	var out bytes.Buffer
	logger, l := log.NewLogfmtLogger(&out), leakLog{}
	for range 3 {
		l.update(logger, lives)
		l.update(logger, pauses)
	}
	const begins = `level=warn workload=ml/train-0 msg="memory leak detected"`
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(withoutTime(got), begins) {
		t.Errorf("while it goes on:\n%s", got)
	}
	out.Reset()
	l.update(logger, &DeviceState{Judgement: detector.Judgement[gpu.ProcessID]{Device: detector.Verdict{Judged: true}}})
	const ends = `level=info workload=ml/train-0 msg="the leak is over`
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(withoutTime(got), ends) {
		t.Errorf("at its end:\n%s", got)
	}
	// What leaks without a workload that did is nobody's.
	out.Reset()
	l.update(logger, pauses)
	if got := out.String(); !strings.Contains(got, "who=unknown") {
		t.Errorf("of nobody:\n%s", got)
	}
}

// A reading that fails ends no leak, of a process or of a whole GPU: the log would tell of it again with
// the next one. What is muted is over.
func TestLeakLogOfAReadingThatFails(t *testing.T) {
	leak, fine := detector.Verdict{Judged: true, Leak: true}, detector.Verdict{Judged: true}
	state := func(device, process detector.Verdict) *DeviceState {
		s := &DeviceState{Judgement: detector.Judgement[gpu.ProcessID]{Device: device}}
		s.Processes = []ProcessState{{Process: gpu.Process{Owner: &gpu.Owner{}}, Verdict: process}}
		return s
	}
	for name, c := range map[string]struct {
		leaks *DeviceState
		then  []*DeviceState
		ends  int // in which of these the leak is said to be over; -1 none
	}{
		"of a process":            {state(leak, leak), []*DeviceState{state(leak, detector.Verdict{}), state(leak, leak)}, -1},
		"of its GPU":              {state(leak, leak), []*DeviceState{state(detector.Verdict{}, leak), state(leak, leak)}, -1},
		"of all":                  {state(leak, leak), []*DeviceState{state(detector.Verdict{}, detector.Verdict{}), state(leak, leak)}, -1},
		"of a GPU without a list": {state(leak, fine), []*DeviceState{state(detector.Verdict{}, fine), state(leak, fine)}, -1},
		"and then it is over":     {state(leak, leak), []*DeviceState{state(detector.Verdict{}, detector.Verdict{}), state(fine, fine)}, 1},
		"muted":                   {state(leak, leak), []*DeviceState{state(fine, detector.Verdict{Muted: true})}, 0},
	} {
		var out bytes.Buffer
		logger, l := log.NewLogfmtLogger(&out), leakLog{}
		l.update(logger, c.leaks)
		for i, s := range c.then {
			out.Reset()
			l.update(logger, s)
			if over := strings.Contains(out.String(), "the leak is over"); over != (i == c.ends) || strings.Contains(out.String(), "detected") {
				t.Errorf("%s, state %d:\n%s", name, i, out.String())
			}
		}
	}
}

// A process that is gone leaks no more, also where the driver never tells how much of the GPU is in use.
func TestLeakLogOfAGPUWithoutUsedMemory(t *testing.T) {
	for name, gone := range map[string]bool{"the process is gone": true, "its list cannot be read": false} {
		var out bytes.Buffer
		logger, l := log.NewLogfmtLogger(&out), leakLog{}
		leaks := &DeviceState{ProcessesKnown: true, Processes: []ProcessState{
			{Process: gpu.Process{Owner: &gpu.Owner{}}, Verdict: detector.Verdict{Judged: true, Leak: true}},
		}}
		leaks.Processes[0].ID.PID = 7
		l.update(logger, leaks)
		l.update(logger, &DeviceState{ProcessesKnown: gone})
		if over := strings.Contains(out.String(), "the leak is over"); over != gone {
			t.Errorf("%s:\n%s", name, out.String())
		}
	}
}

// withoutTime cuts the time stamp of a state out of a line.
func withoutTime(line string) string {
	return strings.ReplaceAll(line, "at=0001-01-01T00:00:00Z ", "")
}

// What a process tells of the lines that allocate what leaks is said once.
func TestLeakLogOfSites(t *testing.T) {
	state := func(s *allocator.Sites) *DeviceState {
		return &DeviceState{Processes: []ProcessState{{Process: gpu.Process{ID: gpu.ProcessID{PID: 7}, Owner: &gpu.Owner{Process: "train.py"}}, Sites: s}}}
	}
	first, later := fixtureAt(1), fixtureAt(2)
	done := &allocator.Sites{State: allocator.SitesDone, Asked: later, Over: 5 * time.Minute, List: []allocator.Site{{Growth: 9, Line: "app/train.py:88 step"}}}
	var out bytes.Buffer
	logger, l := log.NewLogfmtLogger(&out), leakLog{}
	for _, s := range []struct {
		*allocator.Sites
		want string
	}{
		{nil, ""},
		{&allocator.Sites{State: allocator.SitesAsked, Asked: first}, ""},
		{&allocator.Sites{State: allocator.SitesRefused, Asked: first, Reason: "it is old"}, `level=info pid=7 process=train.py group= msg="the lines that allocate what leaks are not known" err="it is old"`},
		{&allocator.Sites{State: allocator.SitesRefused, Asked: first, Reason: "it is old"}, ""},
		{&allocator.Sites{State: allocator.SitesRecording, Asked: later}, ""},
		{done, `level=warn pid=7 process=train.py group= msg="the line that allocates most of what leaks" site="app/train.py:88 step" bytes=9 over=5m0s`},
		{done, ""},
		{nil, ""},
		{&allocator.Sites{State: allocator.SitesDone, Asked: later, Over: time.Minute}, `level=info pid=7 process=train.py group= msg="no line was seen to allocate what stays" over=1m0s`},
	} {
		out.Reset()
		l.update(logger, state(s.Sites))
		if got := strings.TrimSpace(withoutTime(out.String())); got != s.want {
			t.Errorf("%+v: %s, want %s", s.Sites, got, s.want)
		}
	}
}
