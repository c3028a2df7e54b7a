// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// curveThresholds are the leak thresholds of --curve.
var curveThresholds = []float64{0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95}

// leakThreshold returns the setting of a leak threshold, with half of it to clear, as the defaults
// have it.
func leakThreshold(x float64) setting {
	return setting{fmt.Sprintf("leak-threshold=%g clear-threshold=%g", x, x/2), func(c *detector.Config) { c.LeakThreshold, c.ClearThreshold = x, x/2 }}
}

// benchCurve writes what other leak thresholds give on the labelled series.
func benchCurve(w io.Writer, opt options, jobs []job) error {
	list := make([]setting, len(curveThresholds))
	for i, x := range curveThresholds {
		list[i] = leakThreshold(x)
	}
	all, err := tryJobs(opt, jobs, list)
	if err != nil {
		return err
	}
	t := &table{
		title:  "Other leak thresholds",
		header: []string{"threshold", "recall", "within 15 min", "early", "healthy ever alarmed", "episodes per 100 h", "median delay"},
	}
	for i, x := range curveThresholds {
		f := &all[i]
		t.rows = append(t.rows, []string{
			fmt.Sprint(x), share(f.found, f.leaks), share(f.quick, f.leaks), share(f.early, f.leaks), share(f.alarmed, f.healthy),
			number2(100 * float64(f.episodes) / f.hours), delay(f, median(f.delays)),
		})
	}
	return writeTables(w, opt, t)
}
