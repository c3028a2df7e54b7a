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
		"well":                   {of(well, well), note, "No leak found on 2 GPUs. The longest window holds 6 min.", nil},
		"one leaks":              {of(well, leaks, young), ticket, "GPU 0 leaks. The memory as a whole grows.", []finding.Severity{ticket}},
		"one is lost, one leaks": {of(leaks, lost), page, "GPU 0 (T4) cannot be read. Reading it fails: GPU is lost. XID 79: it has fallen off the bus. Its last sample is of ", []finding.Severity{page, ticket}},
		"a leak that is small":   {of(well, small), note, "GPU 0 leaks. The memory as a whole grows. It has not given back 1.00 MiB", []finding.Severity{note}},
		"the driver hangs":       {&State{DriverReason: "call_does_not_return", Devices: []*DeviceState{well}}, page, "The driver does not answer (call_does_not_return): a call into the driver hangs", []finding.Severity{page}},
		"two are lost":           {of(well, lost, lost), page, "2 of 3 GPUs cannot be read. No leak found on 1 GPU.", []finding.Severity{page, page}},
		"errors of memory":       {of(well, errors), page, "GPU 0 (T4) has memory errors that could not be corrected.", []finding.Severity{page, ticket}},
		"it needs a reset":       {of(well, reset), ticket, "GPU 0 (T4) waits for a reset.", []finding.Severity{ticket}},
		"a slice":                {of(slice), page, "GPU 0, MIG 3 (2g.20gb) runs out of memory in 1 min. The memory as a whole grows.", []finding.Severity{page}},
		"all lost":               {of(lost), page, "No GPU can be read. GPUs are picked up as soon as they answer.", []finding.Severity{page}},
		"young":                  {of(young), unknown, "Watching 1 GPU. No judgement yet: watched for 6 min so far.", nil},
		"some young, some muted": {of(well, young, muted), unknown, "No leak found on 1 GPU. The longest window holds 6 min. 1 more GPU muted. 1 more GPU not judged yet.", nil},
		"muted":                  {of(muted), note, "1 muted GPU. The rules of --detector.config say", nil},
		"blind":                  {of(blind), unknown, "No GPU can be judged. The driver does not tell", nil},
		"no GPU":                 {of(), unknown, "No GPU found. The driver answers, but lists no GPU.", nil},
		"awaited":                {&State{Awaited: 2}, unknown, "Waiting for 2 GPUs.", nil},
		"starting":               {&State{DriverReason: ReasonStarting}, unknown, "Waiting for the driver.", []finding.Severity{unknown}},
		"no driver":              {&State{DriverReason: "driver_not_loaded"}, page, "No GPU can be seen.", []finding.Severity{page}},
		"a node without a GPU":   {&State{DriverReason: "library_not_found", PCIDevices: gpu.Some(0)}, unknown, "No GPU can be seen.", []finding.Severity{unknown}},
		"a GPU without a driver": {&State{DriverReason: "library_not_found", PCIDevices: gpu.Some(1)}, page, "No GPU can be seen.", []finding.Severity{page}},
	} {
		cfg := detector.DefaultConfig()
		r := c.state.Report(&cfg)
		text := finding.Joined(" ", r.Headline+".", r.Detail)
		same := r.Severity == c.severity && strings.HasPrefix(text, c.text) && len(r.Messages) == len(c.said)
		for i := range r.Messages {
			same = same && r.Messages[i].Severity == c.said[i]
		}
		if !same {
			t.Errorf("%s: %s: %s\n%+v\nwant %s: %s", name, r.Severity, text, r.Messages, c.severity, c.text)
		}
	}
}
