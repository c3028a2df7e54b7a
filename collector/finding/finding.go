// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package finding decides which alerts a memory has, and which culprit they name. Alertmanager takes an alert with another
// culprit for another alert. So the decision depends on earlier ones: see Memory.
package finding

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// The waits of forecasts. A restart of the exporter does not restart them, a gap of fullFor does. Source: the held-out programs of
// detector/RESULTS.md. With a minute in place of each there were twice as many false pages, and two thirds more tickets.
const (
	// PageWait is how long the detector must want a page before it is sent. Every page is late by that much.
	PageWait = 3 * time.Minute
	// LeakWait is how long a leak must last before it is a ticket.
	LeakWait = 30 * time.Minute
)

const (
	// A memory is nearly full if more than nearlyFull of its capacity is used for fullFor, longer than most loads and evaluations.
	// It is not if processes whose memory does not change hold preallocated of it: a server that preallocates means to.
	nearlyFull   = 0.95
	preallocated = 0.75
	fullFor      = 10 * time.Minute
	// heldFor is how long a zombie must hold memory, or memory must outlive its process: a driver may take minutes to free it.
	heldFor = 15 * time.Minute
	// crashes ends of processes in a full memory within crashesIn are a crash loop.
	crashes   = 3
	crashesIn = time.Hour
	// mostEnds bounds how many ends Memory keeps.
	mostEnds = 32
)

// Who has the labels of a process, without its pid, or of a whole pod or job. The zero Who is an unknown culprit.
type Who struct {
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	Container string `json:"container,omitempty"`
	SlurmJob  string `json:"slurm_job,omitempty"`
	Process   string `json:"process,omitempty"`
	User      string `json:"user,omitempty"`
	Whole     bool   `json:"whole,omitempty"`
}

// Of returns the labels of a process; nil has none.
func Of(o *gpu.Owner) Who {
	if o == nil {
		return Who{}
	}
	return Who{Namespace: o.Namespace, Pod: o.Pod, Container: o.Container, SlurmJob: o.SlurmJob, Process: o.Process, User: o.User}
}

// Common returns the labels that both have. Labels that differ are empty.
func (w Who) Common(other Who) Who {
	both := func(a, b string) string {
		if a == b {
			return a
		}
		return ""
	}
	return Who{
		Namespace: both(w.Namespace, other.Namespace), Pod: both(w.Pod, other.Pod), Container: both(w.Container, other.Container),
		SlurmJob: both(w.SlurmJob, other.SlurmJob), Process: both(w.Process, other.Process), User: both(w.User, other.User),
	}
}

// AsWhole returns the pod or job; without one, the same labels.
func (w Who) AsWhole() Who {
	switch {
	case w.Pod != "":
		return Who{Namespace: w.Namespace, Pod: w.Pod, Whole: true}
	case w.SlurmJob != "":
		return Who{SlurmJob: w.SlurmJob, Whole: true}
	}
	return w
}

// Part is a process, pod or job that uses a memory.
type Part struct {
	Who     Who
	PID     uint32 // of a process
	Used    uint64
	Verdict *detector.Verdict // nil of one that has ended
	Grows   detector.Inside
	Line    string // of code that allocates most of the growth; "" if unknown
}

// End is the end of a process while the memory was nearly full.
type End struct {
	Who Who `json:"who"`
	// Began is when the process was first seen, and At when its end was, on the clock of detector.Frame.T.
	Began time.Duration `json:"-"`
	At    time.Duration `json:"at"`
}

// Sample is one memory after a frame. FillsWithin is the detector's default.
type Sample struct {
	Name        string        // of the GPU or GPU instance
	Now         time.Duration // the wall clock, as the moments of the verdicts have it
	Memory      gpu.Memory
	Judgement   *detector.Judgement[gpu.ProcessID]
	Processes   []Part
	Workloads   []Part
	Unreleased  []Part
	Ends        []End
	Owner       Who // the pod that the GPU is allotted to. It stands in for an unknown culprit
	FillsWithin time.Duration
}

// Finding has all alerts of a memory that name the same culprit. A value that no alert needs is absent.
type Finding struct {
	Who
	// OOM is the time left in seconds, and Evidence its reason. OOMDue says that it has lasted for the wait of its alert.
	OOM      detector.Value
	Evidence detector.Evidence
	OOMDue   bool
	// Leaking is the growth of the leak in bytes per second.
	Leaking detector.Value
	LeakDue bool
	// Zombie and Unreleased are bytes that no program will use again.
	Zombie, Unreleased    detector.Value
	NearlyFull, CrashLoop bool
}

// Grows reports whether an alert is about growth.
func (f *Finding) Grows() bool { return f.OOM.OK || f.Leaking.OK }

// EndGrowth removes the alerts on growth.
func (f *Finding) EndGrowth() {
	f.OOM, f.Evidence, f.OOMDue, f.Leaking, f.LeakDue = detector.Value{}, detector.EvidenceNone, false, detector.Value{}, false
}

