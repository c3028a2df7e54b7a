// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// held is how long an alarm must be on to have found a leak, and how long after the end of a leak an alarm is still one on it. It
// is also the least growth of which a forecast is asked for.
const held = 10 * time.Minute

// quarter is the share of the headroom at the onset that may be gone when a leak is told in time.
const quarter = 0.25

// outcome is how one rule did on one scenario.
type outcome struct {
	leaks []leakOutcome // those that showed
	ooms  []oomOutcome  // those that a leak caused
	// alarmed says that there was an alarm, early one before any leak.
	alarmed, early bool
	// The begins of alarms, pages and tickets while nothing leaked, and the hours without a leak.
	episodes, pages, tickets int
	free                     float64
	// alarmedHours of memoryHours were in alarm, summed over the memories of the GPU.
	alarmedHours, memoryHours float64
	// Processes that never compute again, and memory that stayed after one.
	zombies, unreleased matched
}

// matched is how many there were of what is held for nobody, how many of them were named, and how many others.
type matched struct{ all, named, wrong int }

// match compares what is held with when the rule first said so.
func (w *watched) match(held []fleet.Held, rule int, in func(a *answer) []gpu.ProcessID) matched {
	first := map[gpu.ProcessID]time.Duration{}
	for _, r := range w.records {
		for i := range r.said[rule] {
			for _, id := range in(&r.said[rule][i]) {
				first[id] = cmp.Or(first[id], r.minutes[i].t)
			}
		}
	}
	m := matched{all: len(held), wrong: len(first)}
	for _, h := range held {
		if t, ok := first[h.ID]; ok && t >= h.From {
			m.named++
			m.wrong--
		}
	}
	return m
}

// The forecasts that are judged: at the first alarm, and at the half-life.
const (
	atFirst = iota
	atHalf
)

// leakOutcome is how a rule did on one leak.
type leakOutcome struct {
	index int
	found time.Duration // when the alarm began that found it, or never
	delay time.Duration // from the onset until then
	// inTime says that it was told before a quarter of the headroom was gone; rated that it can be said.
	inTime, rated bool
	// named says that the right culprit was named; listed that there was a list of processes to name it from. Who is said that
	// the rule named somebody.
	named, listed, who bool
	forecasts          [2]forecast // at the alarm that found it, and at the half-life
}

// oomOutcome is one out-of-memory that a leak caused.
type oomOutcome struct {
	leak        int
	lead, alarm time.Duration // from the page until then, and from the alarm; never without one
}

// forecast is what was foretold of an out-of-memory.
type forecast struct {
	due     bool    // there was something to foretell
	told    bool    // there was a forecast
	error   float64 // |foretold - true| / true
	covered bool    // the true time is between the bounds
	width   float64 // (upper - lower) / true, +Inf without an interval
}

// scores returns how each rule did.
func (w *watched) scores() (list []outcome) {
	for len(w.records) > 0 && len(list) < len(w.records[0].said) {
		list = append(list, score(w, len(list)))
	}
	return list
}

// score returns how a rule did.
func score(w *watched, rule int) outcome {
	o := outcome{
		free:       freeHours(w),
		zombies:    w.match(w.truth.Zombies, rule, func(a *answer) []gpu.ProcessID { return a.zombies }),
		unreleased: w.match(w.truth.Unreleased, rule, func(a *answer) []gpu.ProcessID { return a.unreleased }),
	}
	ooms := distinct(w.truth.OOMs)
	for _, r := range w.records {
		s := newScorer(w, r, rule, ooms)
		s.count(&o)
		for i := range w.truth.Leaks {
			if l := &w.truth.Leaks[i]; l.Instance == r.instance && l.Visible {
				o.leaks = append(o.leaks, s.leak(i, l))
			}
		}
		for i := range ooms {
			if oom := &ooms[i]; oom.Instance == r.instance {
				o.ooms = append(o.ooms, s.outOfMemory(oom))
			}
		}
	}
	return o
}

