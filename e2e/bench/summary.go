// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
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
	s.table.rows = append(s.table.rows, []string{
		name, part(f.found, f.leaks), part(f.inTime, f.rated),
		part(f.alarmed[fleet.Healthy], f.scenarios[fleet.Healthy]), part(f.alarmed[fleet.Growing], f.scenarios[fleet.Growing]),
		part(f.paged, f.ooms), strconv.Itoa(f.pages), strconv.Itoa(f.tickets), number1(f.perDays(f.pages)), number0(f.cost()),
	})
}

// halves adds a line for the families for tuning, one for those held out, and one for those that are Fresh.
func (s *summary) halves(name string, of []result) {
	s.add(name+", tuning", chosen(of, func(r *result) bool { return !r.family.Held }))
	s.add(name+", held out", chosen(of, func(r *result) bool { return r.family.Held && !r.family.Fresh }))
	s.add(name+", fresh", chosen(of, func(r *result) bool { return r.family.Fresh }))
}

func (s *summary) fleet(name string, what sees) error {
	results, err := run(s.opt, s.opt.chosen(true), alone(what))
	s.halves(name, results)
	return err
}

func (s *summary) reports() error {
	results, err := reports(s.opt)
	s.add("reports, tuned on", chosen(results, func(r *result) bool { return !r.family.Held }))
	s.add("reports, never tuned on", chosen(results, func(r *result) bool { return r.family.Held }))
	return err
}

func (s *summary) lives() error {
	results, err := live(s.opt)
	s.halves("third lives", chosen(results, func(r *result) bool { return r.life > 2 }))
	s.halves("second lives", chosen(results, func(r *result) bool { return r.life == 2 }))
	return err
}