// Memory keeps the earlier alerts of a memory, and their culprits. The zero Memory is ready for use. The state file has it. A
// copy is independent of the original.
type Memory struct {
	Seen       time.Duration     `json:"seen,omitempty"`   // the last frame
	Judged     time.Duration     `json:"judged,omitempty"` // the last one at which there was a verdict on growth
	Evidence   detector.Evidence `json:"evidence,omitempty"`
	Page       blame             `json:"page,omitzero"`   // the detector wants a page; OOM has its culprit
	Paged      time.Duration     `json:"paged,omitempty"` // the last frame with a page
	OOM        blame             `json:"oom,omitzero"`    // since this evidence is there
	Leak       blame             `json:"leak,omitzero"`
	Zombie     blame             `json:"zombie,omitzero"`
	Unreleased blame             `json:"unreleased,omitzero"`
	Full       blame             `json:"full,omitzero"`
	Loop       blame             `json:"loop,omitzero"`
	Ends       []End             `json:"ends,omitempty"` // of the last hour
}

// Judge returns the findings after a frame, nil if there are none.
func (m *Memory) Judge(s *Sample) (list []Finding) {
	now := s.Judgement.T
	if now-m.Seen >= fullFor { // the time between is unknown
		m.Zombie.Since, m.Unreleased.Since, m.Full.Since = now, now, now
	}
	m.Seen = now
	of := func(w Who) *Finding {
		if w == (Who{}) {
			w = s.Owner
		}
		for i := range list {
			if list[i].Who == w {
				return &list[i]
			}
		}
		list = append(list, Finding{Who: w})
		return &list[len(list)-1]
	}
	m.growth(s, of)
	zombies, bytes := s.held(func(p detector.Pattern) bool { return p == detector.PatternZombie })
	if m.Zombie.holds(bytes > 0, now, heldFor) {
		of(m.Zombie.pick(zombies, false)).Zombie = detector.Of(bytes)
	}
	unreleased, bytes := shares{}, 0.0
	for _, u := range s.Unreleased {
		unreleased.add(u.Who, float64(u.Used))
		bytes += float64(u.Used)
	}
	if m.Unreleased.holds(bytes > 0, now, heldFor) {
		of(m.Unreleased.pick(unreleased, false)).Unreleased = detector.Of(bytes)
	}
	if m.Full.holds(m.Evidence == detector.EvidenceNone && m.Leak.Since == 0 && s.nearlyFull(), now, fullFor) {
		all, _ := s.held(func(detector.Pattern) bool { return true })
		of(m.Full.pick(all, false)).NearlyFull = true
	}
	m.ended(s.Ends, now)
	if m.Loop.holds(len(m.Ends) >= crashes, now, 0) {
		var by shares
		for i := range m.Ends {
			by.add(m.Ends[i].Who, 1)
		}
		of(m.Loop.pick(by, false)).CrashLoop = true
	}
	return list
}

// Foreseen returns the most urgent alert on growth or on a full memory that there was at the last frame, when it came, and since when
// the growth was seen, all on the clock of detector.Frame.T; 0 is never.
func (m *Memory) Foreseen() (severity Severity, at, since time.Duration) {
	since = m.Leak.Since
	if m.OOM.Since != 0 && (since == 0 || m.OOM.Since < since) {
		since = m.OOM.Since
	}
	if m.Paged != 0 && m.Paged == m.Seen {
		if at = m.Page.Since + PageWait; at > m.Seen {
			at = m.Page.Since // after an interruption it did not wait
		}
		return Page, at, since
	}
	for _, ticket := range []struct{ begun, wait time.Duration }{{m.Leak.Since, LeakWait}, {m.Full.Since, fullFor}, {m.Loop.Since, 0}} {
		if came := ticket.begun + ticket.wait; ticket.begun != 0 && came <= m.Seen && (at == 0 || came < at) {
			severity, at = Ticket, came
		}
	}
	return severity, at, since
}

// growth adds the findings on growth. Without a verdict, as after a reading that failed, the last ones stay.
func (m *Memory) growth(s *Sample, of func(Who) *Finding) {
	j, now := s.Judgement, s.Judgement.T
	leaking, leak := j.Device.Rate, j.Device.Leak
	if !j.Device.Judged { // such as a GPU whose driver does not tell its used memory
		sum := 0.0
		for i := range s.Processes {
			sum += leaks(s.Processes[i].Verdict)
		}
		leaking, leak = detector.Of(sum), sum > 0
	}
	said := j.Device.Judged || j.Device.Muted || j.Evidence != detector.EvidenceNone
	if begun := now; now-m.Judged >= fullFor {
		if m.Judged == 0 { // a history was read before: it is as old as the growth
			begun, m.Evidence = cmp.Or(j.Device.Since, now), m.evidence(s)
		}
		m.Page.Since, m.OOM.Since, m.Leak.Since = begun, begun, begun
	}
	if said || leak {
		m.Judged = now
		if m.Leak.holds(leak, now, 0) {
			f := of(m.Leak.pick(s.growing(leaks, m.Leak.Who), j.Residual.Leak))
			f.Leaking, f.LeakDue = leaking, m.Leak.Since <= now-LeakWait
		}
	}
	if said {
		m.forecast(s, of)
	}
}

