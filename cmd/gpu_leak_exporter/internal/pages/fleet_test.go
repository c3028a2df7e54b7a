// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/fleet"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// TestPageOfFleet has a page of 10,000 GPUs: short, and with those that matter.
func TestPageOfFleet(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	s := &sampler.State{Time: now, Places: []string{"zone", "node"}}
	for i := range 10_000 {
		d := &sampler.DeviceState{
			Info: gpu.Info{Index: i % 8, UUID: fmt.Sprintf("GPU-%d", i), Place: [gpu.MaxPlaceLabels]string{"", fmt.Sprintf("node%d", i/8)}},
			Up:   i < 9_900, SampleTime: now,
		}
		d.Memory.Used, d.Judgement.T = gpu.Some(uint64(5)), 1
		d.Judgement.Device = detector.Verdict{Judged: true, Leak: i == 9_000, Rate: detector.Of(1), Pattern: detector.PatternStable}
		s.Devices = append(s.Devices, d)
	}
	h := testConfig(s, "")
	page := predict(s, "")
	says(
		t, "the page", page, "GPU 0 of node1125", "GPU 4 of node1237 (GPU-9900) cannot be read", "68 more: <a", "9744 more GPUs have no cards",
		`href="/predict/gpu-9000"`,
	)
	if len(page) > 512<<10 {
		t.Errorf("the page has %d bytes", len(page))
	}
	if v := h.view(s, "gpu-9000"); len(v.Cards) != 1 || v.Cards[0].GPU != "GPU 0 of node1125" || v.Cards[0].Verdict != "leaks" {
		t.Errorf("the page of a GPU has %+v", v.Cards)
	}
	d := fromstate.Of(s).Devices[9_000]
	testkit.Equal(t, d.Title, "GPU 0 of node1125", "the title in the JSON")
	testkit.Equal(t, d.Labels, map[string]string{"gpu": "0", "uuid": "GPU-9000", "zone": "", "node": "node1125"}, "the labels in the JSON")
	s.Devices, s.DriverReason = nil, fleet.ReasonDown
	says(t, "without an answer", predict(s, ""), "The Prometheus of --source does not answer")
}

// TestNamesOfMemories names GPUs in a path and in an identifier: by the index, and in a fleet so that no two are the same.
func TestNamesOfMemories(t *testing.T) {
	place := [gpu.MaxPlaceLabels]string{"10.0.0.1:9400", "", "no de/1"}
	for want, info := range map[string]gpu.Info{
		"gpu-3":                       {Index: 3, UUID: "GPU-a"},
		"gpu-a":                       {Index: 3, UUID: "GPU-a", Place: place},
		"gpu-10.0.0.1-9400-no-de-1-3": {Index: 3, Place: place},
		"gpu-b":                       {Index: -1, UUID: "GPU-b"},
	} {
		if got := fromstate.PathOf(&sampler.Domain{MemoryState: &sampler.MemoryState{}, Device: &sampler.DeviceState{Info: info}}); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	names := map[string]bool{}
	for _, of := range []string{"/pods/a/main", "/pods/b/main", "/pods/a-main", "/pods/a main", "/", "/..", "process-7-1"} {
		d := sampler.Domain{MemoryState: &sampler.MemoryState{MemoryKey: sampler.MemoryKey{Of: of}}, Device: &sampler.DeviceState{}}
		name := fromstate.PathOf(&d)
		if names[name] || !regexp.MustCompile(`^[\w.-]+$`).MatchString(name) {
			t.Errorf("%q is the name of the limit %q", name, of)
		}
		names[name] = true
		d.Device.Up, d.Device.Limited = true, []sampler.MemoryState{*d.MemoryState}
		if got := fromstate.Of(&sampler.State{Devices: []*sampler.DeviceState{d.Device}}).Devices[0].Limited[0].Path; got != name {
			t.Errorf("the JSON leads to %q, and the page is %q", got, name)
		}
	}
}
