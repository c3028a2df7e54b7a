// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package finding decides what alerts say of a memory, and who is to blame. An alert that names another one is another
// alert, so the decision has a memory: see Memory.
package finding

import (
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// The waits of what is foretold. A restart of the exporter does not restart them, but a gap of fullFor. Measured on the programs of
// detector/RESULTS.md that nobody tuned on: with a minute in place of each, false pages were twice as many, and tickets two thirds more.
const (
	// PageWait is how long the detector's page must hold. Every page comes later by as much.
	PageWait = 3 * time.Minute
	// LeakWait is how long a leak must last that is no page.
	LeakWait = 30 * time.Minute
)

const (
	// Memory is nearly full above nearlyFull of its capacity, unless processes that hold still have preallocated of it: that
	// is on purpose. It must last for fullFor, longer than most loads and evaluations.
	nearlyFull   = 0.95
	preallocated = 0.75
	fullFor      = 10 * time.Minute
	// heldFor is how long memory must be held by nobody: a driver may take minutes to free it.
	heldFor = 15 * time.Minute
	// crashes ends of processes in a full memory within crashesIn are a crash loop.
	crashes   = 3
	crashesIn = time.Hour
	// mostEnds bounds how many are remembered.
	mostEnds = 32
)

// Who is a process by its labels, whatever its pid, or a pod or job as a whole. The zero Who is nobody that is known.
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

// with reports whether a process belongs to a pod or job. A pod has no job of its own.
func (w *Who) with(whole *Who) bool {
	return w.Namespace == whole.Namespace && w.Pod == whole.Pod && (w.Pod != "" || w.SlurmJob == whole.SlurmJob)
}

// Part is a process, or a pod or job, that holds a part of a memory.
type Part struct {
	Who     Who
	PID     uint32 // of a process
	Used    uint64
	Verdict *detector.Verdict // nil of one that has ended
	Grows   detector.Inside
	Line    string // that allocates most of what grows; "" where that is not known
}

// End is the end of a process while the memory was nearly full.
type End struct {
	Who Who `json:"who"`
	// Began is when the process was first seen, and At when its end was, on the clock of detector.Frame.T.
	Began time.Duration `json:"-"`
	At    time.Duration `json:"at"`
}

// Sample is one memory after a frame. FillsWithin is that of the detector where no rule says otherwise.
type Sample struct {
	Name        string        // of the GPU or GPU instance
	Now         time.Duration // the wall clock, as the moments of the verdicts have it
	Memory      gpu.Memory
	Judgement   *detector.Judgement[gpu.ProcessID]
	Processes   []Part
	Workloads   []Part
	Unreleased  []Part
	Ends        []End
	Owner       Who // whom the memory is allotted to: it stands in for a culprit that is not known
	FillsWithin time.Duration
}

// Finding is what is said of a memory with the same culprit. What there is nothing to say of is absent.
type Finding struct {
	Who
	// OOM is the time left in seconds, and Evidence what foretells it. It is due once it has lasted for as long as an alert waits.
	OOM      detector.Value
	Evidence detector.Evidence
	OOMDue   bool
	// Leaking is the growth in bytes per second of the memory that leaks.
	Leaking detector.Value
	LeakDue bool
	// Zombie and Unreleased are bytes that nobody will use again.
	Zombie, Unreleased    detector.Value
	NearlyFull, CrashLoop bool
}

// Memory remembers what was said of a memory, and who was to blame. The zero Memory is ready for use. It is written to the
// state file; a copy does not change any more.
type Memory struct {
	Seen       time.Duration     `json:"seen,omitempty"`   // the last frame
	Judged     time.Duration     `json:"judged,omitempty"` // the last one at which there was a verdict on growth
	Evidence   detector.Evidence `json:"evidence,omitempty"`
	Page       blame             `json:"page,omitzero"`   // of the detector, whose culprit is that of OOM
	Paged      time.Duration     `json:"paged,omitempty"` // when it was last said
	OOM        blame             `json:"oom,omitzero"`    // since this evidence is there
	Leak       blame             `json:"leak,omitzero"`
	Zombie     blame             `json:"zombie,omitzero"`
	Unreleased blame             `json:"unreleased,omitzero"`
	Full       blame             `json:"full,omitzero"`
	Loop       blame             `json:"loop,omitzero"`
	Ends       []End             `json:"ends,omitempty"` // of the last hour
}

// Judge returns what is to be said after a frame, nil for nothing.
func (m *Memory) Judge(s *Sample) (list []Finding) {
	now := s.Judgement.T
	if now-m.Seen >= fullFor { // nobody knows what was meanwhile
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
	for i := range s.Unreleased {
		u := &s.Unreleased[i]
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

// growth decides what is said of what grows. Where there is no verdict, as where a reading has failed, what was before goes on.
func (m *Memory) growth(s *Sample, of func(Who) *Finding) {
	j, now := s.Judgement, s.Judgement.T
	leaking, leak := j.Device.Rate, j.Device.Leak
	if !j.Device.Judged { // as on a GPU that does not tell how much is used
		sum := 0.0
		for i := range s.Processes {
			sum += leaks(s.Processes[i].Verdict)
		}
		leaking, leak = detector.Of(sum), sum > 0
	}
	said := j.Device.Judged || j.Device.Muted || j.Evidence != detector.EvidenceNone
	if now-m.Judged >= fullFor {
		m.Page.Since, m.OOM.Since, m.Leak.Since = now, now, now
	}
	if said || leak {
		m.Judged = now
		if m.Leak.holds(leak, now, 0) {
			f := of(m.Leak.pick(s.growing(leaks, m.Leak.Who), j.Residual.Judged && j.Residual.Leak))
			f.Leaking, f.LeakDue = leaking, m.Leak.Since <= now-LeakWait
		}
	}
	if said {
		m.forecast(s, of)
	}
}

// forecast decides what is said of the end of a memory.
func (m *Memory) forecast(s *Sample, of func(Who) *Finding) {
	j, now := s.Judgement, s.Judgement.T
	if is := m.evidence(s); is != m.Evidence {
		m.Evidence, m.OOM.Since = is, now
	}
	// A page that was said waits no more after an interruption shorter than its wait, as between two lives of a crash loop.
	page := m.Page.holds(j.Page, now, PageWait) || j.Page && m.Paged > now-PageWait && m.Paged <= now
	if page {
		m.Paged = now
	}
	unknown := j.Residual.Judged && j.Residual.Leak
	if m.OOM.holds(m.Evidence != detector.EvidenceNone, now, 0) {
		rate := leaks // who does not leak is not to blame for a leak, however fast it loads
		if m.Evidence == detector.EvidenceFilling {
			rate = takesPart
		}
		f := of(m.OOM.pick(s.growing(rate, m.OOM.Who), unknown))
		f.OOM, f.Evidence = j.Device.SecondsToOOM, m.Evidence
		// What has a ticket is silent while its page waits: an alert outlives that, and its value would be a page.
		f.OOMDue = page || !j.Page && m.Evidence == detector.EvidenceLeak && m.OOM.Since <= now-LeakWait
	}
}

// evidence returns what foretells the end of the memory: growth that may end before is nobody's business. While a page is on it
// does not change, though another evidence may be there as well: it stands in a label.
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

// takesPart returns how fast a series grows that fills the memory, and leaks how fast one that leaks does; 0 if it does not.
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

// growing returns who grows, and how fast: processes, and the pods and jobs of which no process does, or may before it is
// judged, or who was to blame.
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
			alone = alone && !grow[k].who.with(&w.Who)
		}
		for k := range s.Processes {
			alone = alone && (s.Processes[k].Verdict.Judged || !s.Processes[k].Who.with(&w.Who))
		}
		if alone || w.Who == before {
			grow.add(w.Who, rate(w.Verdict))
		}
	}
	return grow
}

// held returns who holds memory in such a pattern, and how much, and the sum of that.
func (s *Sample) held(is func(detector.Pattern) bool) (by shares, sum float64) {
	for i := range s.Processes {
		p := &s.Processes[i]
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

// ended notes ends, and forgets those that are not of the last hour. The ranks of a job, which end together, end once: another
// end is that of a process that came after the last one.
func (m *Memory) ended(ends []End, now time.Duration) {
	for _, e := range ends {
		if n := len(m.Ends); n == 0 || e.Began > m.Ends[n-1].At {
			m.Ends = append(m.Ends, e)
		}
	}
	m.Ends = slices.DeleteFunc(slices.Clone(m.Ends), func(e End) bool { return e.At > now || e.At <= now-crashesIn })
	m.Ends = m.Ends[max(0, len(m.Ends)-mostEnds):]
}