// forecast adds the finding that the memory will be full.
func (m *Memory) forecast(s *Sample, of func(Who) *Finding) {
	j, now := s.Judgement, s.Judgement.T
	if is := m.evidence(s); is != m.Evidence {
		m.Evidence, m.OOM.Since = is, now
	}
	// After an interruption shorter than its wait, as between two lives of a crash loop, a page does not wait again.
	page := m.Page.holds(j.Page, now, PageWait) || j.Page && m.Paged > now-PageWait && m.Paged <= now
	if page {
		m.Paged = now
	}
	if m.OOM.holds(m.Evidence != detector.EvidenceNone, now, 0) {
		rate := leaks // a process that only loads is never the culprit of a leak, however fast it grows
		if m.Evidence == detector.EvidenceFilling {
			rate = takesPart
		}
		if m.OOM.pick(s.growing(rate, m.OOM.Who), j.Residual.Leak).AsWhole() == m.Leak.Who && !page {
			m.OOM.Who = m.Leak.Who // a crash loop is the leak of its pod: each of its processes would be another alert
		}
		f := of(m.OOM.Who)
		f.OOM, f.Evidence = j.Device.SecondsToOOM, m.Evidence
		// A ticket is silent while its page waits. Its alert lasts longer than that, and its value would already be a page.
		f.OOMDue = page || !j.Page && m.Evidence == detector.EvidenceLeak && m.OOM.Since <= now-LeakWait
	}
}

// evidence returns the reason of the forecast, none if growth may end before the memory is full. It is a label, so it does not
// change while there is a page.
func (m *Memory) evidence(s *Sample) detector.Evidence {
	j, v := s.Judgement, &s.Judgement.Device
	switch {
	case v.SecondsToOOM.Finite() == nil || j.Evidence == detector.EvidenceFilling && v.Upper.Finite() == nil:
		return detector.EvidenceNone
	case j.Page && (m.Evidence == detector.EvidenceLeak || m.Evidence == detector.EvidenceFilling && v.SecondsToOOM.V < s.FillsWithin.Seconds()):
		return m.Evidence
	}
	return j.Evidence
}

// takesPart returns the growth of a series if it helps to fill the memory, and leaks its growth if it leaks, in bytes per second;
// else 0.
func takesPart(v *detector.Verdict) float64 {
	if rate := leaks(v); rate > 0 || v.SecondsToOOM.Finite() == nil {
		return rate
	}
	return v.Windows[0].Slope.V
}

func leaks(v *detector.Verdict) float64 {
	if !v.Judged || !v.Leak {
		return 0
	}
	return v.Rate.V
}

// growing returns the growth of each process. It adds pods and jobs without a process that grows or waits for its verdict, and
// the one that was the culprit before.
func (s *Sample) growing(rate func(*detector.Verdict) float64, before Who) shares {
	grow := shares{}
	for i := range s.Processes {
		grow.add(s.Processes[i].Who, rate(s.Processes[i].Verdict))
	}
	processes := len(grow)
	for i := range s.Workloads {
		w := &s.Workloads[i]
		alone := true
		for k := range grow[:processes] {
			alone = alone && grow[k].who.AsWhole() != w.Who
		}
		for k := range s.Processes {
			alone = alone && (s.Processes[k].Verdict.Judged || s.Processes[k].Who.AsWhole() != w.Who)
		}
		if alone || w.Who == before {
			grow.add(w.Who, rate(w.Verdict))
		}
	}
	return grow
}

// held returns the memory of each process with such a pattern, and their sum, in bytes.
func (s *Sample) held(is func(detector.Pattern) bool) (by shares, sum float64) {
	for _, p := range s.Processes {
		pattern := detector.PatternUnknown
		if p.Verdict.Judged {
			pattern = p.Verdict.Pattern
		}
		if is(pattern) {
			by.add(p.Who, float64(p.Used))
			sum += float64(p.Used)
		}
	}
	return by, sum
}

func (s *Sample) nearlyFull() bool {
	capacity := s.Memory.Capacity()
	if !s.Memory.Used.OK || float64(s.Memory.Used.V) <= nearlyFull*float64(capacity.V) || !capacity.OK {
		return false
	}
	_, still := s.held(func(p detector.Pattern) bool {
		return p == detector.PatternStable || p == detector.PatternPlateau || p == detector.PatternIdle
	})
	return still <= preallocated*float64(s.Memory.Total.V)
}

// ended keeps the ends of the last hour. The ranks of a job end together, and count once: the next end that counts is of a
// process that started after the last one.
func (m *Memory) ended(ends []End, now time.Duration) {
	for _, e := range ends {
		if n := len(m.Ends); n == 0 || e.Began > m.Ends[n-1].At {
			m.Ends = append(m.Ends, e)
		}
	}
	m.Ends = slices.DeleteFunc(slices.Clone(m.Ends), func(e End) bool { return e.At > now || e.At <= now-crashesIn })
	m.Ends = m.Ends[max(0, len(m.Ends)-mostEnds):]
}
