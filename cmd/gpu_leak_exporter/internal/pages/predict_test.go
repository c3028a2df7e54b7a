// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

func predict(s *sampler.State, note string) string { return predictAt(s, note, PredictPath) }

func predictAt(s *sampler.State, note, path string) string {
	return get(NewPredict(testConfig(s, note)), path).Body.String()
}

func TestPredictGolden(t *testing.T) {
	testkit.Golden(t, "testdata/predict.html", predict(fixture(), ""))
	testkit.Golden(t, "testdata/predict-gpu.html", predictAt(fixture(), "", PredictPath+"/gpu-0"))
	testkit.Golden(t, "testdata/predict-mig.html", predictAt(fixture(), "", PredictPath+"/gpu-1-mig-3"))
}

// TestPredictLocates says how far the search for lines is.
func TestPredictLocates(t *testing.T) {
	for want, s := range map[string]*allocator.Sites{
		"The process records where it allocates, until 12:04.":                                 {State: allocator.SitesAsked, Asked: epoch.Add(-time.Minute), Over: 5 * time.Minute},
		"Which lines allocate it is not known: the program records where it allocates itself.": {State: allocator.SitesRefused, Reason: "the program records where it allocates itself"},
		"No line was seen to allocate what stays in 5 min.":                                    {State: allocator.SitesDone, Over: 5 * time.Minute},
		"(recorded from 12:00 on for 1 min): +1.00 GiB not in Python code":                     {State: allocator.SitesDone, Asked: epoch, Over: time.Minute, List: []allocator.Site{{Growth: 1 << 30}}},
	} {
		f := fixture()
		f.Devices[0].Processes[0].Sites = s
		says(t, string(s.State), words(predict(f, "")), want)
	}
}

func TestPredictSays(t *testing.T) {
	device := func(v detector.Verdict) *sampler.DeviceState {
		return &sampler.DeviceState{
			Info: gpu.Info{Name: "T4"}, Up: true, SampleTime: epoch,
			MemoryState: sampler.MemoryState{Judgement: detector.Judgement[gpu.ProcessID]{T: steady(epoch), Device: v}},
		}
	}
	lost := &sampler.DeviceState{Info: gpu.Info{Index: 7, Name: "T4", UUID: "GPU-x"}, SampleTime: epoch.Add(-3 * time.Minute)}
	unified := device(healthy(0))
	unified.Info.CoherentMemory, unified.Info.UnifiedMemory = true, true
	unjudged := detector.Verdict{Windows: [detector.MaxWindows]detector.Fit{{Span: 10 * time.Minute, Fill: 0.5}, {Span: time.Hour, Fill: 0.1}}}
	for name, tt := range map[string]struct {
		state sampler.State
		note  string
		want  []string
	}{
		"starting": {sampler.State{DriverReason: sampler.ReasonStarting}, "", []string{"Waiting for the driver This takes a few seconds."}},
		"no driver": {
			sampler.State{DriverReason: "library_not_found"},
			"",
			[]string{"The driver does not answer (library_not_found)"},
		},
		"lost in a simulation": {
			sampler.State{Devices: []*sampler.DeviceState{lost}}, "Simulated.", []string{"Simulated.", "of 11:57:00 UTC.", "As of 2026-03-01 11:57:00 UTC;"},
		},
		"a simulation that begins": {sampler.State{Awaited: 1}, "Simulated.", []string{"As of 2026-03-01 12:00:00 UTC;"}},
		"no memory":                {sampler.State{Devices: []*sampler.DeviceState{device(unjudged)}}, "", []string{"Nothing tells how much of it is used."}},
		"the host's memory": {
			sampler.State{Devices: []*sampler.DeviceState{unified}},
			"",
			[]string{"No leak found on 1 GPU", "GPU 0 has no memory of its own. What is shown is the memory of the host, and all its programs use it."},
		},
		"muted": {
			sampler.State{Devices: []*sampler.DeviceState{device(muted()), device(healthy(0)), device(muted())}},
			"",
			[]string{"No leak found on 1 GPU", "GPU 0 T4 muted not known"},
		},
		"whole GPU":    {sampler.State{Devices: []*sampler.DeviceState{device(leaking(time.Hour))}}, "", []string{"runs out of memory in 1 h", "at 13:00 UTC", "at least 54 min", "not known"}},
		"tomorrow":     {sampler.State{Devices: []*sampler.DeviceState{device(leaking(24 * time.Hour))}}, "", []string{"at Mon 2 Mar 12:00 UTC"}},
		"in centuries": {sampler.State{Devices: []*sampler.DeviceState{device(leaking(math.MaxInt64))}}, "", []string{"over a year"}},
	} {
		tt.state.Time = epoch
		says(t, name, words(predict(&tt.state, tt.note)), tt.want...)
	}
}

// TestPredictOrder has a leak without a forecast behind one with it, and that before an error of the GPU.
func TestPredictOrder(t *testing.T) {
	v := leaking(time.Hour)
	v.SecondsToOOM, v.Lower, v.Upper = detector.Value{}, detector.Value{}, detector.Value{}
	s := fixture()
	s.Devices[4].Judgement = detector.Judgement[gpu.ProcessID]{T: steady(epoch), Device: v}
	s.Devices[0].XIDs = []sampler.XIDState{{Code: 92, Count: 1, Last: epoch}}
	says(t, "the GPU", predictAt(s, "", PredictPath+"/gpu-0"), `<h1 class="bad">GPU 0 runs out of memory`)
	got := predict(s, "")
	if known := strings.Index(got, `id="gpu-0"`); known < 0 || strings.Index(got, `id="gpu-4"`) < known {
		t.Error(got)
	}
}

// TestPredictEscapes gives every text that a process, a user or a driver chooses
// something that a browser would run.
func TestPredictEscapes(t *testing.T) {
	const evil = `"><script>alert(1)</script><img src=x onerror=alert(1)>'`
	s := fixture()
	s.DriverReason = evil
	for _, d := range s.Devices {
		d.Info.Name, d.Info.UUID = evil, evil
		for i := range d.Processes {
			d.Processes[i].Owner = &gpu.Owner{
				Process: evil, User: evil, Command: evil, ContainerID: evil, Namespace: evil, Pod: evil, Container: evil, SlurmJob: evil,
			}
		}
		for i := range d.Unreleased {
			d.Unreleased[i].Owner = &gpu.Owner{Process: evil, User: evil, Namespace: evil, Pod: evil, Container: evil, SlurmJob: evil}
		}
		for i := range d.Instances {
			d.Instances[i].Profile = evil
		}
	}
	got := predict(s, evil)
	if strings.Contains(got, "<script") || strings.Contains(got, "<img") || strings.Contains(got, "ZgotmplZ") {
		t.Error(got)
	}
	if n := strings.Count(got, "&lt;script&gt;"); n < 12 {
		t.Errorf("only %d texts are shown", n)
	}
}
