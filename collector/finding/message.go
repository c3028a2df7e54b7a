// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"cmp"
	"math"
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Severity says how soon a person must act.
type Severity uint8

// The severities, the most urgent last.
const (
	Note    Severity = iota // no action
	Unknown                 // the health is unknown
	Ticket                  // act within the day
	Page                    // act now
)

// String returns the severity as the JSON has it.
func (s Severity) String() string { return [...]string{"note", "unknown", "ticket", "page"}[s] }

// The thresholds of a ticket. 100 MiB and 1 GiB are gpumemprof's warning and critical.
const (
	// TicketWithin is the longest time left of a leak for a ticket.
	TicketWithin = 24 * time.Hour
	// A leak that has kept LeakTicket bytes is a ticket before LeakWait is over. Memory of a zombie, or of a process that ended,
	// is a note from LeakTicket bytes on, and a ticket from HeldTicket bytes on.
	LeakTicket = 100 << 20
	HeldTicket = 1 << 30
)

// The alerts on growth.
const (
	OutOfMemory = "GPUOutOfMemoryPredicted"
	Leak        = "GPUMemoryLeakDetected"
)

const loopAdvice = "Stop the restarts. Let it ask for less, or give it more memory." // a program of a crash loop dies anyway

// Message is one finding in words.
type Message struct {
	Severity Severity
	Alert    string // the alert of the mixin, and the chapter of the runbook
	Who      Who
	Summary  string         // one sentence without its full stop
	Detail   string         // sentences: the culprit, and how much
	Advice   string         // one or two sentences on what to do
	Left     detector.Value // seconds until the memory is full; absent without a forecast
	Due      bool           // it has lasted for the wait of its alert
}

// Details returns the sentences after the summary.
func (m *Message) Details() string { return Joined(" ", m.Detail, m.Advice) }

// Text returns all of it.
func (m *Message) Text() string { return Joined(" ", m.Summary+".", m.Details()) }

// Compare orders messages: the most urgent first, and of these the one with the least time left.
func (m *Message) Compare(other *Message) int {
	left := func(m *Message) float64 {
		if !m.Left.OK {
			return math.Inf(1)
		}
		return m.Left.V
	}
	return cmp.Or(cmp.Compare(other.Severity, m.Severity), cmp.Compare(left(m), left(other)))
}

// Messages puts the findings of Judge into words, the most urgent first. They describe the memory now. An alert waits for
// minutes until it fires.
func (s *Sample) Messages(found []Finding) (list []Message) {
	for i := range found {
		f := &found[i]
		add := func(is bool, m Message) {
			if m.Who, m.Summary = f.Who, begun(m.Summary); is {
				list = append(list, m)
			}
		}
		held := func(bytes detector.Value, detail, advice string) {
			m := Message{Severity: Note, Alert: "GPUMemoryHeldByNobody", Summary: humanize.Bytes(bytes.V) + " of " + s.Name + " are held, and nobody uses them", Detail: detail, Advice: advice, Due: true}
			if bytes.V >= HeldTicket {
				m.Severity = Ticket
			}
			add(bytes.V >= LeakTicket, m)
		}
		near := f.OOM.OK && (s.Judgement.Page || f.Evidence == detector.EvidenceLeak && f.OOM.V < TicketWithin.Seconds())
		add(near || f.Leaking.OK, s.growth(f, near))
		held(f.Zombie, s.does(f, s.Processes, zombie, Patterns[detector.PatternZombie]), "End it with kill -9. If that does not help, reboot the node.")
		held(f.Unreleased, s.does(f, s.Unreleased, used, Stays), "fuser -v /dev/nvidia* on the node tells who still has the device open.")
		add(f.NearlyFull, Message{
			Severity: Ticket, Alert: "GPUMemoryNearlyFull", Summary: "The memory of " + s.Name + " is nearly full, though nothing leaks",
			Detail: s.does(f, s.Processes, used, "holds most of it"), Advice: "Move a program elsewhere, or let one ask for less.", Due: true,
		})
		add(f.CrashLoop, Message{
			Severity: Ticket, Alert: "GPUOutOfMemoryCrashLoop", Summary: "Processes end again and again while the memory of " + s.Name + " is full",
			Detail: s.does(f, nil, nil, "ended most often"), Advice: loopAdvice, Due: true,
		})
	}
	slices.SortStableFunc(list, func(a, b Message) int { return a.Compare(&b) })
	return list
}

