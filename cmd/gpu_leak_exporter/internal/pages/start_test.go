// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

func start(s *sampler.State) string {
	return get(NewStart(testConfig(s, "")), StartPath).Body.String()
}

// TestStartSays asks the page that one opens first what one asks first: is all well, what is worst, and what
// is watched.
func TestStartSays(t *testing.T) {
	testkit.Golden(t, "testdata/start.html", start(fixture()))
	device := func(index int, v detector.Verdict) *sampler.DeviceState {
		return &sampler.DeviceState{
			Info: gpu.Info{Index: index, UUID: fmt.Sprintf("GPU-%d", index), Name: "T4"}, Up: true, SampleTime: epoch,
			MemoryState: sampler.MemoryState{Memory: memory(80<<30, 1<<30, 1<<30), Judgement: detector.Judgement[gpu.ProcessID]{T: steady(epoch), Device: v}},
		}
	}
	well, leaks := detector.Verdict{Judged: true}, detector.Verdict{Judged: true, Leak: true, Confidence: 0.9, SecondsToOOM: detector.Of(1200)}
	for name, tt := range map[string]struct {
		state *sampler.State
		want  []string
	}{
		"well":      {&sampler.State{Devices: []*sampler.DeviceState{device(0, well), device(1, well)}}, []string{`<h1 class="ok">No leak found on 2 GPUs`}},
		"one leaks": {&sampler.State{Devices: []*sampler.DeviceState{device(0, well), device(1, leaks)}}, []string{"<h1 class=\"bad\">GPU 1 runs out of memory in 20 min", `<a href="/predict/gpu-1">`}},
		"no driver": {&sampler.State{DriverReason: "library_not_found"}, []string{`<h1 class="bad">The driver does not answer (library_not_found)`}},
		"no GPU": {&sampler.State{DriverReason: "library_not_found", PCIDevices: gpu.Some(0)}, []string{
			`<h1 class="">No GPU found</h1>`, `The driver does not answer (library_not_found). <a href="/runbook#gpudriverdown">What to do</a>`,
		}},
		"one lost": {&sampler.State{Devices: []*sampler.DeviceState{device(0, well), {Info: gpu.Info{Index: 1, Name: "T4"}}}}, []string{`<h1 class="bad">GPU 1 (T4) cannot be read`}},
		"small":    {&sampler.State{Devices: []*sampler.DeviceState{device(0, detector.Verdict{Judged: true, Leak: true, Rate: detector.Of(1), Leaked: detector.Of(1 << 20)})}}, []string{`<h1 class="">GPU 0 leaks`}},
		"young":    {&sampler.State{Devices: []*sampler.DeviceState{device(0, detector.Verdict{})}}, []string{`<h1 class="">Watching 1 GPU`}},
	} {
		says(t, name, start(tt.state), tt.want...)
	}
}

// A fleet's page names the worst, and says that there are more.
func TestStartIsShort(t *testing.T) {
	body := start(crowd(16, 256, 200))
	if n := strings.Count(body, `<li class="bad">`); n != shortFindings || len(body) > 12<<10 || !strings.Contains(body, "more: <a") {
		t.Errorf("%d findings in %d bytes", n, len(body))
	}
}
