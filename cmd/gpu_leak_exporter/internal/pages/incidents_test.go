// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// incidents are a program that filled its GPU and had a page, and a GPU of which little is known that was lost ten minutes later.
func incidents() incident.Snapshot {
	const gib = 1 << 30
	at, page, since := epoch.Add(-20*time.Minute), epoch.Add(-28*time.Minute), epoch.Add(-35*time.Minute)
	died := incident.Process{
		Who: finding.Who{Process: "train.py", Namespace: "ml", Pod: "train-0"}, PID: 42, Ended: true, ExitCode: gpu.Some(int32(137)), Used: gpu.Some(uint64(72 * gib)),
		Lines: []gpu.Line{{Line: "app/train.py:88 <module>", Bytes: 30 * gib}},
	}
	other := incident.Process{Who: finding.Who{Process: "<b>serve"}, PID: 43, Used: gpu.Some(uint64(6 * gib))}
	full := &incident.Incident{
		Kind: incident.OutOfMemory, Time: at, GPU: "0", UUID: "GPU-leaks", Memory: "GPU 0", Capacity: gpu.Some(uint64(79 * gib)), Used: gpu.Some(uint64(78 * gib)),
		Finding: incident.Finding{Text: "GPU 0 runs out of memory in 1 min.", Since: &since, By: "page", At: &page},
		Start:   at.Add(-10 * time.Minute), Step: incident.Step.Seconds(), Ended: 1, Others: 3,
	}
	for n := range 61 {
		mib := uint64(n) << 20
		full.Course = append(full.Course, gpu.Some(6*gib+1229*mib).If(n < 20 || n > 25)) // it was not read for a while
		died.Course, other.Course = append(died.Course, gpu.Some(1229*mib)), append(other.Course, gpu.Some(uint64(6*gib)))
	}
	full.Processes = []incident.Process{died, other}
	lost := &incident.Incident{
		Kind: incident.Lost, Time: epoch.Add(-10 * time.Minute), GPU: "2", UUID: "GPU-lost", Memory: "GPU 2", Finding: incident.Finding{By: "nothing"},
		Start: epoch.Add(-10 * time.Minute), Step: incident.Step.Seconds(), Course: []gpu.Opt[uint64]{{}}, Processes: []incident.Process{{PID: 9, Course: []gpu.Opt[uint64]{{}}}},
	}
	s := incident.NewStore("", incident.Most, nil)
	s.Add(full)
	s.Add(lost)
	return s.Now()
}

// TestIncidents has the page and the JSON of two incidents, of none, and where none are kept.
func TestIncidents(t *testing.T) {
	state := &sampler.State{Time: epoch, Incidents: incidents()}
	page := get(NewIncidents(testConfig(state, "")), IncidentsPath).Body.String()
	testkit.Golden(t, "testdata/incidents.html", page)
	goldenJSON(t, "incidents.json", NewIncidentsJSON(func() *sampler.State { return state }))
	if strings.Contains(page, "<b>") || strings.Contains(page, "NaN") || strings.Count(page, "<svg class") != 1 {
		t.Error(page)
	}
	for name, none := range map[string]*sampler.State{"none": {Time: epoch, Incidents: incident.Snapshot{}}, "none are kept": {Time: epoch}} {
		page := get(NewIncidents(testConfig(none, "")), IncidentsPath).Body.String()
		says(t, name, words(page), "No incident", "Nothing has ended while its memory was full")
		says(t, name, get(NewIncidentsJSON(func() *sampler.State { return none }), "/").Body.String(), `{"status":"success","data":[]}`+"\n")
	}
}
