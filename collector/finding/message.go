// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Severity is whom a message is for.
type Severity uint8

// The severities, the most urgent last.
const (
	Note    Severity = iota // nobody need act
	Unknown                 // it is not known whether all is well
	Ticket                  // somebody should act in the morning
	Page                    // somebody gets up
)

// String returns the severity as the JSON has it.
func (s Severity) String() string { return [...]string{"note", "unknown", "ticket", "page"}[s] }

// What a ticket takes. The steps of 100 MiB and 1 GiB are gpumemprof's warning and critical.
const (
	// TicketWithin is how soon a leak ends for which somebody should act today.
	TicketWithin = 24 * time.Hour
	// LeakTicket is what a leak must have retained until it has lasted for LeakWait, and HeldTicket what must be held by nobody, in
	// bytes. Memory that is held of at least LeakTicket is a note.
	LeakTicket = 100 << 20
	HeldTicket = 1 << 30
)

// The alerts on growth.
const (
	OutOfMemory = "GPUOutOfMemoryPredicted"
	Leak        = "GPUMemoryLeakDetected"
)

// Message is one thing that somebody should know, in words.
type Message struct {
	Severity Severity
	Alert    string // the alert that says the same, whose name the runbook's chapter bears; "" for none
	Who      Who
	Summary  string  // what is so, a sentence without its full stop
	Detail   string  // who does it, and how much: sentences
	Advice   string  // one sentence on what to do, or two
	Left     float64 // seconds; +Inf where nothing foretells an end
	Due      bool    // it has lasted for as long as its alert waits
}

// Details returns what follows the summary.
func (m *Message) Details() string { return Joined(" ", m.Detail, m.Advice) }

// Text returns all of it.
func (m *Message) Text() string {
	if m.Summary == "" {
		return m.Details()
	}
	return Joined(" ", m.Summary+".", m.Details())
}

// Compare orders messages: the most urgent first, and of these the one with the least time left.
func (m *Message) Compare(other *Message) int {
	return cmp.Or(cmp.Compare(other.Severity, m.Severity), cmp.Compare(m.Left, other.Left))
}

// Messages returns what there is to say of a memory of which Judge returned that. The alerts wait for minutes until they say it:
// this is what is so now.
func (s *Sample) Messages(found []Finding, cfg *detector.Config) (list []Message) {
	for i := range found {
		f := &found[i]
		add := func(m Message, ok bool) {
			if m.Who, m.Left = f.Who, cmp.Or(m.Left, math.Inf(1)); ok {
				list = append(list, m)
			}
		}
		if m, ok := s.runsOut(f); ok {
			add(m, true)
		} else {
			add(s.leaks(f), f.Leaking.OK)
		}
		add(s.holds(f, f.Zombie, detector.PatternZombie), f.Zombie.V >= LeakTicket)
		add(s.holds(f, f.Unreleased, detector.PatternUnreleased), f.Unreleased.V >= LeakTicket)
		add(Message{
			Severity: Ticket, Alert: "GPUMemoryNearlyFull", Summary: "The memory of " + s.Name + " is nearly full, though nothing leaks",
			Detail: s.said(f, "holds most of it"), Advice: "Move a program elsewhere, or let one ask for less.",
		}, f.NearlyFull)
		add(Message{
			Severity: Ticket, Alert: "GPUOutOfMemoryCrashLoop", Summary: "Processes end again and again while the memory of " + s.Name + " is full",
			Detail: s.said(f, "ended most often"), Advice: "Let it ask for less, or give it a GPU with more memory.",
		}, f.CrashLoop)
	}
	if text := NotYet(&s.Judgement.Device, cfg); text != "" && len(list) == 0 {
		list = append(list, Message{Summary: s.Name + " grows", Detail: text, Left: math.Inf(1)})
	}
	return list
}

// runsOut foretells the end of a memory, if it is near enough for a page or a ticket.
func (s *Sample) runsOut(f *Finding) (Message, bool) {
	if !f.OOM.OK || !s.Judgement.Page && (f.Evidence != detector.EvidenceLeak || f.OOM.V >= TicketWithin.Seconds()) {
		return Message{}, false
	}
	m := Message{
		Severity: Ticket, Alert: OutOfMemory, Summary: s.Name + " runs out of memory in " + Left(&s.Judgement.Device),
		Detail: s.grows(f), Advice: "Restart what grows at a good moment, and have the leak fixed.", Left: f.OOM.V, Due: f.OOMDue,
	}
	if f.OOM.V < time.Minute.Seconds() {
		m.Summary = s.Name + " is about to run out of memory"
	}
	if s.Judgement.Page {
		m.Severity, m.Advice = Page, "Save a checkpoint, then restart what grows."
	}
	return m, true
}

