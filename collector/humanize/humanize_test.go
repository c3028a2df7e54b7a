// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package humanize

import (
	"math"
	"testing"
	"time"
)

func TestBytes(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 1023.9 * 1024: "1.00 MiB", 5.25 * (1 << 30): "5.25 GiB",
		79.647 * (1 << 30): "79.6 GiB", 99.97 * (1 << 20): "100 MiB", 640 << 20: "640 MiB", 3 << 40: "3.00 TiB",
		-2 << 20: "-2.00 MiB", math.Inf(1): "?", math.NaN(): "?",
	} {
		if got := Bytes(v); got != want {
			t.Errorf("Bytes(%g) = %q, want %q", v, got, want)
		}
	}
}

func TestRate(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0 B/min", 1 << 20: "+60.0 MiB/min", -(1 << 20): "-60.0 MiB/min",
		(1 << 20) / 60.0: "+1.00 MiB/min", 1000: "+3.43 MiB/h", 100: "+8.24 MiB/d", 0.01: "+864 B/d",
	} {
		if got := Rate(v); got != want {
			t.Errorf("Rate(%g) = %q, want %q", v, got, want)
		}
	}
}

func TestDuration(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0: "0 s", 59900 * time.Millisecond: "59 s", time.Minute: "1 min", 90 * time.Minute: "1 h 30 min", 2 * time.Hour: "2 h",
		day: "1 d", 3*day + 5*time.Hour + time.Minute: "3 d 5 h", 365 * day: "over a year", -time.Minute: "-1 min", math.MinInt64 + 1: "-over a year",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%s) = %q, want %q", d, got, want)
		}
	}
	for s, want := range map[float64]string{0.5: "0 s", 3600: "1 h", 1e30: "over a year", math.Inf(1): "never"} {
		if got := Seconds(s); got != want {
			t.Errorf("Seconds(%g) = %q, want %q", s, got, want)
		}
	}
}

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
