// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package stat holds the plain statistics of memory over time: sliding windows, spikes,
// crests and fitted lines. It knows nothing of leaks. Exported fields are those of a state file.
package stat

import (
	"math"
	"slices"
	"time"
)

// Value is a number that may be absent, which is neither zero nor NaN. The zero Value is absent.
type Value struct {
	V  float64
	OK bool
}

// Of returns the present Value v.
func Of(v float64) Value { return Value{V: v, OK: true} }

// Finite returns the number, and nil where it is absent, infinite or NaN, which JSON cannot write.
func (v Value) Finite() *float64 {
	if !v.OK || math.IsNaN(v.V) || math.IsInf(v.V, 0) {
		return nil
	}
	return &v.V
}

// Fit is the plain statistics of one window.
type Fit struct {
	// Span is the length of the window; 0 for one that is not there.
	Span time.Duration
	// Slope is the least-squares slope of used memory over time in bytes per
	// second, and R2 its coefficient of determination (0 for a constant series).
	Slope, R2 Value
	// Spikes is the number of spikes that ended inside the window.
	Spikes Value
	// Fill is the share (0 to 1) of the window that holds samples.
	Fill float64
	// N is the number of samples in the window.
	N int64
}

// Bytes is an amount of memory.
type Bytes int64

// MaxBytes is the largest amount of memory that is taken for a measurement: 256 TiB. Drivers mark
// "not available" with numbers near 2^64. A float64 holds every whole number of bytes up to 2^53.
const MaxBytes = 1 << 48

// Name returns the name of the value e of an enumeration; "" if it has none.
func Name[E ~uint8](names []string, e E) string {
	if int(e) >= len(names) {
		return ""
	}
	return names[e]
}

// Clamp returns x within 0 to 1, and 0 for NaN.
func Clamp(x float64) float64 {
	switch {
	case x > 1:
		return 1
	case x > 0:
		return x
	}
	return 0
}

// Median returns the middle one of at least one value, the mean of two; it sorts them.
func Median(v []float64) float64 {
	slices.Sort(v)
	return (v[len(v)/2] + v[(len(v)-1)/2]) / 2
}
