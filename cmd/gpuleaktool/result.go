// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// nearCapacity is the share of its capacity from which on a memory counts as full:
// an allocation of some size fails before the last byte is taken.
const nearCapacity = 0.95

// result is what a backtest has found out about a series.
type result struct {
	*series
	name   string // in words
	alarms []plot.Span
	// alarm is the verdict that led to the first page or else ticket; where nobody was told of a
	// leak, that of the alarm that lasted longest. Nil without a leak, chosen is its place in alarms.
	alarm  *step
	chosen int
	alerts alerts
	level  level
	at     time.Duration // of the page, the ticket or the verdict that level tells
	full   time.Duration // when the leak first brought it near its capacity, if filled
	filled bool

	suspected suspicion
}

// resultsOf returns what was found out about each series.
func resultsOf(list []*series) []result {
	names := namesOf(list)
	results := make([]result, len(list))
	for i, x := range list {
		results[i] = resultOf(x, names[i])
	}
	for i := range results {
		results[i].alerts = alertsOf(&results[i])
		results[i].rank()
	}
	return results
}

// rank finds out the most that came of the series, when, and because of which verdict.
func (f *result) rank() {
	f.level = f.alerts.level()
	switch {
	case f.level == levelPage:
		f.at = f.alerts.pages[0].From
	case f.level == levelTicket:
		f.at = f.alerts.tickets[0].From
	case len(f.alarms) > 0:
		f.level = levelVerdict
	default:
		return
	}
	f.chosen = -1
	for i, a := range f.alarms {
		longest := f.chosen < 0 || a.To-a.From > f.alarms[f.chosen].To-f.alarms[f.chosen].From
		if f.level == levelVerdict && longest || f.level > levelVerdict && a.From <= f.at && f.at <= a.To+scrapeGap {
			f.chosen = i
		}
	}
	if f.chosen >= 0 {
		f.alarm = f.stepAt(f.alarms[f.chosen].From)
	} else if len(f.alarms) > 0 { // the memory fills up, and not by what is called a leak
		f.chosen, f.alarm = 0, f.stepAt(f.alarms[0].From)
	}
	if f.level == levelVerdict {
		f.at = f.alarm.t
	}
	f.fill()
}

// stepAt returns the step at time t, at which there is one.
func (f *result) stepAt(t time.Duration) *step {
	i := slices.IndexFunc(f.steps, func(s step) bool { return s.t == t && !s.blind })
	return &f.steps[i]
}

func resultOf(x *series, name string) result {
	f := result{series: x, name: name}
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
		case s.leak:
			f.alarms[len(f.alarms)-1].To = s.t
		case open:
			last := &f.alarms[len(f.alarms)-1]
			last.To, last.Open = s.t, false
		}
	}
	return f
}

// fill finds out when the memory was first near its capacity since the leak began that somebody was
// told of. What filled it before was another job, or a peak that was given back, and tells
// nothing of how early that came.
func (f *result) fill() {
	since := f.at
	if f.alarm != nil {
		since = f.alarm.since
	}
	for i := range f.steps {
		if s := &f.steps[i]; s.near && s.nearAt >= since {
			f.full, f.filled = s.nearAt, true
			return
		}
	}
}

// judged reports whether there was any verdict.
func (f *result) judged() bool {
	return slices.ContainsFunc(f.steps, func(s step) bool { return s.judged })
}

// muted reports whether it was not to be judged.
func (f *result) muted() bool {
	s := f.final()
	return s != nil && s.muted
}

// final is the last step at which something was said, nil if nothing ever was.
func (f *result) final() *step {
	for i := len(f.steps) - 1; i >= 0; i-- {
		if s := &f.steps[i]; !s.blind {
			return s
		}
	}
	return nil
}

// title is its name, and the file that it is from if there are several.
func (f *result) title() string {
	if f.from != "" {
		return f.from + ": " + f.name
	}
	return f.name
}

// span is the time from the first sample to the last.
func (f *result) span() time.Duration { return f.last - f.first }

