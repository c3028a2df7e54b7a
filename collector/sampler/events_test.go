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

// A storm of events is counted, and logged at its beginning and then more and more seldom.
func TestXIDStormIsNotLogged(t *testing.T) {
	runSampler(t, &scriptSource{devices: []gpu.Device{newGPU(0, flat(1<<30))}}, nil, func(s *Sampler, out *lines) {
		after(2 * time.Second)
		xid := func(uuid string, code uint64) { s.event(gpu.Event{UUID: uuid, XID: code, Time: time.Now()}) }
		for range 10_000 {
			xid("GPU-0", 31)
		}
		xid("GPU-0", 79)
		for code := range uint64(2 * maxXIDs) {
			xid("GPU-none", 1000+code)
		}
		after(time.Minute)
		xid("GPU-0", 31)
		for part, want := range map[string]int{"xid=31 ": 15, "xid=31 gpu=0 uuid=GPU-0 pci_bus_id=00000000:3A:00.0 count=10001": 1, "xid=79 ": 1, "not listed": maxXIDs - len(noXIDs)} {
			out.says(t, want, part)
		}
		equal(t, xidOf(s.State().Devices[0], 31).Count, 10_001, "counted")
	})
}

// A GPU without an XID error takes nothing: who judges a fleet sees tens of thousands come and go.
func TestXIDsOfGPUsWithoutAnError(t *testing.T) {
	var x xidCounts
	x.add("GPU-1", gpu.Event{XID: 79})
	for i := range 100 {
		if counts := x.of(fmt.Sprint("GPU-", i+2)); &counts[0] != &noXIDs[0] {
			t.Fatalf("GPU-%d has counts of its own: %+v", i+2, counts)
		}
	}
	if slices.ContainsFunc(noXIDs, func(c XIDState) bool { return c.Count != 0 }) || len(x.of("GPU-1")) != len(noXIDs) {
		t.Errorf("GPU-1 has %+v, the others %+v", x.of("GPU-1"), noXIDs)
	}
}
