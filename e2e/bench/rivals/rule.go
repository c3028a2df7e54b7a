// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package rivals holds the detection rules of other systems, built from their documents, so that they
// can be measured on the same series.
package rivals

import (
	"math"
	"time"
)

// Rule is a rule that says of one series of used memory whether it leaks.
type Rule interface {
	// Observe takes a sample: its time since the start, used memory and capacity
	// in bytes. Times grow.
	Observe(t time.Duration, used, capacity int64)
	// Verdict returns what the rule says after the last sample: whether there is
	// a leak, the seconds to out-of-memory from now and the bounds of their 90 %
	// interval. What a rule does not tell is NaN.
	Verdict() (leak bool, eta, lower, upper float64)
}

// none is what a rule returns for what it does not tell.
var none = math.NaN()
