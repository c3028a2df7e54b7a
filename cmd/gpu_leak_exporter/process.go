// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strings"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/procfs"
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

// processCollector tells what the exporter's own process takes, under the names of client_golang's collector. That one reads the limits,
// the time of the boot and the counters of the network at each scrape. This takes 0.5 ms, a fifth of a scrape of 8 GPUs, and in the
// network of the host the counters are those of the node.
type processCollector struct {
	process procfs.Proc
	fixed   []prometheus.Metric
}

// newProcessCollector returns the collector of the process that calls it; that of client_golang where there is no procfs.
func newProcessCollector() prometheus.Collector {
	process, err := procfs.Self()
	stat, errStat := process.Stat()
	start, errStart := stat.StartTime()
	limits, errLimits := process.Limits()
	if errors.Join(err, errStat, errStart, errLimits) != nil {
		return collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})
	}
	return &processCollector{process, []prometheus.Metric{
		processMetric("start_time_seconds", "Start time of the process since unix epoch in seconds.", start),
		processMetric("max_fds", "Maximum number of open file descriptors.", float64(limits.OpenFiles)),
		processMetric("virtual_memory_max_bytes", "Maximum amount of virtual memory available in bytes.", float64(limits.AddressSpace)),
	}}
}

func processMetric(name, help string, v float64) prometheus.Metric {
	kind := prometheus.GaugeValue
	if strings.HasSuffix(name, "_total") {
		kind = prometheus.CounterValue
	}
	return prometheus.MustNewConstMetric(prometheus.NewDesc("process_"+name, help, nil, nil), kind, v)
}

// Describe implements prometheus.Collector.
func (c *processCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector. A value that cannot be read is absent.
func (c *processCollector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.fixed {
		ch <- m
	}
	if stat, err := c.process.Stat(); err == nil {
		ch <- processMetric("cpu_seconds_total", "Total user and system CPU time spent in seconds.", stat.CPUTime())
		ch <- processMetric("resident_memory_bytes", "Resident memory size in bytes.", float64(stat.ResidentMemory()))
		ch <- processMetric("virtual_memory_bytes", "Virtual memory size in bytes.", float64(stat.VirtualMemory()))
	}
	if n, err := c.process.FileDescriptorsLen(); err == nil {
		ch <- processMetric("open_fds", "Number of open file descriptors.", float64(n))
	}
}
