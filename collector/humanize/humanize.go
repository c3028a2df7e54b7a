// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package humanize writes and reads amounts as people do.
package humanize

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

var byteUnits = []struct {
	name string
	size float64
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"KB", 1e3},
	{"B", 1},
}

// Bytes writes an amount of memory in the binary units of nvidia-smi, with three
// digits that count.
func Bytes(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "?"
	}
	for _, u := range byteUnits[:4] {
		// 1023.9 KiB is written as 1.00 MiB.
		if math.Abs(v) >= u.size*0.9995 {
			return threeDigits(v/u.size) + " " + u.name
		}
	}
	return strconv.FormatFloat(v, 'f', 0, 64) + " B"
}

func threeDigits(v float64) string {
	decimals := 2
	switch a := math.Abs(v); {
	case a >= 99.95:
		decimals = 0
	case a >= 9.995:
		decimals = 1
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// Rate writes a growth in bytes per second in the unit that is easiest to
// imagine: by the minute, or by the hour or day where that is less than 1 MiB.
func Rate(bytesPerSecond float64) string {
	sign := ""
	if bytesPerSecond > 0 {
		sign = "+"
	}
	per, unit := 60.0, "min"
	switch a := math.Abs(bytesPerSecond); {
	case a == 0 || a*60 >= 1<<20:
	case a*3600 >= 1<<20:
		per, unit = 3600, "h"
	default:
		per, unit = 86400, "d"
	}
	return sign + Bytes(bytesPerSecond*per) + "/" + unit
}

// Duration writes a time in its two largest units, such as 1 h 12 min.
func Duration(d time.Duration) string {
	if d < 0 {
		return "-" + Duration(-d)
	}
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 24*time.Hour:
		return twoUnits(int(d.Minutes()), 60, "h", "min")
	case d < 365*24*time.Hour:
		return twoUnits(int(d.Hours()), 24, "d", "h")
	}
	return "over a year"
}

// twoUnits writes n small units, of which size make a large one.
func twoUnits(n, size int, large, small string) string {
	s := fmt.Sprintf("%d %s", n/size, large)
	if n%size > 0 {
		s += fmt.Sprintf(" %d %s", n%size, small)
	}
	return s
}

// Seconds writes a number of seconds as Duration does; "never" for +Inf.
func Seconds(s float64) string {
	switch {
	case math.IsInf(s, 1):
		return "never"
	case s >= math.MaxInt64/float64(time.Second):
		return Duration(math.MaxInt64)
	}
	return Duration(time.Duration(s * float64(time.Second)))
}

// ParseBytes reads an amount of memory: a number of bytes, or a number with one
// of the units B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB and TiB (powers
// of 1024), in any case.
func ParseBytes(s string) (float64, error) {
	number, size := s, 1.0
	for _, u := range byteUnits {
		if n := len(s) - len(u.name); n > 0 && strings.EqualFold(s[n:], u.name) {
			number, size = strings.TrimRight(s[:n], " "), u.size
			break
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, errors.New("is not a number of bytes, such as 16MiB, 1.5GB or 16777216")
	}
	return v * size, nil
}

// FormatBytes writes bytes so that ParseBytes reads the same number back.
func FormatBytes(v float64) string {
	for _, u := range byteUnits {
		n := v / u.size
		if n == math.Trunc(n) && (u.size == 1 || (n >= 1 && n < 1e4)) {
			return strconv.FormatFloat(n, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

// ParseDuration reads a time as Go does (0.5s, 1h30m) or as Prometheus does (1d,
// 1w2d).
func ParseDuration(s string) (time.Duration, error) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, nil
	}
	d, err := model.ParseDuration(s)
	if err != nil {
		return 0, errors.New("is not a duration, such as 500ms, 90s, 1h30m or 1d")
	}
	return time.Duration(d), nil
}

// FormatDuration writes d as Prometheus does, such as 1h30m.
func FormatDuration(d time.Duration) string { return model.Duration(d).String() }
