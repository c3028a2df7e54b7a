// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/history"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// nearCapacity is the share of its capacity from which on a memory counts as full:
// an allocation of some size fails before the last byte is taken.
const nearCapacity = 0.95

// level is the most that came of a series.
type level uint8

const (
	levelNone    level = iota
	levelVerdict       // it was called a leak, and nobody was told
	levelTicket
	levelPage
)

// String names the level as --fail-on does.
func (l level) String() string { return [...]string{"none", "verdict", "ticket", "page"}[l] }

// result is what a backtest has found out about a series.
type result struct {
	*series
	name           string // in words
	alarms         []plot.Span
	pages, tickets []plot.Span
	level          level
	at             time.Duration // of the first page or ticket, or the last verdict: what level tells
	alarm          *step         // the first verdict of the leak that led to it; nil without a leak
	cleared        time.Duration // how long that leak lasted; 0 where it did until the end
	full           time.Duration // when the memory was first near its capacity since the leak began, if filled
	filled         bool
}

// resultsOf returns what was found out about each series.
func resultsOf(list []*series) []result {
	names := namesOf(list)
	results := make([]result, len(list))
	for i, x := range list {
		results[i] = resultOf(x, names[i])
	}
	return results
}

func resultOf(x *series, name string) result {
	f := result{series: x, name: name, alarms: spans(x.steps, 0, func(s *step) bool { return s.leak })}
	f.pages = spans(x.steps, alertLasts, func(s *step) bool { return s.paged })
	f.tickets = spans(x.steps, alertLasts, func(s *step) bool { return s.ticketed })
	switch {
	case len(f.pages) > 0:
		f.level, f.at = levelPage, f.pages[0].From
	case len(f.tickets) > 0:
		f.level, f.at = levelTicket, f.tickets[0].From
	case len(f.alarms) > 0:
		f.level, f.at = levelVerdict, f.alarms[len(f.alarms)-1].From
	default:
		return f
	}
	since := f.at
	for _, a := range f.alarms {
		if f.alarm != nil && a.From > f.at {
			break
		}
		i := slices.IndexFunc(f.steps, func(s step) bool { return s.t == a.From && !s.blind })
		f.alarm, f.cleared, since = &f.steps[i], 0, f.steps[i].since
		if !a.Open {
			f.cleared = a.To - a.From
		}
	}
	// What filled it before was another job, or a peak that was given back: it tells nothing of how early the alert came.
	if i := slices.IndexFunc(f.steps, func(s step) bool { return s.near && s.nearAt >= since }); i >= 0 {
		f.full, f.filled = f.steps[i].nearAt, true
	}
	return f
}

// spans returns when a condition held. A reading that failed ends none, and one that begins again within lasts goes on.
func spans(steps []step, lasts time.Duration, holds func(*step) bool) (list []plot.Span) {
	for i := range steps {
		s, n := &steps[i], len(list)
		switch {
		case s.blind:
		case holds(s):
			if n == 0 || !list[n-1].Open && s.t > list[n-1].To {
				list = append(list, plot.Span{From: s.t})
				n++
			}
			list[n-1].To, list[n-1].Open = s.t, true
		case n > 0 && list[n-1].Open && lasts > 0:
			list[n-1].To += lasts
			list[n-1].Open = false
		case n > 0 && list[n-1].Open:
			list[n-1].To, list[n-1].Open = s.t, false
		}
	}
	return list
}

// firing reports whether one of them is on at time t.
func firing(list []plot.Span, t time.Duration) bool {
	return slices.ContainsFunc(list, func(s plot.Span) bool { return s.From <= t && (t <= s.To || s.Open) })
}

// compare orders results: pages, tickets, verdicts, nothing; the earlier one of each first.
func compare(a, b result) int { return cmp.Or(cmp.Compare(b.level, a.level), cmp.Compare(a.at, b.at)) }

// judged reports whether there was any verdict.
func (f *result) judged() bool {
	return slices.ContainsFunc(f.steps, func(s step) bool { return s.judged })
}

// final is the last step at which something was said, the zero step if nothing ever was.
func (f *result) final() (last step) {
	for i := range f.steps {
		if !f.steps[i].blind {
			last = f.steps[i]
		}
	}
	return last
}

// suspected reports whether growth is suspected at the end.
func (f *result) suspected() bool { return f.final().withheld != detector.WithheldNone }

// title is its name, and the file that it is from if there are several.
func (f *result) title() string {
	if f.from != "" {
		return f.from + ": " + f.name
	}
	return f.name
}

// span is the time from the first sample to the last.
func (f *result) span() time.Duration { return f.last - f.first }

// unknown reports whether it is a memory of which no value is known.
func (f *result) unknown() bool { return f.samples == 0 && f.kind == kindMemory && !f.sliced }

// peakText writes the highest sample.
func (f *result) peakText() string {
	switch {
	case f.samples == 0:
		return "-"
	case !f.capacity.OK || f.capacity.V <= 0:
		return humanize.Bytes(f.peak)
	}
	return humanize.Bytes(f.peak) + " (" + finding.Percent(f.peak/f.capacity.V) + ")"
}

