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
func (d *DeviceState) Domains() []Domain {
	list := d.memories()
	if len(d.Instances) > 0 {
		list = list[1:]
	}
	return list
}

// memories returns the memories of a GPU. The first one is that of the GPU, in MIG mode, too.
func (d *DeviceState) memories() []Domain {
	list := make([]Domain, 1, 1+len(d.Instances)+len(d.Limited))
	list[0] = Domain{&d.MemoryState, d}
	for i := range d.Instances {
		list = append(list, Domain{&d.Instances[i], d})
	}
	for i := range d.Limited {
		list = append(list, Domain{&d.Limited[i], d})
	}
	return list
}

// InstanceOf returns a GPU instance of which nothing more is known than its sample.
func InstanceOf(in *gpu.Instance) MemoryState {
	return MemoryState{MemoryKey: MemoryKey{Instance: gpu.Some(in.ID)}, Profile: in.Profile, Devices: in.Devices, Owner: in.Owner, Memory: in.Memory}
}

// Name names a memory.
func (m *Domain) Name() string {
	switch {
	case m.IsLimit():
		who := m.Who
		who.User = "" // that of the process is enough
		return fmt.Sprintf("%s on %s (limit %s)", cmp.Or(who.Place(), who.Process, "a process"), m.Device.Name(), humanize.Bytes(float64(m.Limits[0].Bytes)))
	case m.Instance.OK:
		return fmt.Sprintf("%s, MIG %d (%s)", m.Device.Name(), m.Instance.V, m.Profile)
	}
	return m.Device.Name()
}

// Sample returns a memory as package finding needs it.
func (m *Domain) Sample() *finding.Sample {
	s := &finding.Sample{Name: m.Name(), Now: time.Duration(m.Device.SampleTime.UnixNano()), Memory: m.Memory, Judgement: &m.Judgement, Owner: finding.Of(m.Owner)}
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
		if x.Count > 0 && (now.Sub(x.Last) < recentXID || !d.Up && x.Last.After(d.SampleTime.Add(-recentXID))) {
			h.XIDs = append(h.XIDs, x.Code)
		}
	}
	return h
}

// Messages returns the findings on a memory in words.
func (m *Domain) Messages(cfg *detector.Config) []finding.Message {
	var found []finding.Finding
	for i := range m.Device.Findings {
		if f := &m.Device.Findings[i]; f.MemoryKey == m.MemoryKey {
			found = append(found, f.Finding)
		}
	}
	return m.Sample().Messages(found, cfg)
}

// Text says why a memory leaks, or why it does not.
func (m *Domain) Text(cfg *detector.Config) string {
	if list := m.Messages(cfg); len(list) > 0 && list[0].Alert != "" {
		return list[0].Details()
	}
	elsewhere := func(f FindingState) bool { return f.Instance == m.Instance && f.IsLimit() && f.Grows() }
	if m.Judgement.Device.Leak && slices.ContainsFunc(m.Device.Findings, elsewhere) {
		return "What grows on it meets its limit first."
	}
	return m.Sample().Why(cfg)
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

// Report sums up a node in words.
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

// Report sums up all GPUs. cfg has the thresholds for memories without a rule.
func (s *State) Report(cfg *detector.Config) *Report {
	r := &Report{}
	say := func(of *Domain, list ...finding.Message) {
		for i := range list {
			r.Messages = append(r.Messages, Said{list[i], of})
		}
	}
	for _, d := range s.Devices {
		say(nil, d.Hardware(s.Time).Messages()...)
		if !d.Up {
			continue
		}
		for _, m := range d.Domains() {
			say(&m, m.Messages(cfg)...)
		}
	}
	if s.DriverReason != "" {
		m := finding.Driver(s.DriverReason)
		switch {
		case s.DriverReason == ReasonStarting:
			m.Severity, m.Alert = finding.Unknown, ""
		case len(s.Devices) == 0 && s.PCIDevices.OK && s.PCIDevices.V == 0: // it needs no driver
			m.Severity, m.Alert, m.Advice = finding.Unknown, "", "The PCI bus shows no NVIDIA GPU."
		}
		say(nil, m)
	}
	slices.SortStableFunc(r.Messages, func(a, b Said) int { return a.Compare(&b.Message) })
	r.headline(s, s.count())
	return r
}

// count counts GPUs by their state. Those that wait have no memory that is judged yet; those that are blind tell no used memory.
// watched is the longest time that a window covers.
type count struct {
	up, waiting, muted, blind int
	watched                   time.Duration
}

func (s *State) count() (n count) {
	for _, d := range s.Devices {
		if !d.Up {
			continue
		}
		n.up++
		judged, silent, known := false, true, false
		for _, m := range d.Domains() {
			v := &m.Judgement.Device
			n.watched = max(n.watched, finding.Watched(v))
			judged, silent, known = judged || v.Judged, silent && v.Muted, known || m.Memory.Used.OK
		}
		switch {
		case silent:
			n.muted++
		case !judged:
			n.waiting++
		}
		if !known {
			n.blind++
		}
	}
	return n
}

// headline writes the worst message, or that all is calm.
func (r *Report) headline(s *State, n count) {
	first := append(r.Messages, Said{})[0]
	calm, detail, well := s.calm(n)
	r.Severity, r.Headline, r.Detail = first.Severity, calm, detail
	switch down := len(s.Devices) - n.up; {
	case first.Alert != "" && n.up > 0 && (down <= 1 || first.Alert != finding.Lost):
		r.Headline, r.Detail = first.Summary, first.Details()
	case n.up > 0 && down > 0:
		r.Headline, r.Detail = fmt.Sprintf("%d of %d GPUs cannot be read", down, len(s.Devices)), calm+". "+detail
	case !well:
		r.Severity = max(r.Severity, finding.Unknown)
	}
}

// calm describes a node without a message. well is false if a GPU is missing or not judged.
func (s *State) calm(n count) (headline, detail string, well bool) {
	watched := humanize.Duration(n.watched)
	switch {
	case s.DriverReason == ReasonStarting:
		return "Waiting for the driver", "This takes a few seconds.", false
	case s.DriverReason == "" && len(s.Devices) == 0 && s.Awaited > 0:
		return "Waiting for " + humanize.Count(s.Awaited, "GPU"), "This takes a few seconds.", false
	case n.up == 0 && s.DriverReason != "":
		return "No GPU can be seen", "GPUs are picked up as soon as they appear.", false
	case n.up == 0 && len(s.Devices) > 0:
		return "No GPU can be read", "GPUs are picked up as soon as they answer.", false
	case n.up == 0:
		return "No GPU found", "The driver answers, but lists no GPU.", false
	case n.muted == n.up:
		return humanize.Count(n.up, "muted GPU"), "The rules of --detector.config say that nothing here is to be judged.", true
	case n.waiting == n.up && n.blind == n.up:
		return "No GPU can be judged", "The driver does not tell how much memory is used.", false
	case n.waiting+n.muted == n.up:
		return "Watching " + humanize.Count(n.waiting, "GPU"), "No judgement yet: watched for " + watched + " so far.", false
	}
	detail = "The longest window holds " + watched + "."
	if n.muted > 0 {
		detail += " " + humanize.Count(n.muted, "more GPU") + " muted."
	}
	if n.waiting > 0 {
		detail += " " + humanize.Count(n.waiting, "more GPU") + " not judged yet."
	}
	return "No leak found on " + humanize.Count(n.up-n.waiting-n.muted, "GPU"), detail, n.waiting == 0
}
