// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strconv"
)

// calibration returns the table of the forecasts at half-life by how wide their 90 % interval
// is: a narrow one must not be wrong more often than a wide one.
func calibration(results []judged, exam string) *table {
	t := &table{
		title:  "Forecasts at half-life by the width of their interval, exam " + exam,
		header: []string{"(upper − lower)/foretold", "forecasts", "error, median", "error, 90 %", "covered"},
	}
	bounds := []float64{0, 0.2, 0.5, 1, 2, math.Inf(1)}
	for i, from := range bounds[:len(bounds)-1] {
		to := bounds[i+1]
		var f figures
		for j := range results {
			if p := results[j].ours.forecast; p.due && p.told > from && p.told <= to {
				f.addForecast(p)
			}
		}
		name := "more than " + strconv.FormatFloat(from, 'g', -1, 64)
		if !math.IsInf(to, 1) {
			name += " to " + strconv.FormatFloat(to, 'g', -1, 64)
		}
		t.rows = append(t.rows, []string{
			name, strconv.Itoa(len(f.errors)), forecasts(&f, median(f.errors)), forecasts(&f, quantile(f.errors, 0.9)), share(f.covered, len(f.errors)),
		})
	}
	return t
}
