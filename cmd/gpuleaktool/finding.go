// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
)

// nearCapacity is the share of its capacity from which on a memory counts as full:
// an allocation of some size fails before the last byte is taken.
const nearCapacity = 0.95

// finding is what a backtest has found out about a series.
type finding struct {
	*series
	name   string // in words
	alarm  *step  // the first, nil without a leak
	alarms []plot.Span
	full   time.Duration // when the leak first brought it near its capacity, if filled
	filled bool

	suspected suspicion
}

// findingsOf returns what was found out about each series.
func findingsOf(list []*series) []finding {
	names := namesOf(list)
	findings := make([]finding, len(list))
	for i, x := range list {
		findings[i] = findingOf(x, names[i])
	}
	return findings
}

func findingOf(x *series, name string) finding {
	f := finding{series: x, name: name}
	for i := range x.steps {
		s := &x.steps[i]
		if s.blind { // one reading that failed takes no alarm back
			continue
		}
		open := len(f.alarms) > 0 && f.alarms[len(f.alarms)-1].Open
		f.suspected.note(s, s.leak && !open)
		switch {
		case s.leak && !open:
			f.alarms = append(f.alarms, plot.Span{From: s.t, To: s.t, Open: true})
			if f.alarm == nil {
				f.alarm = s
			}
		case s.leak:
			f.alarms[len(f.alarms)-1].To = s.t
		case open:
			last := &f.alarms[len(f.alarms)-1]
			last.To, last.Open = s.t, false
		}
	}
	f.fill()
	return f
}

// fill finds out when the memory was first near its capacity since the leak of the first alarm
// began. What filled it before was another job, or a peak that was given back, and tells
// nothing of how early the alarm came.
func (f *finding) fill() {
	if f.alarm == nil {
		return
	}
	for i := range f.steps {
		if s := &f.steps[i]; s.near && s.nearAt >= f.alarm.since {
			f.full, f.filled = s.nearAt, true
			return
		}
	}
}

// judged reports whether there was any verdict.
func (f *finding) judged() bool {
	return slices.ContainsFunc(f.steps, func(s step) bool { return s.judged })
}

// muted reports whether it was not to be judged.
func (f *finding) muted() bool {
	s := f.final()
	return s != nil && s.muted
}

// final is the last step at which something was said, nil if nothing ever was.
func (f *finding) final() *step {
	for i := len(f.steps) - 1; i >= 0; i-- {
		if s := &f.steps[i]; !s.blind {
			return s
		}
	}
	return nil
}

// title is its name, and the file that it is from if there are several.
func (f *finding) title() string {
	if f.from != "" {
		return f.from + ": " + f.name
	}
	return f.name
}

// span is the time from the first sample to the last.
func (f *finding) span() time.Duration { return f.last - f.first }

// share writes v as a part of the capacity, "" where that is not known.
func (f *finding) share(v float64) string {
	if !f.capacity.OK || f.capacity.V <= 0 {
		return ""
	}
	return fmt.Sprintf("%d %%", int(math.Floor(100*v/f.capacity.V+1e-9)))
}

// knew writes of how many earlier lives the detector knew, "" for none.
func (f *finding) knew() string {
	s := f.final()
	if s == nil || s.earlier.V == 0 {
		return ""
	}
	if s.earlier.V == 1 {
		return "1 earlier life"
	}
	return fmt.Sprintf("%.0f earlier lives", s.earlier.V)
}

// peakText writes the highest sample.
func (f *finding) peakText() string {
	text := humanize.Bytes(f.peak)
	if share := f.share(f.peak); share != "" {
		text += " (" + share + ")"
	}
	return text
}

// verdict writes what the detector said at worst.
func (f *finding) verdict(loc *time.Location) string {
	switch {
	case f.sliced:
		return "its slices are judged"
	case f.alarm == nil && f.muted():
		return "muted"
	case f.alarm == nil && !f.judged():
		return "not judged"
	case f.alarm == nil && f.suspected.open():
		return "no leak yet"
	case f.alarm == nil:
		return "no leak"
	}
	text := "leak at " + moment(f.alarm.t, loc)
	if first := f.alarms[0]; !first.Open {
		text += ", cleared after " + humanize.Duration(first.To-first.From)
	}
	if n := len(f.alarms) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return text
}

// pattern is the one at the alarm, or the last one.
func (f *finding) pattern() string {
	s := f.alarm
	if s == nil {
		s = f.final()
	}
	if s == nil {
		return ""
	}
	return s.pattern.String()
}

// growth is the rate that was told at the alarm, by the minute.
func (f *finding) growth() string {
	if f.alarm == nil || !f.alarm.rate.OK {
		return ""
	}
	v := f.alarm.rate.V * 60
	sign := ""
	if v > 0 {
		sign = "+"
	}
	return sign + humanize.Bytes(v) + "/min"
}

// retained is what had leaked in the end, or before the last alarm was taken back.
func (f *finding) retained() string {
	for i := len(f.steps) - 1; i >= 0; i-- {
		if s := &f.steps[i]; s.leak && s.leaked.OK {
			return humanize.Bytes(s.leaked.V)
		}
	}
	return ""
}

