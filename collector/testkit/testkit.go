// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package testkit is what tests share.
package testkit

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// Update asks to rewrite the golden files.
var Update = flag.Bool("update", false, "rewrite the golden files")

// Must ends the test at an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Equal checks that got is want, part by part. The format tells of what they are.
func Equal[T any](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", fmt.Sprintf(format, args...), got, want)
	}
}

// Read returns the text of a file.
func Read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	Must(t, err)
	return string(text)
}

// Write writes a file, in folders that it makes.
func Write(t testing.TB, path, text string) {
	t.Helper()
	Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	Must(t, os.WriteFile(path, []byte(text), 0o644))
}

// Golden compares a text with a golden file, or rewrites that with -update.
func Golden(t testing.TB, path, got string) {
	t.Helper()
	if *Update {
		Write(t, path, got)
	}
	if got != Read(t, path) {
		t.Errorf("differs from %s; see what changed with go test . -update and git diff\n%.3000s", path, got)
	}
}

// Near ends the test where got is not want, give or take a share of it.
func Near(t testing.TB, what string, got, want, relative float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > relative*math.Abs(want) {
		t.Fatalf("%s is %.17g, want %.17g within %g of it", what, got, want, relative)
	}
}

// Devices returns the devices of a source, which the test closes.
func Devices(t testing.TB, src gpu.Source, err error) []gpu.Device {
	t.Helper()
	Must(t, err)
	t.Cleanup(func() { src.Close() })
	devices, err := src.Devices(t.Context())
	Must(t, err)
	return devices
}

// Next waits for the next sample of a device, of which it has missed none, and reads it.
func Next(t testing.TB, d gpu.Device) gpu.Sample {
	t.Helper()
	missed, err := d.Wait(t.Context())
	if err != nil || missed != 0 {
		t.Fatalf("Wait: missed %d, %v", missed, err)
	}
	s, err := d.Read(t.Context())
	Must(t, err)
	return s
}
