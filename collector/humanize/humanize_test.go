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
		0: "0 B/min", 1 << 20: "60.0 MiB/min", -(1 << 20): "-60.0 MiB/min",
		(1 << 20) / 60.0: "1.00 MiB/min", 1000: "3.43 MiB/h", 100: "8.24 MiB/d", 0.01: "864 B/d",
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
		day: "1 d", 3*day + 5*time.Hour + time.Minute: "3 d 5 h", 365 * day: "over a year", -time.Minute: "0 s", math.MinInt64: "0 s",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%s) = %q, want %q", d, got, want)
		}
	}
	for s, want := range map[float64]string{0.5: "0 s", 3600: "1 h", 1e30: "over a year", math.Inf(1): "over a year"} {
		if got := Seconds(s); got != want {
			t.Errorf("Seconds(%g) = %q, want %q", s, got, want)
		}
	}
}
