// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// A storm of events is counted, and logged once a minute.
func TestXIDStormIsLoggedOnceAMinute(t *testing.T) {
	runSampler(t, &scriptSource{devices: []gpu.Device{newGPU(0, flat(1<<30))}}, nil, func(s *Sampler, out *lines) {
		after(2 * time.Second)
		for range 10_000 {
			s.event(gpu.Event{UUID: "GPU-0", XID: 31})
		}
		s.event(gpu.Event{UUID: "GPU-0", XID: 79})
		for xid := range uint64(2 * maxXIDs) {
			s.event(gpu.Event{UUID: "GPU-none", XID: 1000 + xid})
		}
		if n := out.count("xid=31 "); n != 1 {
			t.Errorf("%d lines of a storm", n)
		}
		if n := out.count("xid=79 "); n != 1 {
			t.Errorf("%d lines of another error", n)
		}
		if n := out.count("XID error"); n > maxXIDs {
			t.Errorf("%d lines in all", n)
		}
		after(time.Minute)
		s.event(gpu.Event{UUID: "GPU-0", XID: 31})
		if n := out.count("unsaid_before=9999"); n != 1 {
			t.Errorf("%d lines say how many were unsaid", n)
		}
		s.event(gpu.Event{UUID: "GPU-none", XID: 48}) // as many were logged as are remembered, and that was long ago
		if n := out.count("xid=48 "); n != 1 {
			t.Errorf("%d lines of a new error", n)
		}
		for _, x := range s.State().Devices[0].XIDs {
			if x.Code == 31 && x.Count != 10_001 {
				t.Errorf("%d are counted", x.Count)
			}
		}
	})
}

// A GPU without an XID error takes nothing: who judges a fleet sees tens of thousands come and go.
func TestXIDsOfGPUsWithoutAnError(t *testing.T) {
	var x xidCounts
	x.add("GPU-1", gpu.Event{XID: 79})
	for i := range 100 {
		if counts := x.of(fmt.Sprint("GPU-", i+2)); len(counts) != len(noXIDs) || slices.ContainsFunc(counts, func(c XIDState) bool { return c.Count != 0 }) {
			t.Fatalf("GPU-%d has %+v", i+2, counts)
		}
	}
	kept := 0
	x.byUUID.Range(func(any, any) bool { kept++; return true })
	if i := slices.IndexFunc(noXIDs, func(c XIDState) bool { return c.Code == 79 }); kept != 1 || x.of("GPU-1")[i].Count != 1 {
		t.Errorf("%d GPUs are kept, GPU-1 has %+v", kept, x.of("GPU-1"))
	}
}
