// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/incidents"
)

// summary is the table of --summary: a line for each population.
type summary struct {
	opt            options
	table, bounded table
}

// benchSummary writes a line for each population that is asked for: the families for tuning and those held out, the same with
// probes, the public reports, and the chains of lives.
func benchSummary(w *strings.Builder, opt options, names []string) error {
	s := &summary{opt: opt, table: table{title: "Populations", header: []string{
		"", "found", "in time", "alarmed", "growing", "paged", "false pages", "tickets", "per 1,000 d", "cost",
	}}}
	for _, name := range names {
		of, known := map[string]func() error{
			"fleet": func() error { return s.fleet("fleet", sees{}) }, "probes": func() error { return s.fleet("probes", sees{probes: true}) },
			"reports": s.reports, "lives": s.lives, "limits": s.limits,
		}[name]
		if !known {
			return fmt.Errorf("--summary: there is no population %q, only fleet, probes, reports, lives and limits", name)
		}
		if err := of(); err != nil {
			return err
		}
	}
	s.table.write(w)
	s.bounded.write(w)
	return nil
}

// add adds a line.
func (s *summary) add(name string, of []result) {
	if len(of) == 0 {
		return
	}
	f := &sum(of)[0]
	part := func(n, m int) string { return fmt.Sprintf("%d/%d", n, m) }
	s.table.rows = append(s.table.rows, []string{
		name, part(f.found, f.leaks), part(f.inTime, f.rated),
		part(f.alarmed[fleet.Healthy], f.scenarios[fleet.Healthy]), part(f.alarmed[fleet.Growing], f.scenarios[fleet.Growing]),
		part(f.paged, f.ooms), strconv.Itoa(f.pages), strconv.Itoa(f.tickets), number1(f.perDays(f.pages)), number0(f.cost()),
	})
}

// halves adds a line for the families for tuning, one for those held out, and one for those that are Fresh.
func (s *summary) halves(name string, of []result) {
	s.add(name+", tuning", chosen(of, func(f *fleet.Family) bool { return !f.Held }))
	s.add(name+", held out", chosen(of, func(f *fleet.Family) bool { return f.Held && !f.Fresh }))
	s.add(name+", fresh", chosen(of, func(f *fleet.Family) bool { return f.Fresh }))
}

// judged runs the families before our rule alone.
func (s *summary) judged(families []fleet.Family, what sees) ([]result, error) {
	return run(s.opt, families, func() []judge { return []judge{newOurs(detector.DefaultConfig(), what)} })
}

func (s *summary) fleet(name string, what sees) error {
	opt := s.opt
	opt.fresh = true
	results, err := s.judged(opt.chosen(), what)
	if err == nil {
		s.halves(name, results)
	}
	return err
}

func (s *summary) reports() error {
	var families []fleet.Family
	later := map[string]bool{}
	for _, one := range incidents.All() {
		later[one.Kind], families = one.Later, append(families, one.Family())
	}
	results, err := s.judged(families, sees{})
	if err != nil {
		return err
	}
	for i := range results {
		firstLeak(&results[i])
	}
	s.add("reports, tuned on", chosen(results, func(f *fleet.Family) bool { return !later[f.Name] }))
	s.add("reports, never tuned on", chosen(results, func(f *fleet.Family) bool { return later[f.Name] }))
	return nil
}

func (s *summary) lives() error {
	all, err := live(s.opt)
	if err != nil {
		return err
	}
	s.halves("third lives", results(all, func(l *lived) bool { return l.number > 2 }))
	s.halves("second lives", results(all, func(l *lived) bool { return l.number == 2 }))
	return nil
}
