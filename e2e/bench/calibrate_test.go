// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// sureOf returns how sure a rule was that has these confidences, a minute each; the leak of leakTruth begins at minute 60.
func sureOf(truth fleet.Truth, confidences map[int]float64) outcome {
	r := &record{said: make([][]answer, 1)}
	for m := range 100 {
		r.minutes = append(r.minutes, minute{t: minutesOf(m)})
		r.said[0] = append(r.said[0], answer{confidence: confidences[m], eta: math.NaN()})
	}
	return score(&watched{truth: truth, length: minutesOf(100), records: []*record{r}}, 0)
}

// TestCalibration has two leaks, one of which is surer before it leaks, one that never shows, and two healthy GPUs.
func TestCalibration(t *testing.T) {
	var f figures
	hidden := leakTruth()
	hidden.Leaks[0].Visible = false
	for _, c := range []struct {
		class       fleet.Class
		truth       fleet.Truth
		confidences map[int]float64
	}{
		{fleet.Leak, leakTruth(), map[int]float64{10: 1, 70: 0.65}},
		{fleet.Leak, leakTruth(), map[int]float64{70: 0.9, 71: 1, 72: 1}},
		{fleet.Leak, hidden, map[int]float64{70: 0.2}},
		{fleet.Healthy, fleet.Truth{}, map[int]float64{10: 0.3, 11: 0.1}},
		{fleet.Growing, fleet.Truth{}, map[int]float64{10: 0.7}},
	} {
		o := sureOf(c.truth, c.confidences)
		f.add(c.class, &o, defaultPrices)
	}
	got := f.calibration("").rows
	for i, want := range map[int][]string{
		0: {"0", "2/2 100.0 %", "1/1 100.0 %", "1/1 100.0 %", "2/4 50.0 %", "1.0", "1.0", "–", "23.4 %"},
		2: {"0.3", "2/2 100.0 %", "1/1 100.0 %", "1/1 100.0 %", "2/4 50.0 %", "1.0", "1.0", "0/1 0.0 %", "0.0 %"},
		4: {"0.6", "2/2 100.0 %", "0/1 0.0 %", "1/1 100.0 %", "2/3 66.7 %", "2.0", "–", "1/1 100.0 %", "100.0 %"},
		8: {"1", "1/2 50.0 %", "0/1 0.0 %", "0/1 0.0 %", "1/1 100.0 %", "–", "–", "1/1 100.0 %", "66.7 %"},
	} {
		if !slices.Equal(got[i], want) {
			t.Errorf("%q, want %q", got[i], want)
		}
	}
}

func TestCover(t *testing.T) {
	var f figures
	truth := leakTruth()
	truth.OOMs[0].Course = fleet.Accelerating
	o := fake{[][2]int{{90, 400}}, 3600, 1800, 5400, named{}}.score(truth, 300)
	f.add(fleet.Leak, &o, defaultPrices)
	o = fake{nil, math.NaN(), math.NaN(), math.NaN(), named{}}.score(truth, 300)
	f.add(fleet.Leak, &o, defaultPrices)
	got := f.coverRows("all")
	if want := []string{"all, accelerating", "1/1 100.0 %", "1/1 100.0 %", "3.0", "1/2 50.0 %", "1/1 100.0 %", "3.0"}; !slices.Equal(got[1], want) {
		t.Errorf("%q, want %q", got[1], want)
	}
	if want := []string{"all, straight", "–", "–", "–", "–", "–", "–"}; !slices.Equal(got[0], want) {
		t.Errorf("%q, want %q", got[0], want)
	}
}
