// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
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