// distinct returns the out-of-memories that leaks caused. Who catches the error, or is started into a full memory, fails again
// and again: of one growth the first counts.
func distinct(all []fleet.OOM) []fleet.OOM {
	return slices.DeleteFunc(slices.Clone(all), func(o fleet.OOM) bool { return o.Leak < 0 || o.Again })
}

// freeHours returns for how long nothing leaked in any memory.
func freeHours(w *watched) float64 {
	var busy []span
	for i := range w.truth.Leaks {
		l := &w.truth.Leaks[i]
		busy = append(busy, span{l.From, l.Until + held})
	}
	slices.SortFunc(busy, func(a, b span) int { return int(a.from - b.from) })
	end := w.truth.Start + w.length
	free, at := time.Duration(0), w.truth.Start
	for _, b := range busy {
		free += max(min(b.from, end)-at, 0)
		at = max(at, b.to)
	}
	return (free + max(end-at, 0)).Hours()
}

// scorer scores one rule on one memory.
type scorer struct {
	w                      *watched
	r                      *record
	said                   []answer
	ooms                   []fleet.OOM
	alarms, pages, tickets []span
}

func newScorer(w *watched, r *record, rule int, ooms []fleet.OOM) *scorer {
	said := r.said[rule]
	page, ticket := finding.PageWait, finding.LeakWait
	if len(said) > 0 && said[0].waited {
		page, ticket = 0, 0
	}
	return &scorer{
		w: w, r: r, said: said, ooms: ooms,
		alarms:  spans(r.minutes, func(i int) bool { return said[i].leak }),
		pages:   alerts(spans(r.minutes, func(i int) bool { return said[i].page }), page),
		tickets: alerts(spans(r.minutes, func(i int) bool { return said[i].ticket }), ticket),
	}
}

// count adds the alarms and alerts that began while nothing leaked.
func (s *scorer) count(o *outcome) {
	for _, a := range s.alarms {
		o.alarmed = true
		o.early = o.early || !slices.ContainsFunc(s.w.truth.Leaks, func(l fleet.LeakTruth) bool { return l.From <= a.from })
		o.alarmedHours += (a.to - a.from).Hours()
	}
	o.memoryHours += s.w.length.Hours()
	o.episodes += s.wrong(s.alarms)
	for _, p := range s.pages {
		count(&o.pages, !s.leaking(p.from) && !s.fails(p))
	}
	o.tickets += s.wrong(s.tickets)
}

// fails reports whether memory runs out while a page is on, and as soon as it says, leak or not: then the page is right.
func (s *scorer) fails(p span) bool {
	return slices.ContainsFunc(s.w.truth.OOMs, func(o fleet.OOM) bool {
		return o.Instance == s.r.instance && !o.Own && p.from <= o.T && o.T <= min(p.to, p.from+pageWithin)
	})
}

func (s *scorer) wrong(list []span) int {
	n := 0
	for _, a := range list {
		count(&n, !s.leaking(a.from))
	}
	return n
}

// leaking reports whether something leaks in this memory at t, or did until a moment before.
func (s *scorer) leaking(t time.Duration) bool {
	return slices.ContainsFunc(s.w.truth.Leaks, func(l fleet.LeakTruth) bool {
		return l.Instance == s.r.instance && l.From <= t && t <= l.Until+held
	})
}

