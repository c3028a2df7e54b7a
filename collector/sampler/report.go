// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Domain is a memory of its own: a GPU, or a GPU instance of one in MIG mode.
type Domain struct {
	Device    *DeviceState
	Name      string
	Instance  gpu.Opt[uint32]
	Profile   string
	Memory    gpu.Memory
	Judgement *detector.Judgement[gpu.ProcessID]
	Owner     *gpu.Owner
	Curve     *Curve
	Limited   *LimitedState // of processes with a limit; nil for a GPU or GPU instance
}

// limit names the limit of a memory; nil for a GPU or GPU instance.
func (m *Domain) limit() *LimitKey {
	if m.Limited == nil {
		return nil
	}
	return &m.Limited.LimitKey
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
func (d *DeviceState) Domains() []Domain {
	list := make([]Domain, len(d.Instances), 1+len(d.Instances)+len(d.Limited))
	if len(d.Instances) == 0 {
		list = append(list, Domain{Device: d, Name: d.Name(), Memory: d.Memory, Judgement: &d.Judgement, Owner: d.Owner, Curve: d.Curve})
	}
	for i := range d.Instances {
		in := &d.Instances[i]
		list[i] = Domain{d, fmt.Sprintf("%s, MIG %d (%s)", d.Name(), in.ID, in.Profile), gpu.Some(in.ID), in.Profile, in.Memory, &in.Judgement, in.Owner, in.Curve, nil}
	}
	for i := range d.Limited {
		x := &d.Limited[i]
		who := x.Who
		who.User = "" // that of the process is enough
		name := fmt.Sprintf("%s on %s (limit %s)", cmp.Or(who.Place(), who.Process, "a process"), d.Name(), humanize.Bytes(float64(x.Limits[0].Bytes)))
		list = append(list, Domain{Device: d, Name: name, Instance: x.Instance, Memory: x.Memory, Judgement: &x.Judgement, Curve: x.Curve, Limited: x})
	}
	return list
}

// Has reports whether a process uses the memory.
func (m *Domain) Has(p *gpu.Process) bool {
	return p.Instance == m.Instance && (m.Limited == nil || m.Limited.has(p))
}

// same reports whether two limits are one, or both none.
func same(a, b *LimitKey) bool { return a == b || a != nil && b != nil && *a == *b }

// Sample returns a memory as package finding needs it.
func (m *Domain) Sample() *finding.Sample {
	s := &finding.Sample{Name: m.Name, Now: time.Duration(m.Device.SampleTime.UnixNano()), Memory: m.Memory, Judgement: m.Judgement, Owner: finding.Of(m.Owner)}
	for i := range m.Device.Processes {
		if p := &m.Device.Processes[i]; m.Has(&p.Process) {
			part := finding.Part{Who: finding.Of(p.Owner), PID: p.ID.PID, Used: p.Used.V, Verdict: &p.Verdict, Grows: p.Grows}
			if p.Sites != nil && p.Sites.State == allocator.SitesDone && len(p.Sites.List) > 0 {
				part.Line = p.Sites.List[0].Line
			}
			s.Processes = append(s.Processes, part)
		}
	}
	if m.Limited != nil { // the rest is told of the GPU
		s.Owner = m.Limited.Who.AsWhole()
		return s
	}
	for i := range m.Device.Workloads {
		if w := &m.Device.Workloads[i]; w.Instance == m.Instance && !w.single {
			s.Workloads = append(s.Workloads, finding.Part{Who: finding.Who{Namespace: w.Namespace, Pod: w.Pod, SlurmJob: w.SlurmJob, Whole: true}, Verdict: &w.Verdict})
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
		if f := &m.Device.Findings[i]; f.Instance == m.Instance && same(f.Limit, m.limit()) {
			found = append(found, f.Finding)
		}
	}
	return m.Sample().Messages(found)
}

// Text says why a memory leaks, or why it does not.
func (m *Domain) Text(cfg *detector.Config) string {
	first := append(m.Messages(), finding.Message{})[0]
	return cmp.Or(first.Detail, m.Sample().Why(cfg))
}

// Word returns the word for the verdict on a memory. If the hardware of the GPU pages, that is Broken, unless the memory leaks.
func (m *Domain) Word(now time.Time, cfg *detector.Config) string {
	v := &m.Judgement.Device
	for _, said := range m.Device.Hardware(now).Messages() {
		if said.Severity == finding.Page && !v.Leak {
			return finding.Broken
		}
	}
	return finding.Word(v, cfg)
}

// Report sums up a node in words: with its worst message, or that there is none.
type Report struct {
	Severity finding.Severity
	Headline string // one sentence, without its full stop
	Detail   string
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

// Lead orders the messages. The first one is the headline.
func (r *Report) Lead() *Report {
	slices.SortStableFunc(r.Messages, func(a, b Said) int { return a.Compare(&b.Message) })
	if len(r.Messages) > 0 {
		first := &r.Messages[0]
		r.Severity, r.Headline, r.Detail = first.Severity, first.Summary, first.Details()
	}
	return r
}

// Report sums up all GPUs.
func (s *State) Report() *Report {
	r, down := s.calm(), 0
	for _, d := range s.Devices {
		r.Say(nil, d.Hardware(s.Time).Messages()...)
		if !d.Up {
			down++
			continue
		}
		for _, m := range d.Domains() {
			r.Say(&m, m.Messages()...)
		}
	}
	needless := len(s.Devices) == 0 && s.PCIDevices.OK && s.PCIDevices.V == 0 // without a GPU, a driver is not needed
	if s.DriverReason != "" && s.DriverReason != ReasonStarting && !needless {
		r.Say(nil, finding.Driver(s.DriverReason))
	}
	if r.Lead(); down > 1 && r.Messages[0].Alert == finding.Lost {
		r.Headline, r.Detail = fmt.Sprintf("%d of %d GPUs cannot be read", down, len(s.Devices)), r.Headline+"."
	}
	return r
}

// calm describes a node without a message. Its severity is finding.Unknown if no GPU is there, or one is not judged.
func (s *State) calm() *Report {
	switch {
	case s.DriverReason == ReasonStarting || len(s.Devices) == 0 && s.Awaited > 0:
		return &Report{Severity: finding.Unknown, Headline: "Waiting for the driver", Detail: "This takes a few seconds."}
	case len(s.Devices) == 0:
		return &Report{Severity: finding.Unknown, Headline: "No GPU found"}
	}
	judged, muted := 0, 0
	for _, d := range s.Devices {
		list := d.Domains()
		switch {
		case slices.ContainsFunc(list, func(m Domain) bool { return m.Judgement.Device.Judged }):
			judged++
		case !slices.ContainsFunc(list, func(m Domain) bool { return !m.Judgement.Device.Muted }):
			muted++
		}
	}
	r := &Report{Headline: "No leak found on " + humanize.Count(judged, "GPU")}
	if judged == 0 {
		r.Headline = "Watching " + humanize.Count(len(s.Devices), "GPU")
	}
	if muted > 0 {
		r.Detail = fmt.Sprintf("Muted: %d.", muted)
	}
	if waiting := len(s.Devices) - judged - muted; waiting > 0 {
		r.Severity, r.Detail = finding.Unknown, finding.Joined(" ", r.Detail, fmt.Sprintf("Not judged yet: %d.", waiting))
	}
	return r
}
