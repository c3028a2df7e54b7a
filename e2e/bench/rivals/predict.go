// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package rivals

import "time"

const (
	predictWindow = time.Hour
	predictAhead  = 4 * time.Hour
)

// predictLinear is the usual alert of Prometheus,
//
//	predict_linear(used[1h], 4 * 3600) > capacity
//
// As in Prometheus, two samples are enough, and the window need not be full. The
// alert has no "for". Its forecast is when the line reaches the capacity, alarm
// or not.
type predictLinear struct {
	record   record
	capacity float64
}

// NewPredictLinear returns the rule with predict_linear.
func NewPredictLinear() Rule { return &predictLinear{record: record{age: predictWindow.Seconds()}} }

// Observe implements Rule.
func (p *predictLinear) Observe(t time.Duration, used, capacity int64) {
	p.capacity = float64(capacity)
	p.record.add(t, used)
}

// Verdict implements Rule.
func (p *predictLinear) Verdict() (leak bool, eta, lower, upper float64) {
	f, ok := fitOf(p.record.last())
	if !ok {
		return false, none, none, none
	}
	leak = f.end+f.slope*predictAhead.Seconds() > p.capacity
	return leak, until(p.capacity, f.end, f.slope), none, none
}
