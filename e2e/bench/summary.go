// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/incidents"
)

// benchSummary writes a line for each population: the families for tuning and those held out, the same with probes, the public
// reports, and the chains of lives. names are those that are asked for.
func benchSummary(w *strings.Builder, opt options, names []string) error {
	t := &table{title: "Populations", header: []string{"", "found", "in time", "alarmed", "growing", "paged", "false pages", "tickets", "per 1,000 d", "cost"}}
	row := func(name string, of []result) {
		f := &sum(opt, of)[0]
		t.rows = append(t.rows, []string{
			name, fmt.Sprintf("%d/%d", f.found, f.leaks), fmt.Sprintf("%d/%d", f.inTime, f.rated),
			fmt.Sprintf("%d/%d", f.alarmed[fleet.Healthy], f.scenarios[fleet.Healthy]), fmt.Sprintf("%d/%d", f.alarmed[fleet.Growing], f.scenarios[fleet.Growing]),
			fmt.Sprintf("%d/%d", f.paged, f.ooms), strconv.Itoa(f.pages), strconv.Itoa(f.tickets), number1(f.perDays(f.pages)), number0(f.cost(opt.prices)),
		})
	}
	both := func(name string, results []result) {
		for i := range results {
			for _, line := range results[i].notes {
				fmt.Fprintln(w, line)
			}
		}
		for _, held := range []bool{false, true} {
			what := map[bool]string{false: ", tuning", true: ", held out"}[held]
			if of := chosen(results, func(f *fleet.Family) bool { return f.Held == held }); len(of) > 0 {
				row(name+what, of)
			}
		}
	}
	judged := func(what sees) func(gpu.Info) []judge {
		return func(info gpu.Info) []judge { return []judge{newOurs(info, detector.DefaultConfig(), what)} }
	}
	for _, name := range names {
		switch name {
		case "fleet", "probes":
			results, err := run(opt, opt.chosen(), judged(sees{probes: name == "probes"}))
			if err != nil {
				return err
			}
			both(name, results)
		case "reports":
			var families []fleet.Family
			later := map[string]bool{}
			for _, one := range incidents.All() {
				later[one.Kind], families = one.Later, append(families, one.Family())
			}
			results, err := run(opt, families, judged(sees{}))
			if err != nil {
				return err
			}
			for i := range results {
				o := &results[i].outcomes[0]
				o.leaks = o.leaks[:min(len(o.leaks), 1)]
				for _, line := range results[i].notes {
					fmt.Fprintln(w, line)
				}
			}
			row("reports, tuned on", chosen(results, func(f *fleet.Family) bool { return !later[f.Name] }))
			row("reports, never tuned on", chosen(results, func(f *fleet.Family) bool { return later[f.Name] }))
		case "lives":
			all, err := live(opt, opt.chosen())
			if err != nil {
				return err
			}
			both("third lives", results(slices.DeleteFunc(slices.Clone(all), func(l lived) bool { return l.number < 3 })))
			both("second lives", results(slices.DeleteFunc(slices.Clone(all), func(l lived) bool { return l.number != 2 })))
		default:
			return fmt.Errorf("--summary: there is no population %q, only fleet, probes, reports and lives", name)
		}
	}
	t.write(w, opt.marked)
	return nil
}
