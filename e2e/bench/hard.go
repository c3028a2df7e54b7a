// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/workloads"
)

// benchHard writes how many healthy series of the hard kinds are ever called a leak.
func benchHard(w io.Writer, opt options) error {
	t := &table{title: "Healthy growth that is called a leak, by the noise that is on it", header: []string{"series ever called one"}}
	for noise, name := range workloads.Noises {
		t.header = append(t.header, name)
		r := &runner{set: opt.set, verbose: opt.verbose}
		for row, k := range workloads.HardKinds(noise) {
			results, err := r.run(jobsFor([]workloads.Kind{k}, opt.hard))
			if err != nil {
				return err
			}
			writeNotes(w, results)
			if noise == 0 {
				t.rows = append(t.rows, []string{k.Name})
			}
			_, all := figuresOf(results, false)
			t.rows[row] = append(t.rows[row], fmt.Sprintf("%d of %d, %d alarms", all[0].alarmed, all[0].healthy, all[0].episodes))
		}
	}
	return writeTables(w, opt, t)
}