// leaks tells of a leak whose end is far or not known.
func (s *Sample) leaks(f *Finding) Message {
	v := &s.Judgement.Device
	m := Message{
		Severity: Ticket, Alert: Leak, Summary: s.Name + " leaks", Detail: s.grows(f),
		Advice: "Have the leak fixed; a restart frees what it holds.",
	}
	if !f.LeakDue && v.Leaked.OK && v.Leaked.V > 0 && v.Leaked.V < LeakTicket {
		m.Severity = Note
	}
	return m
}

// holds tells of memory that nobody will use again.
func (s *Sample) holds(f *Finding, bytes detector.Value, as detector.Pattern) Message {
	m := Message{
		Severity: Note, Alert: "GPUMemoryHeldByNobody", Summary: humanize.Bytes(bytes.V) + " of " + s.Name + " are held, and nobody uses them",
		Detail: s.said(f, HeldBy[as]), Advice: "End it; where kill -9 does not, only a reboot of the node does.",
	}
	if as == detector.PatternUnreleased {
		m.Advice = "fuser -v /dev/nvidia* on the node tells who still has the device open."
	}
	if bytes.V >= HeldTicket {
		m.Severity = Ticket
	}
	return m
}

// HeldBy says of who holds memory for nothing, by its pattern, how that is seen.
var HeldBy = map[detector.Pattern]string{
	detector.PatternZombie:     "computes nothing, and shows no sign of going on",
	detector.PatternUnreleased: "has ended, and this memory of it has stayed",
}

// grows says whose growth it is, how fast it is, what of it grows, and what it has kept.
func (s *Sample) grows(f *Finding) string {
	part, others := s.part(f)
	v, rate := &s.Judgement.Device, s.Judgement.Rate
	if part != nil {
		rate = detector.Of(takesPart(part.Verdict))
	}
	text := cmp.Or(s.subject(f), "The memory as a whole") + " grows"
	if rate.OK && rate.V > 0 {
		text += " by " + strings.TrimPrefix(humanize.Rate(rate.V), "+")
	}
	if others > 0 {
		text += fmt.Sprintf(", and %d more with it", others)
	}
	text += "."
	if part != nil {
		text = Joined(" ", text, Inside[part.Grows])
		if part.Line != "" {
			text += " Most of that is allocated at " + part.Line + "."
		}
	}
	switch {
	case v.Leak && v.Pattern == detector.PatternCrashLoop:
		text += " It is a crash loop: " + loops
	case v.Leak && v.Leaked.V > 0:
		text += " It has not given back " + s.kept(v) + "."
	}
	return Joined(" ", text, notYet(v))
}

// notYet says of what fills a memory that it is no leak.
func notYet(v *detector.Verdict) string {
	switch {
	case v.Leak:
		return ""
	case v.Judged && v.Withheld != detector.WithheldNone:
		return "It is no leak yet: it " + withheld[v.Withheld] + "."
	}
	return "It has not grown for long enough to be called a leak."
}

// Inside says what of a process grows that has a probe.
var Inside = map[detector.Inside]string{
	detector.InsideTensors:   "Its tensors grow.",
	detector.InsideUntracked: "Its tensors do not grow, a library does.",
	detector.InsidePool:      "Its tensors do not grow, what its allocator keeps does.",
}

// part returns the process, pod or job that a finding blames, and how many others leak; nil where none is known.
func (s *Sample) part(f *Finding) (most *Part, others int) {
	list := s.Processes
	if f.Whole {
		list = s.Workloads
	}
	for i := range list {
		p := &list[i]
		switch {
		case p.Who != f.Who:
			if leaks(p.Verdict) > 0 {
				others++
			}
		case most == nil || takesPart(p.Verdict) > takesPart(most.Verdict):
			most = p
		}
	}
	return most, others
}

// said says something of who a finding blames; "" where nobody is known.
func (s *Sample) said(f *Finding, what string) string {
	who := s.subject(f)
	if who == "" {
		return ""
	}
	return who + " " + what + "."
}

// subject names who a finding blames, at the begin of a sentence; "" where nobody is known.
func (s *Sample) subject(f *Finding) string {
	part, _ := s.part(f)
	name, place := f.Process, f.Place()
	if part != nil && !f.Whole {
		name = Process(name, part.PID)
	}
	switch {
	case name != "" && place != "":
		return name + " of " + place
	case place != "":
		return strings.ToUpper(place[:1]) + place[1:]
	case name == "" && s.Judgement.Residual.Leak:
		return "What no process accounts for"
	}
	return name
}