// share writes v as a part of the capacity, "" where that is not known.
func (f *result) share(v float64) string {
	if !f.capacity.OK || f.capacity.V <= 0 {
		return ""
	}
	return finding.Percent(v / f.capacity.V)
}

// unknown reports whether it is a memory of which no value is known.
func (f *result) unknown() bool { return f.samples == 0 && f.kind == kindMemory && !f.sliced }

// peakText writes the highest sample.
func (f *result) peakText() string {
	if f.samples == 0 {
		return "-"
	}
	text := humanize.Bytes(f.peak)
	if share := f.share(f.peak); share != "" {
		text += " (" + share + ")"
	}
	return text
}

// verdict writes what the detector said at worst.
func (f *result) verdict(loc *time.Location) string {
	switch {
	case f.sliced:
		return "its slices are judged"
	case f.alarm == nil && f.muted():
		return finding.Muted
	case f.unknown():
		return "not judged: no value of its memory"
	case f.alarm == nil && !f.judged():
		return "not judged"
	case f.alarm == nil && f.suspected.open():
		return finding.NoLeakYet
	case f.alarm == nil:
		return finding.NoLeak
	}
	text := "leak at " + moment(f.alarm.t, loc)
	if a := f.alarms[f.chosen]; !a.Open {
		text += ", cleared after " + humanize.Duration(a.To-a.From)
	}
	if n := len(f.alarms) - 1; n > 0 {
		text += fmt.Sprintf(", and %d more", n)
	}
	return text
}

// pattern is the one at the alarm, or the last one.
func (f *result) pattern() string {
	s := f.alarm
	if s == nil {
		s = f.final()
	}
	if s == nil {
		return ""
	}
	return s.pattern.String()
}

// growth is the rate that was told at the alarm.
func (f *result) growth() string {
	if f.alarm == nil || !f.alarm.rate.OK {
		return ""
	}
	return humanize.Rate(f.alarm.rate.V)
}

// retained is what had leaked in the end, or before the last alarm was taken back.
func (f *result) retained() string {
	for i := len(f.steps) - 1; i >= 0; i-- {
		if s := &f.steps[i]; s.leak && s.leaked.OK {
			return humanize.Bytes(s.leaked.V)
		}
	}
	return ""
}

// forecast is the time to out-of-memory that was told at the alarm, and its 90 %
// interval.
func (f *result) forecast() string {
	if f.alarm == nil {
		return ""
	}
	return finding.Left(&detector.Verdict{SecondsToOOM: f.alarm.seconds, Lower: f.alarm.lower, Upper: f.alarm.upper})
}

// told writes whom the rules of the mixin would have told, and how early; "" without a leak.
func (f *result) told(loc *time.Location) string {
	switch f.level {
	case levelNone:
		return ""
	case levelVerdict:
		return "none"
	}
	text := f.level.String() + " at " + moment(f.at, loc) + ", " + f.early()
	if t := f.alerts.tickets; f.level == levelPage && len(t) > 0 && t[0].From < f.at {
		text += "; ticket at " + moment(t[0].From, loc)
	}
	return text
}

// early says how long that came before the memory was as good as full, or before the end of the
// record.
func (f *result) early() string {
	switch {
	case f.filled && f.full >= f.at:
		return humanize.Duration(f.full-f.at) + " before 95 % was in use"
	case f.filled:
		return humanize.Duration(f.at-f.full) + " after 95 % was in use"
	}
	return humanize.Duration(max(f.last-f.at, 0)) + " before the end"
}

// moment writes a time to the minute, and its zone where the clock is set back, so that the hour comes twice.
func moment(t time.Duration, loc *time.Location) string {
	const form = "2006-01-02 15:04"
	at := wall(t).In(loc)
	for _, apart := range []time.Duration{-time.Hour, time.Hour} {
		if at.Add(apart).Format(form) == at.Format(form) {
			return at.Format(form + " MST")
		}
	}
	return at.Format(form)
}

