// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// curveThresholds are the leak thresholds of --curve.
var curveThresholds = []float64{0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95}

// threshold is the alarm that another leak threshold would give. The clear
// threshold keeps its ratio to it.
type threshold struct {
	leak, clear float64
	on          bool
	score       *scorer
}

func newCurve(is truth) []*threshold {
	cfg := detector.DefaultConfig()
	var list []*threshold
	for _, x := range curveThresholds {
		list = append(list, &threshold{leak: x, clear: x * cfg.ClearThreshold / cfg.LeakThreshold, score: newScorer(is)})
	}
	return list
}

func (c *threshold) observe(t time.Duration, confidence float64) {
	c.on = confidence >= c.leak || (c.on && confidence >= c.clear)
	c.score.observe(t, c.on, math.NaN(), math.NaN(), math.NaN())
}

// curveTable returns what other leak thresholds would give.
func curveTable(results []judged) *table {
	t := &table{
		title:  "Other leak thresholds",
		header: []string{"threshold", "recall", "within 15 min", "early", "healthy ever alarmed", "episodes per 100 h", "median delay"},
	}
	for i, x := range curveThresholds {
		var f figures
		for j := range results {
			f.add(&results[j].curve[i])
		}
		t.rows = append(t.rows, []string{
			fmt.Sprint(x), share(f.found, f.leaks), share(f.quick, f.leaks), share(f.early, f.leaks), share(f.alarmed, f.healthy),
			number2(100 * float64(f.episodes) / f.hours), delay(&f, median(f.delays)),
		})
	}
	return t
}
