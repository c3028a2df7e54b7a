// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// TestReport sums a node up: what is worst comes first, and what is not known hides nothing.
func TestReport(t *testing.T) {
	device := func(change func(*DeviceState)) *DeviceState {
		d := said()
		d.Info, d.Up, d.Memory.Used = gpu.Info{Name: "T4"}, true, gpu.Some(uint64(1))
		d.Judgement.Device.Windows[0] = detector.Fit{Span: time.Hour, Fill: 0.1}
		change(d)
		return d
	}
	well := device(func(*DeviceState) {})
	young := device(func(d *DeviceState) { d.Judgement.Device.Judged = false })
	muted := device(func(d *DeviceState) { d.Judgement.Device = detector.Verdict{Muted: true} })
	blind := device(func(d *DeviceState) { d.Judgement.Device, d.Memory = detector.Verdict{}, gpu.Memory{} })
	lost := device(func(d *DeviceState) {
		d.Up, d.Error, d.XIDs = false, "GPU is lost", []XIDState{{Code: 79, Count: 1, Last: fixtureAt(0)}}
	})
	errors := device(func(d *DeviceState) {
		d.Status.ECC = gpu.ECC{Errors: []gpu.ECCErrors{{Type: "uncorrected", Counter: "volatile", Count: 1}}, RemapPending: gpu.Some(true)}
		d.XIDs = []XIDState{{Code: 94, Count: 1, Last: fixtureAt(0)}, {Code: 121, Count: 1, Last: fixtureAt(0)}, {Code: 74}}
	})
	small := device(func(d *DeviceState) {
		d.Judgement.Device.Leak, d.Judgement.Device.Leaked, d.Findings = true, detector.Of(1<<20), []FindingState{{Finding: finding.Finding{Leaking: detector.Of(1)}}}
	})
	hot := device(func(d *DeviceState) {
		d.Status.Thermal.Temperatures = []gpu.Named[float64]{{Name: "gpu", V: 60}, {Name: "memory", V: 95}}
		d.Status.Thermal.Thresholds = []gpu.Named[float64]{{Name: "slowdown", V: 90}, {Name: "memory_max", V: 95}}
	})
	warm := device(func(d *DeviceState) {
		d.Status.Thermal.Temperatures, d.Status.Thermal.Thresholds = []gpu.Named[float64]{{Name: "gpu", V: 89}}, []gpu.Named[float64]{{Name: "slowdown", V: 90}, {Name: "memory_max", V: 80}}
	})
	alone := &DeviceState{Up: true, Findings: []FindingState{{Finding: finding.Finding{Who: finding.Who{Process: "train.py"}, Leaking: detector.Of(1)}}}}
	reset := device(func(d *DeviceState) { d.Status.ECC.RecoveryAction = gpu.Some(1) })
	leaks := device(func(d *DeviceState) {
		d.Judgement.Device.Leak, d.Findings = true, []FindingState{{Finding: finding.Finding{Leaking: detector.Of(1)}}}
	})
	slice := device(func(d *DeviceState) {
		in := gpu.Some(uint32(3))
		d.Instances = []MemoryState{{MemoryKey: MemoryKey{Instance: in}, Profile: "2g.20gb", Judgement: detector.Judgement[gpu.ProcessID]{Page: true, Device: detector.Verdict{Judged: true, SecondsToOOM: detector.Of(60)}}}}
		d.Findings = []FindingState{{MemoryKey: MemoryKey{Instance: in}, Finding: finding.Finding{OOM: detector.Of(60), Evidence: detector.EvidenceFilling}}, {Finding: finding.Finding{Leaking: detector.Of(1)}}}
	})
	of := func(d ...*DeviceState) *State { return &State{Time: fixtureAt(0), Devices: d} }
	const note, unknown, ticket, page = finding.Note, finding.Unknown, finding.Ticket, finding.Page
	for name, c := range map[string]struct {
		state    *State
		severity finding.Severity
		text     string
		said     []finding.Severity
	}{
		"well":                   {of(well, well), note, "No leak found on 2 GPUs.", nil},
		"one leaks":              {of(well, leaks, young), ticket, "GPU 0 leaks. The memory as a whole grows.", []finding.Severity{ticket}},
		"one is lost, one leaks": {of(leaks, lost), page, "GPU 0 (T4) cannot be read. Reading it fails: GPU is lost. Its last sample is of ", []finding.Severity{page, ticket}},
		"processes alone":        {of(alone), ticket, "GPU 0 leaks. train.py grows.", []finding.Severity{ticket}},
		"a leak that is small":   {of(well, small), note, "GPU 0 leaks. The memory as a whole grows. It has not given back 1.00 MiB", []finding.Severity{note}},
		"the driver hangs":       {&State{DriverReason: "call_does_not_return", Devices: []*DeviceState{well}}, page, "The driver does not answer (call_does_not_return).", []finding.Severity{page}},
		"all lost, no driver":    {&State{DriverReason: "call_does_not_return", Devices: []*DeviceState{lost, lost}}, page, "The driver does not answer (call_does_not_return).", []finding.Severity{page, page, page}},
		"errors of memory":       {of(well, errors), page, "GPU 0 (T4) has memory errors that could not be corrected.", []finding.Severity{page, ticket}},
		"it needs a reset":       {of(well, reset), ticket, "GPU 0 (T4) waits for a reset.", []finding.Severity{ticket}},
		"its memory is hot":      {of(well, hot), page, "GPU 0 (T4) is as hot as it may be.", []finding.Severity{page}},
		"warm":                   {of(warm), note, "No leak found on 1 GPU.", nil},
		"a slice":                {of(slice), page, "GPU 0, MIG 3 (2g.20gb) runs out of memory in 1 min. The memory as a whole grows.", []finding.Severity{page}},
		"all lost":               {of(lost), page, "GPU 0 (T4) cannot be read.", []finding.Severity{page}},
		"young":                  {of(young), unknown, "Watching 1 GPU. Not judged yet: 1.", nil},
		"some young, some muted": {of(well, young, muted), unknown, "No leak found on 1 GPU. Not judged yet: 1.", nil},
		"muted":                  {of(muted), note, "Watching 1 GPU.", nil},
		"blind":                  {of(blind), unknown, "Watching 1 GPU. Not judged yet: 1.", nil},
		"no GPU":                 {of(), unknown, "No GPU found.", nil},
		"awaited":                {&State{Awaited: 2}, unknown, "Waiting for the driver.", nil},
		"starting":               {&State{DriverReason: ReasonStarting}, unknown, "Waiting for the driver.", nil},
		"no driver":              {&State{DriverReason: "driver_not_loaded"}, page, "The driver does not answer (driver_not_loaded).", []finding.Severity{page}},
		"a node without a GPU":   {&State{DriverReason: "library_not_found", PCIDevices: gpu.Some(0)}, unknown, "No GPU found. The driver does not answer (library_not_found).", []finding.Severity{unknown}},
		"a GPU without a driver": {&State{DriverReason: "library_not_found", PCIDevices: gpu.Some(1)}, page, "The driver does not answer (library_not_found).", []finding.Severity{page}},
	} {
		r := c.state.Report()
		text := r.Text()
		same := r.Severity == c.severity && strings.HasPrefix(text, c.text) && len(r.Messages) == len(c.said)
		for i := range r.Messages {
			same = same && r.Messages[i].Severity == c.said[i]
		}
		if !same {
			t.Errorf("%s: %s: %s\n%+v\nwant %s: %s", name, r.Severity, text, r.Messages, c.severity, c.text)
		}
	}
	word, why := (&Domain{&alone.MemoryState, alone}).Verdict(fixtureAt(0))
	equal(t, word+": "+why, "leaks: train.py grows.", "the verdict on a GPU of which processes alone are known")
}
