// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// offVariable names the mechanism of the detector that is switched off, where that was built with the tag "ablate".
const offVariable = "DETECTOR_OFF"

// columns are the rows of the main tables that are columns of --trade and of --ablate: their names, and the cells of f.
func columns(p prices, f *figures) (names, cells []string) {
	for _, r := range rows(p) {
		if r.trade {
			names, cells = append(names, r.name), append(cells, r.of(f))
		}
	}
	return names, cells
}

// benchAblate writes what the detector does without each of the mechanisms, for the families for tuning and for those held out.
// What is switched off is so for a whole process: this program runs itself.
func benchAblate(w *strings.Builder, opt options) error {
	tables := [2]table{{title: "Families for tuning"}, {title: "Families held out"}}
	for _, name := range append([]string{"nothing"}, strings.Split(opt.ablate, ",")...) {
		for i, held := range []string{"without", "only"} {
			args := []string{"--line", "--rivals=false", "--held=" + held, fmt.Sprintf("--seeds=%d-%d", opt.seeds.first, opt.seeds.last)}
			run := exec.Command(os.Args[0], args...)
			run.Env = append(os.Environ(), offVariable+"="+name)
			line, err := run.Output()
			if err != nil {
				return fmt.Errorf("run without %s: %w", name, err)
			}
			tables[i].rows = append(tables[i].rows, append([]string{name}, strings.Split(strings.TrimSpace(string(line)), "\t")...))
		}
	}
	writeIntro(w, opt, "ablate")
	for i := range tables {
		names, _ := columns(opt.prices, &figures{})
		tables[i].header = append([]string{"switched off"}, names...)
		tables[i].write(w, opt.marked)
	}
	return nil
}

// benchLine writes the columns of our rule alone, for --ablate.
func benchLine(w *strings.Builder, opt options, families []fleet.Family) error {
	results, err := run(opt, families, opt.judges)
	if err != nil {
		return err
	}
	_, cells := columns(opt.prices, &sum(opt, results)[0])
	_, err = fmt.Fprintln(w, strings.Join(cells, "\t"))
	return err
}
