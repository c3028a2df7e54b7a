// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package jobs

import (
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
)

func TestShares(t *testing.T) {
	for want, list := range map[int][]exams.Family[*builder]{exams.Leaks: families.Leaks, exams.Healthy: families.Healthy} {
		sum := 0
		for _, f := range list {
			sum += f.Count
		}
		if sum != want {
			t.Errorf("the families add up to %d series, want %d", sum, want)
		}
	}
}

// Nothing is lost before the onset, and something soon after.
func TestOnset(t *testing.T) {
	for i := range exams.Leaks {
		r := build(1, i)
		onset := r.Onset.Seconds()
		if v := r.lost.at(onset - 1e-6); v != 0 {
			t.Errorf("%d %s: lost %g MiB before the onset", i, r.Kind, v)
		}
		if v := r.lost.at(onset + 10*minute); v <= 0 {
			t.Errorf("%d %s: lost %g MiB 10 min after the onset", i, r.Kind, v)
		}
	}
}
