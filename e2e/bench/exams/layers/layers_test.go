// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package layers

import (
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
)

func TestShares(t *testing.T) {
	for want, list := range map[int][]exams.Family[*plan]{exams.Leaks: families.Leaks, exams.Healthy: families.Healthy} {
		sum := 0
		for _, f := range list {
			sum += f.Count
		}
		if sum != want {
			t.Errorf("the families add up to %d series, want %d", sum, want)
		}
	}
}

// Nothing is lost before the onset: a series is the same as its background.
func TestOnset(t *testing.T) {
	for i := range exams.Leaks {
		p, background := draw(1, i), draw(1, i)
		background.leak = nil
		for at := 0.0; at < p.onset; at += p.interval {
			if used, want := p.used(at), background.used(at); used != want {
				t.Fatalf("%d %s: %g bytes at %g s, %g without the leak", i, Kind(i), used, at, want)
			}
		}
		if v := p.leak(10 * 60); v <= 0 {
			t.Errorf("%d %s: lost %g bytes 10 min after the onset", i, Kind(i), v)
		}
	}
}