// headline answers whether somebody would have been paged or got a ticket, and how early.
func headline(list []result, loc *time.Location) string {
	var first *result
	leaking := 0
	for i := range list {
		f := &list[i]
		if f.level == levelNone {
			continue
		}
		leaking++
		// At the same time, the whole memory comes before who holds it: it is first
		// in the list.
		if first == nil || first.after(f) {
			first = f
		}
	}
	switch {
	case first == nil:
		return quiet(list)
	case first.level == levelVerdict:
		return first.untold(loc, culprit(list, first), leaking)
	}
	return first.sentence(loc, culprit(list, first), leaking)
}

// after reports whether a result comes after another one: after a higher level, or after an earlier one
// of the same level.
func (f *result) after(other *result) bool {
	if f.level != other.level {
		return f.level < other.level
	}
	return f.at > other.at
}

// quiet is the headline where nothing leaks.
func quiet(list []result) string {
	var longest time.Duration
	judged, muted, unknown := 0, 0, 0
	for i := range list {
		f := &list[i]
		longest = max(longest, f.span())
		switch {
		case f.judged():
			judged++
		case f.muted():
			muted++
		case f.unknown():
			unknown++
		}
	}
	switch {
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
	if unknown > 0 {
		text += "; " + strconv.Itoa(unknown) + " without any value of its memory"
	}
	if short := len(list) - judged - muted - unknown - sliced(list); short > 0 {
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
func sliced(list []result) (n int) {
	for i := range list {
		if list[i].sliced {
			n++
		}
	}
	return n
}

// culprit names who leaks on the memory that a result is about: the first process
// for which there is an alarm, if there is one. "" if that is not known.
func culprit(list []result, on *result) string {
	if on.kind != kindMemory {
		return ""
	}
	var first *result
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

// amount writes used memory, as a share of that if it is one of its own.
func (f *result) amount(used float64) string {
	if share := f.share(used); share != "" && f.kind == kindMemory {
		return share + " of the memory"
	}
	return humanize.Bytes(used)
}

// untold is the headline about a leak that nobody would have been told of: it did not last until a
// ticket, or the record ends before.
func (f *result) untold(loc *time.Location, who string, leaking int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Would not have paged or ticketed: %s was called a leak at %s", f.subject(who), clockTime(f.at, loc))
	if a := f.alarms[f.chosen]; a.Open {
		fmt.Fprintf(&b, ", %s before the record ends", humanize.Duration(f.last-f.at))
	} else {
		fmt.Fprintf(&b, ", for %s", humanize.Duration(a.To-a.From))
	}
	fmt.Fprintf(&b, ", and a ticket waits for %s", humanize.Duration(finding.LeakWait))
	return b.String() + inAll(leaking)
}

// subject names the series, and who holds the memory that leaks.
func (f *result) subject(who string) string {
	if who == "" {
		return f.title()
	}
	return f.title() + " (" + who + ")"
}

// clockTime writes a time to the minute, and its zone.
func clockTime(t time.Duration, loc *time.Location) string {
	return wall(t).In(loc).Format("2006-01-02 15:04 MST")
}

// inAll ends the sentence about one of so many series that leak.
func inAll(leaking int) string {
	if leaking > 1 {
		return fmt.Sprintf("; %d series leak in all.", leaking)
	}
	return "."
}

// sentence is the headline about the first of so many series that somebody would have been told
// of, and who holds the memory that leaks.
func (f *result) sentence(loc *time.Location, who string, leaking int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Would have %s at %s for %s, ", f.level.done(), clockTime(f.at, loc), f.subject(who))
	if f.filled && f.full >= f.at {
		fmt.Fprintf(&b, "%s before %d %% of the memory was in use and ", humanize.Duration(f.full-f.at), int(100*nearCapacity))
	}
	fmt.Fprintf(&b, "%s before the record ends at %s", humanize.Duration(max(f.last-f.at, 0)), f.amount(f.used))
	text := b.String() + inAll(leaking)
	if f.level == levelTicket && !f.capacity.OK {
		text += " Without its capacity there is no forecast and no page: give --capacity."
	}
	return text
}
