// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/workloads"
)

// tradeIntro is the begin of the page that --trade writes with --markdown.
const tradeIntro = `# What other thresholds give

Written by ` + "`make bench-trade`" + ` from the series of [BENCHMARK.md](BENCHMARK.md): each threshold of the verdict *leak*
alone, less and more sensitive than its default, and some together. Where a cell has two figures, the first is of the
exam *jobs*, the second of *layers*. False episodes, tickets and pages are those in 10,000 hours of healthy series of 1
to 3 days, behind each the upper bound with 95 % confidence. Tickets and pages are the mixin's: a leak for half an
hour; a memory that is full within the hour, for three minutes.

`

// setting is what flags make of the thresholds.
type setting struct {
	flags  string // without "--detector."
	change func(*detector.Config)
}

// settings are the rows of --trade, the defaults first.
func settings() []setting {
	list := []setting{{"the defaults", func(*detector.Config) {}}}
	add := func(flags string, change func(c *detector.Config)) { list = append(list, setting{flags, change}) }
	for _, x := range []float64{0.4, 0.5, 0.6, 0.9} {
		list = append(list, leakThreshold(x))
	}
	for _, d := range []time.Duration{time.Minute, 30 * time.Minute, 90 * time.Minute, 4 * time.Hour} {
		add("settle-time="+d.String(), func(c *detector.Config) { c.SettleTime = d })
	}
	for _, d := range []time.Duration{3 * time.Minute, 10 * time.Minute, 20 * time.Minute, 30 * time.Minute} {
		add("min-span="+d.String(), func(c *detector.Config) { c.MinSpan = d })
	}
	for _, d := range []time.Duration{30 * time.Minute, 2 * time.Hour} {
		add("min-age="+d.String(), func(c *detector.Config) { c.MinAge = d })
	}
	for _, x := range []float64{0.01, 0.1} {
		add(fmt.Sprintf("false-alarm-probability=%g", x), func(c *detector.Config) { c.FalseAlarm = x })
	}
	for _, x := range []float64{1, 10} {
		add(fmt.Sprintf("high-water-rate=%g", x), func(c *detector.Config) { c.HighWaterRate = x })
	}
	for _, x := range []float64{1, 4} {
		add(fmt.Sprintf("min-growth=%gGiB", x), func(c *detector.Config) { c.MinGrowth = x * (1 << 30) })
	}
	add("settle-time=1m min-span=4m leak-threshold=0.4 clear-threshold=0.2", func(c *detector.Config) {
		c.SettleTime, c.MinSpan, c.LeakThreshold, c.ClearThreshold = time.Minute, 4*time.Minute, 0.4, 0.2
	})
	add("min-age=30m settle-time=1h30m", func(c *detector.Config) { c.MinAge, c.SettleTime = 30*time.Minute, 90*time.Minute })
	add("min-age=2h settle-time=4h min-span=30m", func(c *detector.Config) { c.MinAge, c.SettleTime, c.MinSpan = 2*time.Hour, 4*time.Hour, 30*time.Minute })
	return list
}

// tried is how the settings did on one series, in their order.
type tried struct {
	out []outcome
	err error
}

// try runs one series past the detector with each setting. It is asked after each
// sample, unless minutely.
func try(s source, capacity int64, is truth, list []setting, minutely bool) tried {
	all := make([]*watch, len(list))
	for i, x := range list {
		cfg := detector.DefaultConfig()
		x.change(&cfg)
		o, err := newOurs(cfg)
		if err != nil {
			return tried{err: fmt.Errorf("%s: %w", x.flags, err)}
		}
		all[i] = &watch{ours: o, score: newScorer(is), minutely: minutely}
	}
	for t, used, ok := s.Next(); ok; t, used, ok = s.Next() {
		for _, w := range all {
			w.observe(t, used, capacity)
		}
	}
	var done tried
	for _, w := range all {
		of := w.end()
		if of.err != nil {
			return tried{err: of.err}
		}
		done.out = append(done.out, of.ours)
	}
	return done
}

// sum returns the figures of each of n settings.
func sum(results []tried, n int) ([]figures, error) {
	all := make([]figures, n)
	for _, r := range results {
		if r.err != nil {
			return nil, r.err
		}
		for i := range r.out {
			all[i].add(&r.out[i])
		}
	}
	return all, nil
}

