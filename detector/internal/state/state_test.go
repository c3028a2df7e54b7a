// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"math"
	"testing"
	"time"
)

// inner has a bound of its own.
type inner struct {
	N int
	F float64
}

func (x *inner) Check(last time.Duration) bool { return x.N < 1000 && time.Duration(x.N) <= last }

// outer has a field of each kind that is looked into.
type outer struct {
	F64    float64
	T      time.Duration
	N      int64
	Inner  inner
	Array  [3]inner
	Slice  []inner
	There  *inner
	hidden inner
}

func TestPossible(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		name string
		v    any
		ok   bool
	}{
		{"zero", &outer{}, true},
		{"some", &outer{F64: most, T: hour, N: -mostBytes, Array: [3]inner{{1, 2}}, Slice: []inner{{3, 4}}, There: &inner{5, 6}}, true},
		{"no number", &outer{F64: math.NaN()}, false},
		{"infinite", &outer{F64: math.Inf(-1)}, false},
		{"as late as can be", &outer{T: hour + ahead}, true},
		{"too late", &outer{T: hour + ahead + 1}, false},
		{"at the end of time", &outer{T: math.MaxInt64}, false},
		{"too early", &outer{T: -1}, false},
		{"too many bytes", &outer{N: mostBytes + 1}, false},
		{"a negative count", &inner{N: -1}, false},
		{"what the struct refuses", &inner{N: 1000}, false},
		{"what a field refuses", &outer{Inner: inner{N: 1000}}, false},
		{"what one of several refuses", &outer{Array: [3]inner{2: {N: 1000}}}, false},
		{"what the last of several refuses", &outer{Slice: []inner{{}, {N: 1000}}}, false},
		{"what is pointed to", &outer{There: &inner{F: math.NaN()}}, false},
		{"what is not read", &outer{hidden: inner{N: 1000}}, true},
	} {
		if got := Possible(c.v, hour); got != c.ok {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
