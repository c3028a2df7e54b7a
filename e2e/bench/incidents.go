// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/incidents"
)

// reports lives what was reported in public again. For each life of a GPU the first leak counts.
func reports(opt options) ([]result, error) {
	opt.list = nil
	for _, one := range incidents.All() {
		opt.list = append(opt.list, one.Family())
	}
	results, err := run(opt, opt.chosen(false), alone(sees{}))
	for i := range results {
		o := &results[i].outcomes[0]
		o.leaks = o.leaks[:min(len(o.leaks), 1)]
	}
	return results, err
}

// benchIncidents writes how each report was judged.
func benchIncidents(w *strings.Builder, opt options) error {
	results, err := reports(opt)
	if err != nil {
		return err
	}
	told := map[string]incidents.Incident{}
	for _, one := range incidents.All() {
		told[one.Kind] = one
	}
	writeIntro(w, "incidents")
	for i, title := range []string{"Reports that were tuned on", "Reports never tuned on"} {
		if of := heldOut(results, i == 1); len(of) > 0 {
			whoTable(title, &sum(of)[0]).write(w)
			writeReports(w, title, told, of, opt)
		}
	}
	return nil
}

// whoTable has whom the detector named, of those who hold memory for nobody.
func whoTable(title string, f *figures) *table {
	return &table{title: title + ": who it is", header: []string{"", "ours"}, rows: [][]string{
		{"zombies named", share(f.zombies.named, f.zombies.all)},
		{"others called zombies", strconv.Itoa(f.zombies.wrong)},
		{"unreleased memory named", share(f.unreleased.named, f.unreleased.all)},
		{"other memory called unreleased", strconv.Itoa(f.unreleased.wrong)},
	}}
}

// writeReports writes a table for each sort of reports, with a row for each.
func writeReports(w *strings.Builder, title string, told map[string]incidents.Incident, of []result, opt options) {
	lost := &table{title: title + ": leaks", header: []string{"what was told", "found", "after", "announced", "before"}}
	kept := &table{title: title + ": memory that was held for nobody", header: []string{"what was told", "named"}}
	none := &table{title: title + ": what was taken for a leak and was none", header: []string{"what was told", "with an alarm"}}
	of2 := func(n, m int) string { return fmt.Sprintf("%d of %d", n, m) }
	for _, first := range of[:len(of)/opt.seeds.count()] {
		family := first.family
		one := told[family.Name]
		what := fmt.Sprintf("[%s](%s): %s", one.Kind, one.Thread, one.Told)
		f := &sum(chosen(of, func(r *result) bool { return r.family == family }))[0]
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
	for _, t := range []*table{lost, kept, none} {
		t.write(w)
	}
}
