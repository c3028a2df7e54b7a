// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/workloads"
)

// held is how long after its begin an alarm must be on to have found a leak.
const held = 10 * time.Minute

// never is a time that did not come.
const never = time.Duration(-1)

// truth is what is true of a series, and all that the scoring knows of it.
type truth struct {
	leak                bool
	onset, half, oom    time.Duration // half and oom are 0 without an out-of-memory
	halfLost            float64       // the share of what leaks that has leaked by half; 0 for not known
	length              time.Duration
	straight, steadyBig bool
	fine                bool // sampled at 15 s or finer
	fromStart           bool // leaks from the begin of its program on
}

// bigRate is 50 MB a minute, in bytes per second.
const bigRate = 50e6 / 60

// finely is the longest interval that counts as fine.
const finely = 15 * time.Second

func truthOf(s *workloads.Series) truth {
	return truth{
		leak: s.Leak, onset: s.Onset, half: s.HalfLife(), oom: s.OOM, length: s.Length, straight: s.Straight,
		steadyBig: s.Steady && s.Rate >= bigRate, fine: s.Interval <= finely,
	}
}

// outcome is how a rule did on one series.
type outcome struct {
	truth
	// early says that an alarm began before the onset.
	early bool
	// found is when the alarm began that found the leak: one that begins after
	// the onset and is on 10 min later, or when memory ran out before that.
	found time.Duration
	// begun is when alarms began, false ones or not, and alarmed the time with one.
	begun   []time.Duration
	alarmed time.Duration
	// paged and ticketed are when pages and tickets began, and paging when the page began that is on
	// in the end, or was at the out-of-memory.
	paged, ticketed []time.Duration
	paging          time.Duration
	forecast        forecast
}

// first returns when the first alarm began.
func (o *outcome) first() time.Duration {
	if len(o.begun) == 0 {
		return never
	}
	return o.begun[0]
}

// forecast is what was foretold at the half-life.
type forecast struct {
	due     bool    // the series has an out-of-memory and lasts to the half-life
	error   float64 // |foretold - true| / true, 1 without a forecast
	covered bool    // the true time is between the bounds
	width   float64 // (upper - lower) / true, +Inf without a forecast
	told    float64 // (upper - lower) / foretold, as a reader sees it, 0 without a forecast
}

// scorer follows the verdicts of one rule on one series.
type scorer struct {
	out          outcome
	on, asked    bool
	last         time.Duration
	candidate    time.Duration // begin of an alarm that may have found the leak
	page, ticket alert
}

func newScorer(is truth) *scorer {
	s := &scorer{candidate: never, page: newAlert(pageFor), ticket: newAlert(ticketFor)}
	s.out = outcome{truth: is, found: never, paging: never}
	s.out.forecast = forecast{due: is.oom > 0 && is.half <= is.length, error: 1, width: math.Inf(1)}
	return s
}

// observe takes the verdict at t.
func (s *scorer) observe(t time.Duration, leak bool, eta, lower, upper float64) {
	if s.on {
		s.out.alarmed += t - s.last
	}
	s.last = t
	if leak && !s.on {
		s.begin(t)
	}
	s.on = leak
	s.alert(t, leak, eta)
	if s.candidate != never && t >= s.candidate+held {
		s.settle()
	}
	if s.out.forecast.due && !s.asked && t >= s.out.half {
		s.asked = true
		s.foretold((s.out.oom - t).Seconds(), eta, lower, upper)
	}
}

// begin notes that an alarm begins at t.
func (s *scorer) begin(t time.Duration) {
	s.out.begun = append(s.out.begun, t)
	switch {
	case s.out.leak && t < s.out.onset:
		s.out.early = true
	case s.out.leak && s.out.found == never && s.candidate == never:
		s.candidate = t
	}
}

// alert follows the alerts until the out-of-memory: after it nobody is told of it.
func (s *scorer) alert(t time.Duration, leak bool, eta float64) {
	if s.out.oom > 0 && t >= s.out.oom {
		return
	}
	if s.page.observe(t, pages(leak, eta)) {
		s.out.paged = append(s.out.paged, t)
	}
	if s.ticket.observe(t, leak) {
		s.out.ticketed = append(s.out.ticketed, t)
	}
	s.out.paging = s.page.on
}

// settle decides on the candidate.
func (s *scorer) settle() {
	if s.on {
		s.out.found = s.candidate
	}
	s.candidate = never
}

// foretold scores a forecast against the true seconds to out-of-memory.
func (s *scorer) foretold(is, eta, lower, upper float64) {
	f := &s.out.forecast
	if is <= 0 || math.IsNaN(eta) || math.IsInf(eta, 0) {
		return
	}
	f.error = math.Abs(eta-is) / is
	f.covered = lower <= is && is <= upper
	if w := (upper - lower) / is; w >= 0 {
		f.width, f.told = w, (upper-lower)/eta
	}
}

// end returns the outcome after the last sample.
func (s *scorer) end() outcome {
	if s.candidate != never {
		s.settle()
	}
	return s.out
}
