// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"testing"
	"testing/synctest"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// The highest clocks are asked for once, again after a failure, and anew once the library was initialised anew.
func TestHighestClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node, s, l, d := newOneGPU(t)
		defer s.Close()
		var there byte
		for _, name := range []string{"nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo"} {
			s.library.symbols.Store(name, unsafe.Pointer(&there))
		}
		read := func() (clocks []gpu.Clock) {
			if err := d.read(func(r *reading) error { clocks = r.clocks(); return nil }); err != nil {
				t.Fatal(err)
			}
			return clocks
		}
		asked := func(want int) {
			t.Helper()
			if _, _, n := l.count("nvmlDeviceGetMaxClockInfo"); n != want {
				t.Errorf("asked %d times, want %d", n, want)
			}
		}
		fault := &simFault{call: "nvmlDeviceGetMaxClockInfo", code: nvml.ERROR_UNKNOWN}
		node.begin(fault)
		if c := read(); c[0].Max.OK || !c[0].Current.OK {
			t.Errorf("while the call fails: %+v", c)
		}
		asked(4)
		node.end(fault)
		for range 3 {
			if c := read(); len(c) != 4 || c[3].Max.V != 1980e6 || c[3].Current.V != 345e6 {
				t.Errorf("%+v", c)
			}
		}
		asked(8)
		node.unload()
		_, _ = s.Devices(t.Context())
		node.load(false)
		if devices, err := s.Devices(t.Context()); err != nil || len(devices) != 1 || devices[0] != gpu.Device(d) {
			t.Fatalf("%d GPUs: %v", len(devices), err)
		}
		read()
		asked(12)
	})
}
