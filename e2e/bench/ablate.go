// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// columns are the rows of the main tables that are columns of --ablate: their names, and the cells of f.
func columns(p prices, f *figures) (names, cells []string) {
	for _, r := range rows(p) {
		if r.ablate {
			names, cells = append(names, r.name), append(cells, r.of(f))
		}
	}
	return names, cells
}

// benchAblate writes what the detector does without each of the mechanisms: all run on each scenario at once.
func benchAblate(w *strings.Builder, opt options) error {
	results, err := run(opt, opt.chosen(), func(info gpu.Info) []judge {
		list := []judge{newOurs(info, detector.DefaultConfig(), sees{})}
		for _, m := range detector.Mechanisms {
			cfg := detector.DefaultConfig()
			cfg.Without = m.Is
			list = append(list, newOurs(info, cfg, sees{}))
		}
		return list
	})
	if err != nil {
		return err
	}
	writeIntro(w, opt, "ablate")
	for _, held := range []bool{false, true} {
		of := chosen(results, func(f *fleet.Family) bool { return f.Held == held })
		if len(of) == 0 {
			continue
		}
		t := &table{title: title(map[bool]string{false: "Families for tuning", true: "Families held out"}[held], opt, of)}
		for i, f := range sum(opt, of) {
			names, cells := columns(opt.prices, &f)
			name := "nothing"
			if i > 0 {
				name = detector.Mechanisms[i-1].Name
			}
			t.header = append([]string{"switched off"}, names...)
			t.rows = append(t.rows, append([]string{name}, cells...))
		}
		t.write(w)
	}
	return nil
}