// begun writes a name, or a text that begins with one, at the begin of a sentence.
func begun(text string) string {
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// growth returns the message on growth: that it leaks, or that the memory will be full near enough for a page or a ticket.
func (s *Sample) growth(f *Finding, near bool) Message {
	v := &s.Judgement.Device
	m := Message{
		Severity: Ticket, Alert: Leak, Summary: s.Name + " leaks", Detail: s.grows(f),
		Advice: "Choose a good moment to restart what grows, and have the leak fixed.", Left: f.OOM, Due: f.LeakDue,
	}
	switch {
	case near:
		m.Alert, m.Summary, m.Due = OutOfMemory, s.Name+" runs out of memory in "+Left(v), f.OOMDue
	case !f.LeakDue && v.Leaked.V > 0 && v.Leaked.V < LeakTicket:
		m.Severity = Note
	}
	if near && s.Judgement.Page {
		m.Severity, m.Advice = Page, "Save a checkpoint, then restart what grows."
	}
	if f.CrashLoop || v.Pattern == detector.PatternCrashLoop {
		m.Advice = loopAdvice
	}
	return m
}

// grows describes growth: the culprit, the speed, the kind of memory, and the bytes kept.
func (s *Sample) grows(f *Finding) string {
	list, rate := s.Processes, s.Judgement.Rate
	if f.Whole {
		list = s.Workloads
	}
	name, part := s.who(f, list, func(p *Part) float64 { return takesPart(p.Verdict) })
	switch {
	case part != nil && f.Evidence == detector.EvidenceFilling: // the window may be longer than the growth: it tells the share alone
		own, all := takesPart(part.Verdict), takesPart(&s.Judgement.Residual)
		for i := range s.Processes {
			all += takesPart(s.Processes[i].Verdict)
		}
		rate.V *= own / max(own, all)
	case part != nil:
		rate = detector.Of(takesPart(part.Verdict))
	case name == "" && s.Judgement.Residual.Leak:
		name = "What no process accounts for"
	}
	text := cmp.Or(name, "The memory as a whole") + " grows"
	if rate.OK && rate.V > 0 {
		text += " by " + humanize.Rate(rate.V)
	}
	text += "."
	if part != nil {
		text = Joined(" ", text, Inside[part.Grows])
		if part.Line != "" {
			text += " Most of that is allocated at " + part.Line + "."
		}
	}
	v := &s.Judgement.Device
	lasts := humanize.Duration(s.Now - v.Since)
	switch {
	case !v.Leak:
		return Joined(" ", text, Withheld(v))
	case v.Pattern == detector.PatternCrashLoop:
		text += " It is a crash loop: for " + lasts + " a program has filled the memory, died and been started again."
	case v.Leaked.V > 0:
		text += " It has not given back " + humanize.Bytes(v.Leaked.V) + " in " + lasts + "."
	}
	return text
}

// Inside says which memory of a process with a probe grows.
var Inside = map[detector.Inside]string{
	detector.InsideTensors:   "Its tensors grow.",
	detector.InsideUntracked: "Its tensors do not grow, a library does.",
	detector.InsidePool:      "Its tensors do not grow, what its allocator keeps does.",
}

// Stays says what is left of a process behind its name. It may still run: the driver does not list it any more.
const Stays = "has left the GPU, and this memory has stayed"

// does says what the culprit does; "" if it is unknown.
func (s *Sample) does(f *Finding, list []Part, amount func(*Part) float64, what string) string {
	name, _ := s.who(f, list, amount)
	if name != "" {
		name += " " + what + "."
	}
	return name
}

// who names the culprit of a finding for the begin of a sentence; "" if it is unknown. It also returns the part with its labels and
// the largest amount. The name has no pid if there is no such part.
func (s *Sample) who(f *Finding, list []Part, amount func(*Part) float64) (name string, most *Part) {
	if f.Who == (Who{}) && s.Judgement.Residual.Leak { // no process is to blame, known or not
		return "", nil
	}
	for i := range list {
		if p := &list[i]; p.Who == f.Who && amount(p) > 0 && (most == nil || amount(p) > amount(most)) {
			most = p
		}
	}
	place := f.Place()
	if name = f.Process; most != nil && !f.Whole {
		name = Process(name, most.PID)
	}
	switch {
	case name != "" && place != "":
		name += " of " + place
	case place != "":
		name = begun(place)
	}
	return name, most
}

func used(p *Part) float64 { return float64(p.Used) }

func zombie(p *Part) float64 {
	if !p.Verdict.Judged || p.Verdict.Pattern != detector.PatternZombie {
		return 0
	}
	return float64(p.Used)
}