// forecast is the time to out-of-memory that was told at the alarm, and its 90 %
// interval.
func (f *finding) forecast() string {
	a := f.alarm
	if a == nil || !a.seconds.OK || math.IsInf(a.seconds.V, 1) {
		return ""
	}
	text := humanize.Seconds(a.seconds.V)
	switch {
	case !a.lower.OK || !a.upper.OK:
		return text
	case math.IsInf(a.upper.V, 1):
		return text + " (at least " + humanize.Seconds(a.lower.V) + ")"
	}
	if lower, upper := humanize.Seconds(a.lower.V), humanize.Seconds(a.upper.V); lower != upper {
		text += " (" + lower + " to " + upper + ")"
	}
	return text
}

// early says how long the alarm came before the memory was as good as full, or
// before the end of the record.
func (f *finding) early() string {
	switch {
	case f.alarm == nil:
		return ""
	case f.filled && f.full >= f.alarm.t:
		return humanize.Duration(f.full-f.alarm.t) + " before 95 % was in use"
	case f.filled:
		return humanize.Duration(f.alarm.t-f.full) + " after 95 % was in use"
	}
	return humanize.Duration(f.last-f.alarm.t) + " before the end"
}

// moment writes a time to the minute.
func moment(t time.Duration, loc *time.Location) string {
	return wall(t).In(loc).Format("2006-01-02 15:04")
}

// headline answers in one sentence whether an alarm would have been raised, and how
// early.
func headline(list []finding, loc *time.Location) string {
	var first *finding
	var longest time.Duration
	leaking, judged, muted := 0, 0, 0
	for i := range list {
		f := &list[i]
		longest = max(longest, f.span())
		switch {
		case f.judged():
			judged++
		case f.muted():
			muted++
		}
		if f.alarm == nil {
			continue
		}
		leaking++
		// At the same time, the whole memory comes before who holds it: it is first
		// in the list.
		if first == nil || f.alarm.t < first.alarm.t {
			first = f
		}
	}
	switch {
	case first != nil:
		return first.sentence(loc, culprit(list, first), leaking)
	case muted == len(list):
		return fmt.Sprintf("Nothing was judged: all %d series are muted.", muted)
	case judged == 0 && muted > 0:
		return fmt.Sprintf("Nothing was judged: %d of %d series are muted, and the others too short.", muted, len(list))
	case judged == 0:
		return fmt.Sprintf("Nothing was judged: the longest of %d series covers %s, and a verdict takes more.", len(list), humanize.Duration(longest))
	}
	text := fmt.Sprintf("Would not have alerted: no leak in %d series, the longest of %s", judged, humanize.Duration(longest))
	if muted > 0 {
		text += "; " + more(muted) + " muted"
	}
	if short := len(list) - judged - muted - sliced(list); short > 0 {
		text += "; " + more(short) + " too short for a verdict"
	}
	return text + "." + suspects(list)
}

func more(n int) string {
	if n == 1 {
		return "1 more is"
	}
	return fmt.Sprintf("%d more are", n)
}

// sliced counts the GPUs whose slices are judged in their place.
func sliced(list []finding) (n int) {
	for i := range list {
		if list[i].sliced {
			n++
		}
	}
	return n
}

// culprit names who leaks on the memory that a finding is about: the first process
// for which there is an alarm, if there is one. "" if that is not known.
func culprit(list []finding, on *finding) string {
	if on.kind != kindMemory {
		return ""
	}
	var first *finding
	for i := range list {
		f := &list[i]
		same := f.from == on.from && f.labels.get("uuid") == on.labels.get("uuid") && f.labels.get("gpu_instance") == on.labels.get("gpu_instance")
		if f.kind == kindProcess && f.alarm != nil && same && (first == nil || f.alarm.t < first.alarm.t) {
			first = f
		}
	}
	if first == nil {
		return ""
	}
	return first.whose()
}

// worst is the highest sample that a verdict of a leak tells of.
func (f *finding) worst() (used float64) {
	for i := range f.steps {
		if s := &f.steps[i]; s.leak {
			used = max(used, s.used)
		}
	}
	return used
}

// amount writes used memory, as a share of that if it is one of its own.
func (f *finding) amount(used float64) string {
	if share := f.share(used); share != "" && f.kind == kindMemory {
		return share + " of the memory"
	}
	return humanize.Bytes(used)
}

// sentence is the headline about the first of so many leaking series, and who holds
// the memory that leaks.
func (f *finding) sentence(loc *time.Location, who string, leaking int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Would have alerted at %s for %s", wall(f.alarm.t).In(loc).Format("2006-01-02 15:04 MST"), f.title())
	if who != "" {
		fmt.Fprintf(&b, " (%s)", who)
	}
	b.WriteString(", ")
	if f.filled && f.full >= f.alarm.t {
		fmt.Fprintf(&b, "%s before %d %% of the memory was in use and ", humanize.Duration(f.full-f.alarm.t), int(100*nearCapacity))
	}
	fmt.Fprintf(&b, "%s before the record ends at %s", humanize.Duration(f.last-f.alarm.t), f.amount(f.used))
	if worst := f.worst(); f.used < worst/2 {
		fmt.Fprintf(&b, ", after %s while it leaked", f.amount(worst))
	}
	if leaking > 1 {
		fmt.Fprintf(&b, "; %d series leak in all", leaking)
	}
	return b.String() + "."
}