// verdict writes what the detector said at worst, or what it suspects at the end. The confidence is rounded down: one
// below the threshold never looks like it.
func (f *result) verdict(loc *time.Location) string {
	last := f.final()
	switch {
	case f.sliced:
		return "its slices are judged"
	case f.alarm != nil && f.cleared > 0:
		return "leak at " + moment(f.alarm.t, loc) + ", cleared after " + humanize.Duration(f.cleared)
	case f.alarm != nil:
		return "leak at " + moment(f.alarm.t, loc)
	case last.muted:
		return finding.Muted
	case f.unknown():
		return "not judged: no value of its memory"
	case !f.judged():
		return "not judged"
	case f.suspected():
		sure := math.Floor(100*last.confidence+1e-9) / 100
		return fmt.Sprintf("%s: it %s (confidence %.2f)", finding.NoLeakYet, finding.Withheld(last.withheld, last.withheldFor), sure)
	}
	return finding.NoLeak
}

// pattern is the one at the alarm, or the last one.
func (f *result) pattern() string {
	if f.alarm != nil {
		return f.alarm.pattern.String()
	}
	return f.final().pattern.String()
}

// growth is the rate that was told at the alarm.
func (f *result) growth() string {
	if f.alarm == nil || !f.alarm.rate.OK {
		return ""
	}
	return humanize.Rate(f.alarm.rate.V)
}

// retained is what had leaked in the end, or before the last alarm was taken back.
func (f *result) retained() (text string) {
	for i := range f.steps {
		if s := &f.steps[i]; s.leak && s.leaked.OK {
			text = humanize.Bytes(s.leaked.V)
		}
	}
	return text
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
	if f.level == levelPage && len(f.tickets) > 0 && f.tickets[0].From < f.at {
		text += "; ticket at " + moment(f.tickets[0].From, loc)
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
	return humanize.Duration(max(f.last-f.at, 0)) + " before the record ends"
}

// moment writes a time to the minute, and its zone.
func moment(t time.Duration, loc *time.Location) string {
	return history.Wall(t).In(loc).Format("2006-01-02 15:04 MST")
}

// headline answers whether somebody would have been paged or got a ticket, and how early. At the same time the whole
// memory comes before a process on it: it is first in the list.
func headline(list []result, loc *time.Location) (text string) {
	first := slices.MinFunc(list, compare)
	who := first.title()
	if name := culprit(list, &first); name != "" {
		who += " (" + name + ")"
	}
	switch first.level {
	case levelNone:
		return quiet(list)
	case levelVerdict:
		text = "Would not have paged or ticketed: " + who + " was called a leak at " + moment(first.at, loc) + ", "
		if first.cleared > 0 {
			text += "for " + humanize.Duration(first.cleared)
		} else {
			text += first.early()
		}
	default:
		done := [...]string{levelTicket: "ticketed", levelPage: "paged"}[first.level]
		text = "Would have " + done + " at " + moment(first.at, loc) + " for " + who + ", " + first.early()
	}
	if n := number(list, func(f *result) bool { return f.level > levelNone }); n > 1 {
		text += fmt.Sprintf("; %d series leak in all", n)
	}
	text += "."
	if first.level == levelTicket && !first.capacity.OK {
		text += " Without its capacity there is no forecast and no page: give --capacity."
	}
	return text
}

func number(list []result, is func(*result) bool) (n int) {
	for i := range list {
		if is(&list[i]) {
			n++
		}
	}
	return n
}

// quiet is the headline where nothing leaks.
func quiet(list []result) string {
	var longest time.Duration
	for i := range list {
		longest = max(longest, list[i].span())
	}
	judged := number(list, (*result).judged)
	if judged == 0 {
		return "Nothing was judged: all series are muted or too short, the longest of " + humanize.Duration(longest) + "."
	}
	text := fmt.Sprintf("Would not have alerted: no leak in %d series, the longest of %s", judged, humanize.Duration(longest))
	if n := number(list, func(f *result) bool { return !f.judged() && !f.sliced }); n > 0 {
		text += "; not judged: " + strconv.Itoa(n)
	}
	if n := number(list, (*result).suspected); n > 0 {
		text += "; suspected at the end: " + strconv.Itoa(n)
	}
	return text + "."
}

// culprit names who leaks on the memory that a result is about: the first process
// for which there is an alarm. "" if that is not known.
func culprit(list []result, on *result) string {
	var first *result
	for i := range list {
		f := &list[i]
		same := f.from == on.from && f.labels["uuid"] == on.labels["uuid"] && f.labels["gpu_instance"] == on.labels["gpu_instance"]
		if on.kind == kindMemory && f.kind == kindProcess && f.alarm != nil && same && (first == nil || f.alarm.t < first.alarm.t) {
			first = f
		}
	}
	if first == nil {
		return ""
	}
	return first.whose()
}
