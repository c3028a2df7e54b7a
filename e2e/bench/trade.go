// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// tradeIntro is the begin of the page that --trade writes with --markdown.
const tradeIntro = `# What other thresholds give

Written by ` + "`make bench-trade`" + ` from the families of [BENCHMARK.md](BENCHMARK.md) that are for tuning: each threshold of
the verdict *leak* alone, less and more sensitive than its default, and some together. The columns are the rows of that
page.

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
		add(fmt.Sprintf("leak-threshold=%g clear-threshold=%g", x, x/2), func(c *detector.Config) { c.LeakThreshold, c.ClearThreshold = x, x/2 })
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
	add("min-age=2h settle-time=4h min-span=30m", func(c *detector.Config) { c.MinAge, c.SettleTime, c.MinSpan = 2*time.Hour, 4*time.Hour, 30*time.Minute })
	return list
}

// benchTrade writes the table of the settings: all run on each scenario at once.
func benchTrade(w io.Writer, opt options, families []fleet.Family) error {
	list := settings()
	results, err := run(opt, families, func(info gpu.Info) ([]judge, error) {
		var all []judge
		for _, s := range list {
			cfg := detector.DefaultConfig()
			s.change(&cfg)
			o, err := newOurs(info, cfg, false)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.flags, err)
			}
			all = append(all, o)
		}
		return all, nil
	})
	if err != nil {
		return err
	}
	if opt.marked {
		if _, err := io.WriteString(w, tradeIntro); err != nil {
			return fmt.Errorf("write the page: %w", err)
		}
	}
	t := &table{title: title("Families for tuning", opt, results), header: []string{"flags, without `--detector.`"}}
	columns := rows(opt.prices)
	for _, c := range columns {
		t.header = append(t.header, c.name)
	}
	for i, f := range sum(opt, results) {
		cells := []string{list[i].flags}
		for _, c := range columns {
			cells = append(cells, c.of(&f))
		}
		t.rows = append(t.rows, cells)
	}
	return t.write(w, opt.marked)
}
