// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"strconv"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// TestProgramNamesAreBounded names more programs than are kept.
func TestProgramNamesAreBounded(t *testing.T) {
	n := programNames{}
	for i := range maxNamed + 10 {
		o := &gpu.Owner{Process: strconv.Itoa(i)}
		if n.complete(&gpu.Sample{Processes: []gpu.Process{{Owner: o}, {}}}); o.Runs != (&gpu.Program{Name: o.Process}).Hash(nil) {
			t.Fatalf("program %d: %d", i, o.Runs)
		}
	}
	if len(n) != 10 {
		t.Errorf("keeps %d names", len(n))
	}
}
