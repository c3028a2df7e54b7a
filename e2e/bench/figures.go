// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// figures are the scores of one rule on many series.
type figures struct {
	leaks, found, quick        int
	big, bigQuick              int // steady ones of 50 MB/min and more
	bigFine, bigFineQuick      int // of those, sampled at 15 s or finer
	fine, fineQuick            int
	later, laterQuick          int // those that do not begin with their program
	bigLater, bigLaterQuick    int // of those, steady ones of 50 MB/min and more
	early                      int
	healthy, alarmed, episodes int
	hours, alarmedHours        float64 // of healthy series
	delays                     []time.Duration
	alerts                     alerts
	errors, widths             []float64
	covered                    int
}

// quickly is how soon a leak is to be found.
const quickly = 15 * time.Minute

// add takes one outcome. Straight fills belong to neither side.
func (f *figures) add(o *outcome) {
	switch {
	case o.leak:
		f.addLeak(o)
	case !o.straight:
		f.addHealthy(o)
	}
}

func (f *figures) addHealthy(o *outcome) {
	f.healthy++
	f.episodes += len(o.begun)
	f.hours += o.length.Hours()
	f.alarmedHours += o.alarmed.Hours()
	count(&f.alarmed, len(o.begun) > 0)
	f.alerts.add(o)
}

func (f *figures) addLeak(o *outcome) {
	f.leaks++
	if o.early {
		f.early++
	}
	quick := false
	if o.found != never {
		f.found++
		f.delays = append(f.delays, o.found-o.onset)
		quick = o.found-o.onset <= quickly
	}
	count(&f.quick, quick)
	count(&f.later, !o.fromStart)
	count(&f.laterQuick, !o.fromStart && quick)
	count(&f.bigLater, !o.fromStart && o.steadyBig)
	count(&f.bigLaterQuick, !o.fromStart && o.steadyBig && quick)
	count(&f.fine, o.fine)
	count(&f.fineQuick, o.fine && quick)
	count(&f.big, o.steadyBig)
	count(&f.bigQuick, o.steadyBig && quick)
	count(&f.bigFine, o.steadyBig && o.fine)
	count(&f.bigFineQuick, o.steadyBig && o.fine && quick)
	f.alerts.add(o)
	if o.forecast.due {
		f.addForecast(o.forecast)
	}
}

func (f *figures) addForecast(p forecast) {
	f.errors = append(f.errors, p.error)
	f.widths = append(f.widths, p.width)
	count(&f.covered, p.covered)
}

func count(n *int, yes bool) {
	if yes {
		*n++
	}
}

// precision is the share of the series with an alarm that leak and were found: a
// healthy series with an alarm counts against it, and so does a leak with an
// early one.
func (f *figures) precision() float64 { return ratio(f.found, f.found+f.alarmed+f.early) }

// ratio returns n of m, NaN of none.
func ratio(n, m int) float64 {
	if m == 0 {
		return math.NaN()
	}
	return float64(n) / float64(m)
}

// quantile returns the value of sorted rank ceil(q n), the zero value of none.
func quantile[T cmp.Ordered](list []T, q float64) T {
	if len(list) == 0 {
		var none T
		return none
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

// median is quantile 0.5 and the mean of the two in the middle.
func median[T ~int64 | ~float64](list []T) T {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	if a, b := sorted[(n-1)/2], sorted[n/2]; a != b {
		return a/2 + b/2
	}
	return sorted[n/2]
}
