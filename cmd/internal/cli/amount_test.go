// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"
	"time"
)

func TestParseBytes(t *testing.T) {
	for s, want := range map[string]float64{
		"0": 0, "42": 42, "42B": 42, "16MiB": 16 << 20, "1.5 GB": 1.5e9, "1gib": 1 << 30, "2KB": 2000, "1e6": 1e6, "-1MB": -1e6,
	} {
		if got, err := ParseBytes(s); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %g, %v, want %g", s, got, err, want)
		}
	}
	for _, s := range []string{"", "B", "MiB", "16M", "16Mi", "a lot", "NaN", "infB", "1 2KB"} {
		if got, err := ParseBytes(s); err == nil {
			t.Errorf("ParseBytes(%q) = %g", s, got)
		}
	}
}

func TestFormatBytes(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0B", 1: "1B", 16 << 20: "16MiB", 1.5e9: "1500MB", 1 << 48: "256TiB", 1e6: "1MB", 12345: "12345B", 0.5: "0.5",
	} {
		got := FormatBytes(v)
		if back, err := ParseBytes(got); got != want || err != nil || back != v {
			t.Errorf("FormatBytes(%g) = %q, want %q; read back: %g, %v", v, got, want, back, err)
		}
	}
}

func TestParseDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"0.5s": 500 * time.Millisecond, "1h30m": 90 * time.Minute, "1d": 24 * time.Hour, "1w": 7 * 24 * time.Hour, "0": 0,
	} {
		if got, err := ParseDuration(s); err != nil || got != want {
			t.Errorf("ParseDuration(%q) = %s, %v, want %s", s, got, err, want)
		}
	}
	for _, s := range []string{"", "1", "1x", "d"} {
		if got, err := ParseDuration(s); err == nil {
			t.Errorf("ParseDuration(%q) = %s", s, got)
		}
	}
}
