// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import (
	"strconv"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Each part, the secret, the model and the profile make another program; the same make the same.
func TestPrograms(t *testing.T) {
	seen := map[detector.Program]int{}
	for i, c := range []struct {
		secret         string
		program        Program
		model, profile string
	}{
		{"", Program{Name: "a"}, "", ""},
		{"s", Program{Name: "a"}, "", ""},
		{"", Program{Name: "b"}, "", ""},
		{"", Program{Name: "a", Image: "b"}, "", ""},
		{"", Program{Name: "a", Job: "b"}, "", ""},
		{"", Program{Name: "a", Arguments: "b"}, "", ""},
		{"", Program{Name: "ab"}, "", ""},
		{"", Program{Name: "a"}, "T4", ""},
		{"", Program{Name: "a"}, "A100", ""},
		{"", Program{Name: "a"}, "A100", "1g.10gb"},
		{"", Program{Name: "a"}, "A100", "2g.20gb"},
	} {
		o := &Owner{Runs: c.program.Hash([]byte(c.secret))}
		runs := o.RunsOn(c.model, c.profile)
		if other, taken := seen[runs]; taken || runs == 0 {
			t.Errorf("program %d is %d, as program %d", i, runs, other)
		}
		seen[runs] = i
		if again := c.program.Hash([]byte(c.secret)); again != o.Runs {
			t.Errorf("program %d has another name each time", i)
		}
	}
	if runs := (&Program{Image: "b", Job: "c"}).Hash(nil); runs != 0 {
		t.Errorf("of no name: %d", runs)
	}
	if runs := (*Owner)(nil).RunsOn("T4", ""); runs != 0 {
		t.Errorf("of nobody: %d", runs)
	}
}

// TestProgramNamesAreBounded names more programs than are kept.
func TestProgramNamesAreBounded(t *testing.T) {
	n := programNames{}
	for i := range maxNamed + 10 {
		o := &Owner{Process: strconv.Itoa(i)}
		if n.complete(&Sample{Processes: []Process{{Owner: o}, {}}}); o.Runs != (&Program{Name: o.Process}).Hash(nil) {
			t.Fatalf("program %d: %d", i, o.Runs)
		}
	}
	if len(n) != 10 {
		t.Errorf("keeps %d names", len(n))
	}
}
