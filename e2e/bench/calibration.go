// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strconv"
)

// calibration returns the table of the forecasts at half-life by how wide their 90 % interval
// is: a narrow one must not be wrong more often than a wide one. The last rows are what no forecast is
// made of, and what could be foretold at best.
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
	t.rows = append(t.rows, untold(results), clairvoyant(results))
	return t
}

// untold returns the row of the leaks that are not told by their half-life.
func untold(results []judged) []string {
	n := 0
	for i := range results {
		p := results[i].ours.forecast
		count(&n, p.due && p.told == 0)
	}
	return []string{"no forecast", strconv.Itoa(n), "100.0 %", "100.0 %", share(0, n)}
}

// clairvoyant returns the row of who knows each byte that has leaked, and the headroom to the byte,
// and foretells by the mean rate since the onset. At the half-life as much time is left as has passed;
// of what leaks the share h is gone, so that it says (1-h)/h of the time.
func clairvoyant(results []judged) []string {
	var f figures
	for i := range results {
		if o := &results[i].ours; o.forecast.due && o.halfLost > 0 {
			f.errors = append(f.errors, math.Abs(1-2*o.halfLost)/o.halfLost)
		}
	}
	return []string{
		"the mean rate, known to the byte", strconv.Itoa(len(f.errors)),
		forecasts(&f, median(f.errors)), forecasts(&f, quantile(f.errors, 0.9)), "–",
	}
}