// tryJobs returns the figures of each setting on the series of a set, asked after each sample.
func tryJobs(opt options, jobs []job, list []setting) ([]figures, error) {
	return sum(parallel(len(jobs), func(i int) tried {
		s := jobs[i].kind.New(opt.set, jobs[i].index, jobs[i].length)
		return try(s, s.Capacity, truthOf(s), list, false)
	}), len(list))
}

// aimedAt is the row of what the project aims at, in the order of the columns.
var aimedAt = []string{"aimed at", "≥ 95", "≥ 70", "≥ 95", "≤ 5", "≤ 0.2", "", "", "≤ 40", "≤ 1", "", ""}

// tradeRows are the columns of --trade that the exams give.
var tradeRows = []figureRow{
	{"found", func(f *figures) string { return bare(ratio(f.found, f.leaks)) }},
	{"in 15 min", func(f *figures) string { return bare(ratio(f.quick, f.leaks)) }},
	{"steady ≥ 50 MB/min in 15 min", func(f *figures) string { return bare(ratio(f.bigQuick, f.big)) }},
	{"healthy alarmed", func(f *figures) string { return bare(ratio(f.alarmed, f.healthy)) }},
	{"time in alarm", func(f *figures) string { return bare(f.alarmedHours / f.hours) }},
	{"healthy paged", func(f *figures) string { return bare(ratio(f.alerts.paged, f.healthy)) }},
	{"out-of-memories paged", func(f *figures) string { return bare(ratio(f.alerts.ahead, f.alerts.ooms)) }},
	{"ETA error of nine tenths at most", func(f *figures) string { return bare(quantile(f.errors, 0.9)) }},
}

// bare is percent without its sign.
func bare(x float64) string { return strings.TrimSuffix(percent(x), " %") }

// benchTrade writes the table of the settings, from the exams and the long healthy series.
func benchTrade(w io.Writer, opt options, kinds []workloads.Kind) error {
	list := settings()
	of := make([][]figures, 0, len(opt.exams))
	for _, e := range opt.exams {
		indices := e.indices(opt.kind)
		all, err := sum(parallel(opt.seeds.count()*len(indices), func(i int) tried {
			s := e.make(opt.seeds.first+uint64(i/len(indices)), indices[i%len(indices)])
			return try(s, s.Capacity, examTruth(s), list, true)
		}), len(list))
		if err != nil {
			return err
		}
		of = append(of, all)
	}
	healthy, err := tryJobs(opt, hoursJobs(opt, kinds), list)
	if err != nil {
		return err
	}
	if opt.markdown {
		if _, err := io.WriteString(w, tradeIntro); err != nil {
			return fmt.Errorf("write the page: %w", err)
		}
	}
	return writeTables(w, opt, tradeTable(opt, list, of, healthy))
}

// tradeTable returns the table of the settings.
func tradeTable(opt options, list []setting, of [][]figures, healthy []figures) *table {
	t := &table{title: fmt.Sprintf("Seeds %d to %d, and %.0f hours of set %s", opt.seeds.first, opt.seeds.last, healthy[0].hours, opt.set), header: []string{"flags, without `--detector.`"}}
	for _, r := range tradeRows {
		t.header = append(t.header, r.name+", %")
	}
	t.header = append(t.header, "false episodes", "false tickets", "false pages")
	t.rows = append(t.rows, aimedAt)
	for i, s := range list {
		row := []string{s.flags}
		for _, r := range tradeRows {
			var cells []string
			for _, exam := range of {
				cells = append(cells, r.of(&exam[i]))
			}
			row = append(row, strings.Join(cells, " · "))
		}
		f := &healthy[i]
		t.rows = append(t.rows, append(row, inLong(f, f.episodes), inLong(f, f.alerts.falseTickets), inLong(f, f.alerts.falsePages)))
	}
	return t
}

// inLong returns n as so many in 10,000 hours, with the upper bound.
func inLong(f *figures, n int) string {
	if f.hours == 0 {
		return "–"
	}
	rate := 1e4 / f.hours
	return fmt.Sprintf("%.2f (≤ %.2f)", rate*float64(n), rate*poissonUpper(n, 0.95))
}
