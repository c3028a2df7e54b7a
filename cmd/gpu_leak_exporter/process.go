// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"
)

// gcPercent is by how much the heap may grow between two collections, as in GOGC. With 16 GPUs of 256 processes (TestCost) 122 MiB are
// resident. 50 would save 17 MiB more and collect half as often again; Go's 100 holds 133 MiB. A small heap has little to save.
const gcPercent = 75

// limitMemory sets how often garbage is collected, and keeps Go's memory to nine tenths of the limit of the control group, which group
// reads. Pages of files and what the driver's library allocates come on top. It returns that limit in bytes, 0 without one.
// GOGC and GOMEMLIMIT in the environment hold instead. Call it once, before the work begins.
func limitMemory(group memlimit.Provider) (float64, error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	var budget uint64
	limit, err := memlimit.Set(memlimit.WithProvider(func() (_ uint64, err error) {
		budget, err = group()
		return budget, err
	}))
	switch {
	case errors.Is(err, memlimit.ErrNoCgroup), errors.Is(err, memlimit.ErrCgroupsNotSupported):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("reading the memory limit of the control group: %w", err)
	case limit == math.MaxInt64:
		return 0, nil
	case budget == 0: // the environment has GOMEMLIMIT
		return float64(limit), nil
	}
	return float64(budget), nil
}

// budgetMetric tells what limitMemory returned.
func budgetMetric(bytes float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: program + "_budget_bytes",
		Help: "Memory that the exporter may hold: the limit of its control group; where the environment has GOMEMLIMIT, that. " +
			"To be held against process_resident_memory_bytes. Absent without a limit.",
	}, func() float64 { return bytes })
}