// leak scores one leak. An alarm must last for ten minutes, or until memory runs out or the leak ends. The forecasts are asked for
// of a growth that ends in an out-of-memory, and not at a limit of the program that nobody else knows: in the middle of the first
// one that is long enough, and at the first alarm.
func (s *scorer) leak(index int, l *fleet.LeakTruth) leakOutcome {
	o := leakOutcome{index: index, found: never, listed: s.w.listed}
	ooms := slices.DeleteFunc(slices.Clone(s.ooms), func(o fleet.OOM) bool { return o.Leak != index })
	if i := slices.IndexFunc(ooms, func(o fleet.OOM) bool { return o.Growth >= held && !o.Own }); i >= 0 {
		o.forecasts[atHalf] = newForecast(s.at(ooms[i].T-ooms[i].Growth/2), ooms[i].Growth/2)
	}
	told := s.quarterGone(l)
	o.rated = told != never
	for _, a := range s.alarms {
		begin := max(a.from, l.From)
		until := min(begin+held, l.Until)
		next := slices.IndexFunc(ooms, func(o fleet.OOM) bool { return o.T >= begin })
		if next >= 0 {
			until = min(until, ooms[next].T)
		}
		if !s.leaking(a.from) || begin > l.Until || a.to <= begin || a.to < until {
			continue
		}
		o.found, o.delay = begin, begin-l.From
		o.inTime = o.rated && begin <= told
		who := s.at(until).who
		o.who, o.named = who.ok, right(who, l)
		if next >= 0 && ooms[next].T > begin && ooms[next].T-ooms[next].Growth <= begin && !ooms[next].Own {
			o.forecasts[atFirst] = newForecast(s.at(begin), ooms[next].T-begin)
		}
		break
	}
	return o
}

// until returns the last minute until t, -1 before the first one.
func (s *scorer) until(t time.Duration) int {
	i, ok := slices.BinarySearchFunc(s.r.minutes, t, func(m minute, t time.Duration) int { return int(m.t - t) })
	if !ok {
		i--
	}
	return i
}

// at returns the last answer until t.
func (s *scorer) at(t time.Duration) answer {
	if i := s.until(t); i >= 0 {
		return s.said[i]
	}
	return untold()
}

// right reports whether it is who leaks.
func right(who named, l *fleet.LeakTruth) bool {
	switch {
	case !who.ok:
		return false
	case who.group != "":
		return who.group == l.Group
	case who.id != gpu.ProcessID{}:
		return slices.Contains(l.Processes, who.id)
	}
	return len(l.Processes) == 0
}

// quarterGone returns when a leak of this rate has taken a quarter of what was free at the onset.
func (s *scorer) quarterGone(l *fleet.LeakTruth) time.Duration {
	if len(s.r.minutes) == 0 {
		return never
	}
	at := s.r.minutes[max(s.until(l.From), 0)]
	free := at.capacity - at.used
	if at.capacity == 0 || free <= 0 || l.Rate <= 0 {
		return never
	}
	return l.From + time.Duration(min(quarter*free/l.Rate, 1e9)*float64(time.Second))
}

// newForecast scores an answer by the true time that was left.
func newForecast(a answer, left time.Duration) forecast {
	is := left.Seconds()
	f := forecast{due: true, width: math.Inf(1)}
	if math.IsNaN(a.eta) || math.IsInf(a.eta, 0) {
		return f
	}
	f.told, f.error = true, math.Abs(a.eta-is)/is
	f.covered = a.lower <= is && is <= a.upper
	if w := (a.upper - a.lower) / is; w >= 0 {
		f.width = w
	}
	return f
}

// outOfMemory returns for how long a page had been on. One that began before the leak is none.
func (s *scorer) outOfMemory(oom *fleet.OOM) oomOutcome {
	l := &s.w.truth.Leaks[oom.Leak]
	o := oomOutcome{leak: oom.Leak, lead: never, alarm: never}
	from := l.From
	for i := range s.w.truth.Leaks { // the lives of a program before this one
		if e := &s.w.truth.Leaks[i]; e.Instance == l.Instance && e.Program == l.Program && e.Group == l.Group {
			from = min(from, e.From)
		}
	}
	for _, p := range s.pages {
		if p.from >= from && p.from <= oom.T && oom.T <= p.to {
			o.lead = oom.T - p.from
		}
	}
	for _, a := range s.alarms {
		if a.from <= oom.T && oom.T <= a.to {
			o.alarm = oom.T - a.from
		}
	}
	return o
}

func count(n *int, yes bool) {
	if yes {
		*n++
	}
}
