// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
)

// Domain is a memory of its own: a GPU, a GPU instance of one in MIG mode, or a limit.
type Domain struct {
	*MemoryState
	Device *DeviceState
}

// Name names a GPU. In a fleet it adds the first label of its place, such as the node.
func (d *DeviceState) Name() string {
	name := d.Info.Title()
	for _, place := range d.Info.Place {
		if place != "" {
			return name + " of " + place
		}
	}
	return name
}

// Domains returns the memories of a GPU. In MIG mode these are only those of its instances: the GPU cannot run out of memory.
func (d *DeviceState) Domains() iter.Seq[Domain] {
	return func(yield func(Domain) bool) {
		for m := range d.memories() {
			if (len(d.Instances) == 0 || m.MemoryKey != wholeGPU) && !yield(m) {
				return
			}
		}
	}
}

// memories returns the memories of a GPU. The first one is that of the GPU, in MIG mode, too.
func (d *DeviceState) memories() iter.Seq[Domain] {
	return func(yield func(Domain) bool) {
		if !yield(Domain{&d.MemoryState, d}) {
			return
		}
		for _, list := range [...][]MemoryState{d.Instances, d.Limited} {
			for i := range list {
				if !yield(Domain{&list[i], d}) {
					return
				}
			}
		}
	}
}

// InstanceOf returns a GPU instance of which nothing more is known than its sample.
func InstanceOf(in *gpu.Instance) MemoryState {
	return MemoryState{MemoryKey: MemoryKey{Instance: gpu.Some(in.ID)}, Profile: in.Profile, Devices: in.Devices, Who: finding.Of(in.Owner), Memory: in.Memory}
}

// Name names a memory.
func (m *Domain) Name() string {
	switch {
	case m.IsLimit():
		who := m.Who
		who.User = "" // that of the process is enough
		return fmt.Sprintf("%s on %s (limit %s)", cmp.Or(who.Place(), who.Process, "a process"), m.Device.Name(), humanize.Bytes(float64(m.Memory.Total.V)))
	case m.Instance.OK:
		return fmt.Sprintf("%s, MIG %d (%s)", m.Device.Name(), m.Instance.V, m.Profile)
	}
	return m.Device.Name()
}

// Sample returns a memory as package finding needs it.
func (m *Domain) Sample() *finding.Sample {
	s := &finding.Sample{Name: m.Name(), Now: time.Duration(m.Device.SampleTime.UnixNano()), Memory: m.Memory, Judgement: &m.Judgement, Owner: m.Who}
	for i := range m.Device.Processes {
		if p := &m.Device.Processes[i]; m.Has(&p.Process) {
			part := finding.Part{Who: finding.Of(p.Owner), PID: p.ID.PID, Used: p.Used.V, Verdict: &p.Verdict, Grows: p.Grows}
			if p.Sites != nil && p.Sites.State == allocator.SitesDone && len(p.Sites.List) > 0 {
				part.Line = p.Sites.List[0].Line
			}
			s.Processes = append(s.Processes, part)
		}
	}
	if m.IsLimit() { // the rest is told of the GPU
		s.Owner = m.Who.AsWhole()
		return s
	}
	for i := range m.Device.Workloads {
		if w := &m.Device.Workloads[i]; w.Instance == m.Instance {
			s.Workloads = append(s.Workloads, finding.Part{Who: w.Who, Verdict: &w.Verdict})
		}
	}
	for i := range m.Device.Unreleased {
		if u := &m.Device.Unreleased[i]; u.Instance == m.Instance {
			s.Unreleased = append(s.Unreleased, finding.Part{Who: finding.Of(u.Owner), PID: u.ID.PID, Used: u.Used})
		}
	}
	return s
}

// recentXID is how long a page shows an XID error.
const recentXID = 15 * time.Minute

// Hardware returns the health of a GPU.
func (d *DeviceState) Hardware(now time.Time) *finding.Hardware {
	h := &finding.Hardware{Name: d.Name() + " (" + finding.Joined(", ", d.Info.Name, d.Info.UUID) + ")", Up: d.Up, Error: d.Error, Sampled: d.SampleTime, ECC: d.Status.ECC, Thermal: d.Status.Thermal}
	for _, x := range d.XIDs {
		if x.Count > 0 && now.Sub(x.Last) < recentXID {
			h.XIDs = append(h.XIDs, x.Code)
		}
	}
	return h
}

