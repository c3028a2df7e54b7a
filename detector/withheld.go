// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "time"

// Withheld is the harmless reason for which growth is not called a leak yet.
type Withheld uint8

// The reasons.
const (
	WithheldNone         Withheld = iota
	WithheldMinSpan               // any growth must last for Config.MinSpan
	WithheldLoadRamp              // it is as fast as a ramp of load
	WithheldProgramLoad           // a program that loads: fast, from an idle memory on or faster than leaks are, without compute
	WithheldProgramBegin          // it began with its program, or before that was seen
	WithheldDailyLoad             // it is slow enough for a load that follows the time of day
	numWithheld
)

var withheldNames = [numWithheld]string{"", "min_span", "load_ramp", "program_load", "program_begin", "daily_load"}

// String returns the reason as the label value of the metric; "" for WithheldNone.
func (w Withheld) String() string {
	if w >= numWithheld {
		return ""
	}
	return withheldNames[w]
}

// withheld returns the reason that keeps the growth which is looked at longest from being a leak,
// for how long it must still last, and for how long it has lasted; WithheldNone where nothing is
// suspected.
func (s *series) withheld() (why Withheld, more, lasted time.Duration) {
	g := &s.growths[s.leak.best]
	if s.leak.on || s.leak.over || g.levels == 0 || g.recency <= 0 {
		return WithheldNone, 0, 0
	}
	span := s.watched(g.since, g.end)
	rate := float64(g.retained) / max(seconds(span), 1)
	if otherwise := g.confidence / (max(g.start, 1e-9) * max(s.lasting(rate, span), 1e-9)); otherwise < s.cfg.ClearThreshold {
		return WithheldNone, 0, 0 // chance, noise or give-backs speak against it, too
	}
	least, reason := s.least(rate)
	need := int64(least) - span
	if g.start < 1 {
		// The factor grows with the share of the wait that is over: startFactor.
		wait := float64(span) * (unsettledMost - unsettled) / max(g.start-unsettled, 1e-3)
		if more := int64(min(wait, float64(day))) - span; more > need {
			need, reason = more, s.excuse(g, span, rate)
		}
	}
	if need <= 0 {
		return WithheldNone, 0, 0
	}
	if loads := rate > loadRate || float64(g.base) <= idleLevel(s.capacity) && rate > idleLoadRate; loads && s.restedSince(g.since) {
		reason = WithheldProgramLoad
	}
	return reason, time.Duration(need), time.Duration(max(0, span))
}

// least returns for how long growth at that pace, in bytes per second, must last, ns, and why.
func (s *series) least(rate float64) (least float64, why Withheld) {
	least, why = float64(s.cfg.MinSpan), WithheldMinSpan
	if s.capacity > 0 && rate*seconds(rampFill) > s.capacity {
		least, why = least*rampTimes, WithheldLoadRamp
	}
	if rate > loadRate {
		least, why = least*2, WithheldLoadRamp
	}
	return least, why
}

// excuse returns why growth at that pace, in bytes per second, that has lasted for span, ns, has to
// last for longer than that.
func (s *series) excuse(g *growth, span int64, rate float64) Withheld {
	if span > slowSpan && s.capacity > 0 && s.left() > rate*seconds(slowAhead) {
		return WithheldDailyLoad
	}
	lead := max(settled, span/3)
	if g.since-max(s.began, s.first) < lead || float64(g.base) <= idleLevel(s.capacity) || s.idleAt > 0 && g.since-s.idleAt < lead {
		return WithheldProgramBegin
	}
	return WithheldDailyLoad
}

// restedSince reports whether it is known that the owner has not computed since that time, ns.
func (s *series) restedSince(since int64) bool { return s.workedAt == 0 && s.busyAt <= since }
