// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// simStart is the start of the recordings in tests.
var simStart = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// must ends the test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// devicesOf returns the devices of a source, which the test closes.
func devicesOf(t *testing.T, src gpu.Source, err error) []gpu.Device {
	t.Helper()
	must(t, err)
	t.Cleanup(func() { src.Close() })
	devices, err := src.Devices(t.Context())
	must(t, err)
	return devices
}

// next waits for the next sample of a device and reads it.
func next(t *testing.T, d gpu.Device) gpu.Sample {
	t.Helper()
	missed, err := d.Wait(t.Context())
	if err != nil || missed != 0 {
		t.Fatalf("Wait: missed %d, %v", missed, err)
	}
	s, err := d.Read(t.Context())
	must(t, err)
	return s
}
