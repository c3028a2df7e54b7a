// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-kit/log"

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
	l.update(logger, &DeviceState{})
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

// withoutTime cuts the time stamp of a state out of a line.
func withoutTime(line string) string {
	return strings.ReplaceAll(line, "at=0001-01-01T00:00:00Z ", "")
}
