// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package humanize writes amounts as people do.
package humanize

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

var byteUnits = []struct {
	name string
	size float64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// Bytes writes an amount of memory in the binary units of nvidia-smi, with three
// digits that count.
func Bytes(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "?"
	}
	for _, u := range byteUnits {
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
	per, unit := 60.0, "min"
	switch a := math.Abs(bytesPerSecond); {
	case a == 0 || a*60 >= 1<<20:
	case a*3600 >= 1<<20:
		per, unit = 3600, "h"
	default:
		per, unit = 86400, "d"
	}
	return Bytes(bytesPerSecond*per) + "/" + unit
}

// Duration writes a time in its two largest units, such as 1 h 12 min; 0 s if it is negative, as after a clock went back.
func Duration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(max(0, d).Seconds()))
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

// Seconds writes a number of seconds as Duration does, however large.
func Seconds(s float64) string {
	const decades = 1e9 // many more do not fit into a time.Duration
	return Duration(time.Duration(min(s, decades) * float64(time.Second)))
}

// Count writes a number and its noun.
func Count(n int, what string) string {
	switch {
	case n == 1:
	case what == "process":
		what += "es"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
