// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

const (
	mib = stat.Bytes(1 << 20)
	gib = stat.Bytes(1 << 30)
	// start is when tests begin: 0 would mean "never" in many a field.
	start = 1000 * time.Hour
)

func defaults() *series.Config {
	cfg := series.DefaultConfig()
	return &cfg
}

func seconds(n int) time.Duration { return start + time.Duration(n)*time.Second }

// equal checks that got is want. The format tells of what they are.
func equal[T comparable](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", fmt.Sprintf(format, args...), got, want)
	}
}
