// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/incidents"
)

// benchIncidents lives what was reported in public again and writes how it was judged. For each life of a GPU the first leak
// counts.
func benchIncidents(w *strings.Builder, opt options) error {
	var families []fleet.Family
	told := map[string]incidents.Incident{}
	for _, one := range incidents.All() {
		if strings.Contains(one.Kind, opt.family) {
			told[one.Kind], families = one, append(families, one.Family())
		}
	}
	if len(families) == 0 {
		return fmt.Errorf("no report has a name that contains %q", opt.family)
	}
	opt.unprobed = true
	results, err := run(opt, families, opt.judges)
	if err != nil {
		return err
	}
	for i := range results {
		firstLeak(&results[i])
	}
	writeIntro(w, "incidents")
	for _, p := range []struct {
		title string
		later bool
	}{{"Reports that were tuned on", false}, {"Reports never tuned on", true}} {
		of := chosen(results, func(f *fleet.Family) bool { return told[f.Name].Later == p.later })
		for _, t := range incidentTables(p.title, told, of, opt) {
			t.write(w)
		}
	}
	return nil
}

// firstLeak leaves of the leaks in a life of a GPU the first one.
func firstLeak(r *result) {
	for rule := range r.outcomes {
		o := &r.outcomes[rule]
		o.leaks = o.leaks[:min(len(o.leaks), 1)]
	}
}

// incidentTables returns the tables of some reports: all together, and a row for each one.
func incidentTables(title string, told map[string]incidents.Incident, of []result, opt options) []*table {
	if len(of) == 0 {
		return nil
	}
	all, hours := sum(of), 0.0
	for i := range of {
		hours += told[of[i].job.family.Name].Hours
	}
	f := &all[0]
	name := fmt.Sprintf("%s, seeds %d to %d: %d GPUs with a leak, %d healthy ones, %.0f h",
		title, opt.seeds.first, opt.seeds.last, f.scenarios[fleet.Leak], f.scenarios[fleet.Healthy], hours)
	list := slices.DeleteFunc(rows(), func(r row) bool {
		return strings.Contains(r.name, "growing") || strings.Contains(r.name, "cost")
	})
	list = append(list, row{"out-of-memories with an alarm 10 min before", func(f *figures) string { return share(f.warned, f.ooms) }})
	who := &table{title: title + ": who it is", header: []string{"", "ours"}, rows: [][]string{
		{"zombies named", share(f.zombies.named, f.zombies.all)},
		{"others called zombies", strconv.Itoa(f.zombies.wrong)},
		{"unreleased memory named", share(f.unreleased.named, f.unreleased.all)},
		{"other memory called unreleased", strconv.Itoa(f.unreleased.wrong)},
	}}
	return append([]*table{compared(name, list, opt.names(), all), who}, reportTables(title, told, of, opt)...)
}

// reportTables returns a table for each sort of reports, with a row for each.
func reportTables(title string, told map[string]incidents.Incident, of []result, opt options) []*table {
	lost := &table{title: title + ": leaks", header: []string{"what was told", "found", "after", "announced", "before"}}
	kept := &table{title: title + ": memory that was held for nobody", header: []string{"what was told", "named"}}
	none := &table{title: title + ": what was taken for a leak and was none", header: []string{"what was told", "with an alarm"}}
	of2 := func(n, m int) string { return fmt.Sprintf("%d of %d", n, m) }
	for _, first := range of[:len(of)/opt.seeds.count()] {
		family := first.job.family
		one := told[family.Name]
		what := fmt.Sprintf("[%s](%s): %s", one.Kind, one.Thread, one.Told)
		f := &sum(chosen(of, func(f *fleet.Family) bool { return f.Name == family.Name }))[0]
		switch {
		case family.Class == fleet.Leak:
			announced := "–"
			if f.ooms > 0 {
				announced = of2(f.warned, f.ooms)
			}
			lost.rows = append(lost.rows, []string{what, of2(f.found, f.leaks), short(f.delays, 0.5), announced, short(f.alarms, 0.5)})
		case one.Ending == "holds":
			kept.rows = append(kept.rows, []string{what, of2(f.zombies.named+f.unreleased.named, f.zombies.all+f.unreleased.all)})
		default:
			none.rows = append(none.rows, []string{what, of2(f.alarmed[fleet.Healthy], f.scenarios[fleet.Healthy])})
		}
	}
	return []*table{lost, kept, none}
}
