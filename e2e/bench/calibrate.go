// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strconv"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// thresholds are the confidences that a reader may choose from; all GPUs reach the first one.
var thresholds = [...]float64{0, 0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1}

// reach counts what reaches each threshold.
type reach [len(thresholds)]int

func (r *reach) add(confidence float64) {
	for i, x := range thresholds {
		count(&r[i], confidence >= x)
	}
}

// only returns how many reach threshold i and not the next one.
func (r *reach) only(i int) int {
	if i+1 < len(r) {
		return r[i] - r[i+1]
	}
	return r[i]
}

// sureness is how sure a rule was of one GPU: in the first place while nothing leaked, in the second while something did.
type sureness struct {
	most    [2]float64
	minutes [2]reach
}

// sure adds the confidence of each minute.
func (s *scorer) sure(to *sureness) {
	for i, m := range s.r.minutes {
		c, leaks := s.said[i].confidence, 0
		count(&leaks, s.leaking(m.t))
		to.most[leaks] = max(to.most[leaks], c)
		to.minutes[leaks].add(c)
	}
}

// addSureness takes that of a GPU. One whose leak never showed is neither a leak nor healthy.
func (f *figures) addSureness(class fleet.Class, o *outcome) {
	switch {
	case class != fleet.Leak:
		f.reached[class].add(o.sure.most[0])
	case len(o.leaks) > 0:
		f.reached[class].add(o.sure.most[1])
	}
	for leaks := range f.minutes {
		for i, n := range o.sure.minutes[leaks] {
			f.minutes[leaks][i] += n
		}
	}
}

// calibration returns the table of what each threshold is worth. Other than the share of leaks, a likelihood ratio does not depend
// on how many leaks there are.
func (f *figures) calibration(title string) *table {
	t := &table{title: title, header: []string{
		"confidence", "leaks that reach it", "healthy, ordinary", "healthy, growing", "of all that reach it, leaks", "likelihood ratio",
		"… to ordinary use", "of those below the next row, leaks", "of the time until the next row, a leak",
	}}
	leaks, ordinary, growing := &f.reached[fleet.Leak], &f.reached[fleet.Healthy], &f.reached[fleet.Growing]
	part := func(n, m int) float64 { return float64(n) / float64(m) }
	for i, x := range thresholds {
		healthy, only := ordinary[i]+growing[i], leaks.only(i)
		found, lost := part(leaks[i], leaks[0]), f.minutes[1].only(i)
		t.rows = append(t.rows, []string{
			strconv.FormatFloat(x, 'g', -1, 64), share(leaks[i], leaks[0]), share(ordinary[i], ordinary[0]), share(growing[i], growing[0]),
			share(leaks[i], leaks[i]+healthy), number1(found / part(healthy, ordinary[0]+growing[0])), number1(found / part(ordinary[i], ordinary[0])),
			share(only, only+ordinary.only(i)+growing.only(i)), percent(part(lost, lost+f.minutes[0].only(i))),
		})
	}
	return t
}

// coverRows returns how well ours foretold growth of each course, a row each.
func (f *figures) coverRows(title string) [][]string {
	var list [][]string
	for course, of := range f.courses {
		row := []string{title + ", " + fleet.Course(course).String()}
		for _, p := range of {
			row = append(row, share(len(p.told), len(p.errors)), share(p.covered, len(p.told)), p.ratio())
		}
		list = append(list, row)
	}
	return list
}

// ratio returns the median of upper over lower of those that were told.
func (f *forecasts) ratio() string {
	switch m := median(f.ratios); {
	case len(f.ratios) == 0:
		return "–"
	case math.IsInf(m, 1):
		return "∞"
	default:
		return number1(m)
	}
}

// confidenceTables returns those of ours: what its confidence is worth, and whether its intervals cover.
func confidenceTables(opt options, results []result) []*table {
	var list []*table
	cover := &table{title: "The 90 % interval by the course of the growth", header: []string{
		"", "told at the first alarm", "of them covered", "upper/lower, median", "told at half-life", "of them covered", "upper/lower, median",
	}}
	for _, side := range []string{"for tuning", "held out"} {
		if of := chosen(results, func(f *fleet.Family) bool { return f.Held == (side == "held out") }); len(of) > 0 {
			f := &sum(opt, of)[0]
			list = append(list, f.calibration("What a confidence is worth, families "+side))
			cover.rows = append(cover.rows, f.coverRows(side)...)
		}
	}
	return append(list, cover)
}
