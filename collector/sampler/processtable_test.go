// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// TestMissingForAMoment lists a process, then not, then again: as long as the detector waits for it, it
// has been idle all the time, and is whose it was.
func TestMissingForAMoment(t *testing.T) {
	for _, waits := range []bool{true, false} {
		table := newProcessTable(Config{}, "GPU-0", "0", func() *jobsState { return nil })
		sample := func(at time.Duration, listed bool) {
			s := &gpu.Sample{T: at, ProcessesKnown: true}
			if listed {
				s.Processes = []gpu.Process{{ID: gpu.ProcessID{PID: 7, Start: 70}, SM: gpu.Some(0.0), Owner: &gpu.Owner{Process: "serve"}}}
			}
			table.note(s)
			table.bury(func(processKey) bool { return waits })
		}
		sample(10*time.Second, true)
		sample(11*time.Second, false)
		if len(table.entries) > 0 != waits {
			t.Fatalf("%d entries", len(table.entries))
		}
		sample(12*time.Second, true)
		e, want := table.entries[processKey{id: gpu.ProcessID{PID: 7, Start: 70}}], 10*time.Second
		if !waits {
			want = 12 * time.Second
		}
		if e == nil || e.busy != want || e.owner.Process != "serve" || !e.listed {
			t.Errorf("waits %v: %+v", waits, e)
		}
	}
}
