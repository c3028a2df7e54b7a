// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/history"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

const (
	// nearCapacity is the share of its capacity from which on a memory counts as full: an allocation of some size fails before
	// the last byte is taken.
	nearCapacity = 0.95
	// alertLasts is how long an alert outlives the last sample of its condition: a rule of the mixin remembers that for two
	// minutes, and keeps firing for two more.
	alertLasts = 4 * time.Minute
)

// level says how far a finding went.
type level uint8

const (
	levelNone level = iota
	levelLeak       // it was called a leak, and nobody was told
	levelTicket
	levelPage
)

// String names the level as --fail-on does.
func (l level) String() string { return [...]string{"none", "leak", "ticket", "page"}[l] }

// event is the time for which a memory was called a leak, or an alert of the mixin fired.
type event struct {
	plot.Span
	eventKey
	text    string // the finding at its begin
	since   time.Duration
	verdict detector.Verdict
	crest   float64       // of the memory, bytes
	held    time.Duration // when its condition held last
}

type eventKey struct {
	level level
	alert string
}

// memoryKey names a memory over the layouts of a GPU.
type memoryKey struct {
	sampler.MemoryKey
	profile string
}

// result is what a backtest has found out about a memory.
type result struct {
	name, from  string
	labels      history.Labels // of the GPU
	memory      memoryKey
	first, last time.Duration
	samples     uint64
	used, peak  float64 // the last and the highest sample, bytes
	capacity    detector.Value
	full        []plot.Span    // when it was near its capacity
	judged      bool           // ever
	said        sampler.Domain // the memory as it was judged last
	saidAt      time.Duration
	word, text  string // on it, in the end
	events      []*event
	current     map[eventKey]*event // the last one of each kind
	plot        *plot.Envelope      // nil unless it is drawn
	troughs     []plot.Point
}

// add notes a sample.
func (r *result) add(t time.Duration, m gpu.Memory) {
	if r.first == 0 {
		r.first = t
	}
	r.last = t
	if !m.Used.OK {
		return
	}
	r.samples++
	r.used = float64(m.Used.V)
	r.peak = max(r.peak, r.used)
	if c := m.Capacity(); c.OK && c.V > 0 {
		r.capacity = detector.Of(float64(c.V))
		if r.used >= nearCapacity*r.capacity.V {
			r.nearlyFull(t)
		}
	}
	if r.plot != nil {
		r.plot.Add(t, r.used)
	}
}

// judge notes the verdict after a sample. A reading that failed ends nothing.
func (r *result) judge(t time.Duration, d *sampler.Domain) {
	v := &d.Judgement.Device
	r.judged = r.judged || v.Judged
	if v.Judged || v.Muted || r.said.MemoryState == nil || !r.judged && d.Memory.Used.OK {
		r.said, r.saidAt = *d, t
	}
	if v.Trough.OK && r.plot != nil {
		r.troughs = append(r.troughs, plot.Point{T: t, V: v.Trough.V})
	}
	if d.Memory.Used.OK {
		r.note(t, d)
	}
}

// nearlyFull notes that the memory is near its capacity.
func (r *result) nearlyFull(t time.Duration) {
	if n := len(r.full); n > 0 && t-r.full[n-1].To < alertLasts {
		r.full[n-1].To = t
		return
	}
	r.full = append(r.full, plot.Span{From: t, To: t})
}

// note notes what is said of a memory now.
func (r *result) note(t time.Duration, d *sampler.Domain) {
	if len(d.Device.Findings) > 0 {
		leak := leaks(d)
		for _, m := range d.Messages() {
			if leak && (m.Alert == finding.Leak || m.Alert == finding.OutOfMemory) {
				r.goesOn(t, eventKey{levelLeak, ""}, d, &m)
			}
			switch {
			case !m.Due:
			case m.Severity == finding.Page:
				r.goesOn(t, eventKey{levelPage, m.Alert}, d, &m)
			case m.Severity == finding.Ticket:
				r.goesOn(t, eventKey{levelTicket, m.Alert}, d, &m)
			}
		}
	}
	for _, e := range r.current {
		if e.Open && e.held < t {
			e.To, e.Open = min(t, e.held+alertLasts), false
		}
	}
}

// leaks reports whether a memory, or a process, pod or job on it, is called a leak. A rule may mute the memory alone.
func leaks(d *sampler.Domain) bool {
	s := d.Sample()
	leak := func(p finding.Part) bool { return p.Verdict.Judged && p.Verdict.Leak }
	return d.Judgement.Device.Leak || slices.ContainsFunc(s.Processes, leak) || slices.ContainsFunc(s.Workloads, leak)
}

// goesOn begins an event, or goes on with the last one of its kind.
func (r *result) goesOn(t time.Duration, key eventKey, d *sampler.Domain, m *finding.Message) {
	e := r.current[key]
	if e == nil || !e.Open && t-e.held >= alertLasts {
		v := d.Judgement.Device
		e = &event{Span: plot.Span{From: t}, eventKey: key, text: finding.Joined(" ", m.Summary+".", m.Detail), verdict: v, since: t}
		if v.Leak {
			e.since = v.Since
		}
		if r.capacity.OK && d.Judgement.Headroom.OK {
			e.crest = r.capacity.V - d.Judgement.Headroom.V
		}
		r.current[key] = e
		r.events = append(r.events, e)
	}
	e.To, e.Open, e.held = t, true, t
}

