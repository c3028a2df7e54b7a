// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// benchSummary writes a line for each population that is asked for: the families for tuning and those held out, the same with
// probes, the public reports, and the chains of lives. The limits have a table of their own.
func benchSummary(w *strings.Builder, opt options) error {
	lines := &table{title: "Populations", header: []string{
		"", "found", "in time", "alarmed", "growing", "paged", "false pages", "tickets", "per 1,000 d", "cost",
	}}
	var bounded table
	for name := range strings.SplitSeq(opt.summary, ",") {
		var of []result
		var err error
		switch name {
		case "fleet":
			of, err = run(opt, opt.chosen(true), alone(sees{}))
			lines.halves(name, of)
		case "probes":
			of, err = run(opt, opt.chosen(true), alone(sees{probes: true}))
			lines.halves(name, of)
		case "reports":
			of, err = reports(opt)
			lines.population("reports, tuned on", heldOut(of, false))
			lines.population("reports, never tuned on", heldOut(of, true))
		case "lives":
			of, err = live(opt)
			lines.halves("third lives", chosen(of, func(r *result) bool { return r.life > 2 }))
			lines.halves("second lives", chosen(of, func(r *result) bool { return r.life == 2 }))
		case "limits":
			bounded, err = limits(opt)
		default:
			err = fmt.Errorf("--summary: there is no population %q, only fleet, probes, reports, lives and limits", name)
		}
		if err != nil {
			return err
		}
	}
	lines.write(w)
	bounded.write(w)
	return nil
}

// population adds a line.
func (t *table) population(name string, of []result) {
	if len(of) == 0 {
		return
	}
	f := &sum(of)[0]
	t.rows = append(t.rows, []string{
		name, part(f.found, f.leaks), part(f.inTime, f.rated),
		part(f.alarmed[fleet.Healthy], f.scenarios[fleet.Healthy]), part(f.alarmed[fleet.Growing], f.scenarios[fleet.Growing]),
		part(f.paged, f.ooms), strconv.Itoa(f.pages), strconv.Itoa(f.tickets), number1(f.perDays(f.pages)), number0(f.cost()),
	})
}

// halves adds a line for the families for tuning, one for those held out, and one for those that are Fresh.
func (t *table) halves(name string, of []result) {
	t.population(name+", tuning", heldOut(of, false))
	t.population(name+", held out", chosen(of, func(r *result) bool { return r.family.Held && !r.family.Fresh }))
	t.population(name+", fresh", chosen(of, func(r *result) bool { return r.family.Fresh }))
}