// Messages returns the findings on a memory in words.
func (m *Domain) Messages() []finding.Message {
	var found []finding.Finding
	for i := range m.Device.Findings {
		if f := &m.Device.Findings[i]; f.MemoryKey == m.MemoryKey {
			found = append(found, f.Finding)
		}
	}
	return m.Sample().Messages(found)
}

// Verdict returns the word for the verdict on a memory, and why it leaks, or why it does not. If the hardware of the GPU pages, they
// are about that, unless the memory leaks.
func (m *Domain) Verdict(now time.Time) (word, why string) {
	v := &m.Judgement.Device
	hardware := append(m.Device.Hardware(now).Messages(), finding.Message{})[0]
	first := append(m.Messages(), finding.Message{})[0]
	switch {
	case !m.Device.Up:
		return finding.Unreadable, hardware.Detail
	case hardware.Severity == finding.Page && !v.Leak:
		return finding.Broken, hardware.Text()
	case first.Detail == "" && !v.Judged && !v.Muted && !m.Memory.Used.OK:
		return finding.NotJudged, "Nothing tells how much of it is used."
	case first.Alert == finding.Leak && !v.Judged && !v.Muted: // one of its processes does, and more is not known
		return finding.Leaks, first.Detail
	}
	return finding.Word(v), cmp.Or(first.Detail, finding.Why(v))
}

// Report sums up a node in words: with its worst message, or one that there is none, which has no alert.
type Report struct {
	finding.Message
	Messages []Said // the most urgent first
}

// Said is a message and its memory. Memory is nil if the message is about a whole GPU or the driver.
type Said struct {
	finding.Message
	Memory *Domain
}

// Say adds messages.
func (r *Report) Say(of *Domain, list ...finding.Message) {
	for i := range list {
		r.Messages = append(r.Messages, Said{list[i], of})
	}
}

// Lead orders the messages. The first one sums up.
func (r *Report) Lead() *Report {
	slices.SortStableFunc(r.Messages, func(a, b Said) int { return a.Compare(&b.Message) })
	if len(r.Messages) > 0 {
		r.Message = r.Messages[0].Message
	}
	return r
}

// Clock returns the time of the newest sample, or without one that of the state. Simulated and replayed GPUs have a clock of their own.
func (s *State) Clock() (now time.Time) {
	for _, d := range s.Devices {
		if d.SampleTime.After(now) {
			now = d.SampleTime
		}
	}
	if now.IsZero() {
		return s.Time
	}
	return now
}

// Report sums up all GPUs.
func (s *State) Report() *Report {
	r := &Report{Message: s.calm()}
	if s.DriverReason != "" && s.DriverReason != ReasonStarting {
		m := finding.Driver(s.DriverReason)
		if len(s.Devices) == 0 && s.PCIDevices.OK && s.PCIDevices.V == 0 { // without a GPU, a driver is not needed
			m.Severity, m.Summary, m.Detail = finding.Unknown, "No GPU found", m.Text()
		}
		r.Say(nil, m) // first, because without it no GPU can be read
	}
	for _, d := range s.Devices {
		r.Say(nil, d.Hardware(s.Time).Messages()...)
		if !d.Up {
			continue
		}
		for m := range d.Domains() {
			r.Say(&m, m.Messages()...)
		}
	}
	return r.Lead()
}

// calm describes a node without a message. Its severity is finding.Unknown if no GPU is there, or one is not judged.
func (s *State) calm() finding.Message {
	switch {
	case s.DriverReason == ReasonStarting || len(s.Devices) == 0 && s.Awaited > 0:
		return finding.Message{Severity: finding.Unknown, Summary: "Waiting for the driver", Detail: "This takes a few seconds."}
	case len(s.Devices) == 0:
		return finding.Message{Severity: finding.Unknown, Summary: "No GPU found"}
	}
	judged, waiting := 0, 0
	for _, d := range s.Devices {
		list := slices.Collect(d.Domains())
		switch {
		case slices.ContainsFunc(list, func(m Domain) bool { return m.Judgement.Device.Judged }):
			judged++
		case slices.ContainsFunc(list, func(m Domain) bool { return !m.Judgement.Device.Muted }):
			waiting++
		}
	}
	m := finding.Message{Summary: "No leak found on " + humanize.Count(judged, "GPU")}
	if judged == 0 {
		m.Summary = "Watching " + humanize.Count(len(s.Devices), "GPU")
	}
	if waiting > 0 {
		m.Severity, m.Detail = finding.Unknown, fmt.Sprintf("Not judged yet: %d.", waiting)
	}
	return m
}
