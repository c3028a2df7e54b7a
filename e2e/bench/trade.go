// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// tradeIntro is the begin of the page that --trade writes with --markdown.
const tradeIntro = `# What other thresholds give

Written by ` + "`make bench-trade`" + ` from the families of [BENCHMARK.md](BENCHMARK.md) that are for tuning: each threshold of
the verdict *leak* alone, less and more sensitive than its default. The columns are rows of that
page.

`

// setting is what flags make of the thresholds.
type setting struct {
	flags  string // without "--detector."
	change func(c *detector.Config)
}

// settings are the rows of --trade, the defaults first.
func settings() []setting {
	list := []setting{{"the defaults", func(*detector.Config) {}}}
	of := func(flag string, change func(c *detector.Config, x float64), values ...float64) {
		for _, x := range values {
			list = append(list, setting{fmt.Sprintf(flag, x), func(c *detector.Config) { change(c, x) }})
		}
	}
	minutes := func(x float64) time.Duration { return time.Duration(x * float64(time.Minute)) }
	of("leak-threshold=%g, and half of it to clear", func(c *detector.Config, x float64) { c.LeakThreshold, c.ClearThreshold = x, x/2 }, 0.4, 0.5, 0.6, 0.9)
	of("settle-time=%gm", func(c *detector.Config, x float64) { c.SettleTime = minutes(x) }, 1, 30, 90, 240)
	of("min-span=%gm", func(c *detector.Config, x float64) { c.MinSpan = minutes(x) }, 3, 10, 20, 30)
	of("min-age=%gm", func(c *detector.Config, x float64) { c.MinAge = minutes(x) }, 30, 120)
	of("false-alarm-probability=%g", func(c *detector.Config, x float64) { c.FalseAlarm = x }, 0.01, 0.1)
	of("high-water-rate=%g", func(c *detector.Config, x float64) { c.HighWaterRate = x }, 1, 10)
	of("min-growth=%gGiB", func(c *detector.Config, x float64) { c.MinGrowth = x * (1 << 30) }, 1, 4)
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
	columns := slices.DeleteFunc(rows(opt.prices), func(r row) bool { return !r.trade })
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
