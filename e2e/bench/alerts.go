// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "time"

// The alerts of the mixin wait as package finding says.
const (
	// pageWithin is that of the page, GPUOutOfMemoryPredicted: memory is full within the hour.
	pageWithin = time.Hour
	// keepFor is for how long each outlives its condition.
	keepFor = 2 * time.Minute
)

// never is a time that did not come.
const never = time.Duration(-1)

// span is from when until when an alarm or an alert was on, the end excluded.
type span struct{ from, to time.Duration }

// spans returns when a condition held, of the times at which it was asked for. What holds last holds until after the end.
func spans(minutes []minute, on func(i int) bool) []span {
	var list []span
	for i, m := range minutes {
		next := m.t + time.Minute
		if i+1 < len(minutes) {
			next = minutes[i+1].t
		}
		switch n := len(list); {
		case !on(i):
		case n > 0 && list[n-1].to == m.t:
			list[n-1].to = next
		default:
			list = append(list, span{m.t, next})
		}
	}
	return list
}

// alerts returns when an alert was on whose condition held in the spans: it begins when the condition has held for so long, and
// outlives it.
func alerts(conditions []span, hold time.Duration) []span {
	var list []span
	for _, c := range conditions {
		// It is seen when the rules are asked, for the last time a minute before the end.
		n, from := len(list), c.from+hold
		switch {
		case n > 0 && c.from < list[n-1].to:
			// It is still on, and goes on with the first evaluation.
			list[n-1].to = c.to + keepFor
		case from < c.to:
			list = append(list, span{from, c.to + keepFor})
		}
	}
	return list
}
