// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

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
	of("min-growth=%gGiB", func(c *detector.Config, x float64) { c.MinGrowth = x * (1 << 30) }, 1, 4)
	return list
}

// benchTrade writes the table of the settings: all run on each scenario at once.
func benchTrade(w *strings.Builder, opt options, families []fleet.Family) error {
	list := settings()
	results, err := run(opt, families, func(info gpu.Info) []judge {
		var all []judge
		for _, s := range list {
			cfg := detector.DefaultConfig()
			s.change(&cfg)
			all = append(all, newOurs(info, cfg, sees{}))
		}
		return all
	})
	if err != nil {
		return err
	}
	writeIntro(w, opt, "trade")
	t := &table{title: title("Families for tuning", opt, results)}
	for i, f := range sum(opt, results) {
		names, cells := columns(opt.prices, &f)
		t.header = append([]string{"flags, without `--detector.`"}, names...)
		t.rows = append(t.rows, append([]string{list[i].flags}, cells...))
	}
	t.write(w)
	return nil
}
