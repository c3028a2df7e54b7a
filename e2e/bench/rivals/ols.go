// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package rivals

import "time"

const (
	olsWindow = 15 * time.Minute
	olsR2     = 0.8
)

// ols is what monitoring guides advise where they advise a regression: the least-squares line of the
// last 15 minutes rises, with R² of at least 0.8. The window must be full. Its forecast is when the
// line reaches the capacity.
type ols struct {
	record   record
	capacity float64
	first    time.Duration
	last     time.Duration
	begun    bool
}

// NewOLS returns the rule with the least-squares line of 15 minutes.
func NewOLS() Rule { return &ols{record: record{age: olsWindow.Seconds()}} }

// Observe implements Rule.
func (o *ols) Observe(t time.Duration, used, capacity int64) {
	if !o.begun {
		o.begun, o.first = true, t
	}
	o.last, o.capacity = t, float64(capacity)
	o.record.add(t, used)
}

// Verdict implements Rule.
func (o *ols) Verdict() (leak bool, eta, lower, upper float64) {
	f, ok := fitOf(o.record.last())
	if !ok || o.last-o.first < olsWindow || !(f.slope > 0) || f.r*f.r < olsR2 {
		return false, none, none, none
	}
	return true, until(o.capacity, f.end, f.slope), none, none
}