// worst is the first event of the highest level, and of growth if there is one; nil without an event.
func (r *result) worst() (first *event) {
	for _, e := range r.events {
		if first == nil || first.rank() < e.rank() {
			first = e
		}
	}
	return first
}

// level is that of the worst event.
func (r *result) level() level { return cmp.Or(r.worst(), &event{}).level }

// leaked reports whether it was ever called a leak.
func (r *result) leaked() bool { return r.current[eventKey{levelLeak, ""}] != nil }

// fires reports whether an alert of a level fires at time t.
func (r *result) fires(l level, t time.Duration) bool {
	for key, e := range r.current {
		if key.level == l && (e.Open || t-e.held < alertLasts) {
			return true
		}
	}
	return false
}

// compare orders results: pages, tickets, verdicts, nothing; of each growth, then the earlier one, first.
func compare(a, b *result) int {
	x, y := cmp.Or(a.worst(), &event{}), cmp.Or(b.worst(), &event{})
	return cmp.Or(cmp.Compare(y.rank(), x.rank()), cmp.Compare(x.From, y.From))
}

// rank orders events by their level. Of the same level, growth comes first: the question is how early it was found.
func (e *event) rank() int {
	if e.grows() {
		return 2*int(e.level) + 1
	}
	return 2 * int(e.level)
}

// title is its name, and the file that it is from if there are several.
func (r *result) title() string {
	if r.from != "" {
		return r.from + ": " + r.name
	}
	return r.name
}

// facts says how much of the memory was seen.
func (r *result) facts() string {
	text := humanize.Duration(r.last-r.first) + ", " + strconv.FormatUint(r.samples, 10) + " samples"
	if r.samples > 0 {
		text += ", at most " + humanize.Bytes(r.peak)
		if r.capacity.OK {
			text += " (" + finding.Percent(r.peak/r.capacity.V) + ")"
		}
	}
	return text
}

// early says how long an event came before the memory was as good as full, or else before the record ends. A time before the leak, or after its
// end, tells nothing of that.
func (r *result) early(e *event) string {
	for _, f := range r.full {
		switch full := max(f.From, e.since); {
		case f.To < e.since || !e.Open && full > e.To:
		case full >= e.From:
			return ", " + humanize.Duration(full-e.From) + " before 95 % was in use"
		default:
			return ", " + humanize.Duration(e.From-full) + " after 95 % was in use"
		}
	}
	if e.Open {
		return ", " + humanize.Duration(r.last-e.From) + " before the record ends"
	}
	return ""
}

// grows reports whether it is about growth, which fills the memory later.
func (e *event) grows() bool {
	return e.level == levelLeak || e.alert == finding.OutOfMemory || e.alert == finding.Leak
}

// line writes an event: its level and alert, and the finding at its begin.
func (e *event) line(loc *time.Location) string {
	text := e.text
	if e.alert != "" {
		text = e.alert + ": " + text
	}
	if !e.Open {
		text += " It lasted " + humanize.Duration(e.To-e.From) + "."
	}
	return fmt.Sprintf("%s  %-6s  %s", moment(e.From, loc), e.level, cli.Printable(text, longestText))
}

// moment writes a time to the minute, and its zone.
func moment(t time.Duration, loc *time.Location) string {
	return history.Wall(t).In(loc).Format("2006-01-02 15:04 MST")
}

// distinguish adds the labels in which they differ to the names of memories that have the same name.
func distinguish(list []*result) {
	named := map[string][]*result{}
	for _, r := range list {
		named[r.title()] = append(named[r.title()], r)
	}
	for _, same := range named {
		var shared []string
		for name, value := range same[0].labels {
			if !slices.ContainsFunc(same, func(r *result) bool { return r.labels[name] != value }) {
				shared = append(shared, name)
			}
		}
		for _, r := range same {
			if by := r.labels.Without(shared...).String(); by != "" {
				r.name += " [" + by + "]"
			}
		}
	}
}

// headline answers whether somebody would have been paged or got a ticket, and how early.
func headline(list []*result, loc *time.Location) string {
	first := slices.MinFunc(list, compare)
	e := first.worst()
	if e == nil {
		judged := 0
		for _, r := range list {
			if r.judged {
				judged++
			}
		}
		return fmt.Sprintf("Would not have alerted. Judged: %d of %d.", judged, len(list))
	}
	// A ticket for something else may have come before.
	of := map[bool]string{false: " for ", true: " for a leak on "}[e.level == levelTicket && e.grows()]
	text := [...]string{
		levelLeak: "Would not have alerted, only called it a leak", levelTicket: "Would have ticketed", levelPage: "Would have paged",
	}[e.level] + " at " + moment(e.From, loc) + of + first.title()
	if e.grows() {
		text += first.early(e)
	} else {
		text += ": " + e.alert
	}
	text += "."
	if e.level == levelTicket && e.grows() && !first.capacity.OK {
		text += " Without its capacity there is no forecast and no page: give --capacity."
	}
	return text
}
