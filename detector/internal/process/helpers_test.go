// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
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
