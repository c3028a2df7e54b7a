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

// processCollector tells what the exporter's own process takes, under the names of client_golang's collector. That one reads
// the limits, the time of the boot and the counters of the network anew at each scrape, which takes 0.5 ms, a fifth of
// a scrape of 8 GPUs. The first two stay as they are, and the counters are those of the whole network namespace: with the
// host's network they are the node's.
type processCollector struct {
	process procfs.Proc
	fixed   []prometheus.Metric // what stays as it is

	cpu, files, virtual, resident *prometheus.Desc
}

// newProcessCollector returns a collector of the process that calls it. Its methods may be called from any goroutine.
func newProcessCollector() (*processCollector, error) {
	process, err := procfs.Self()
	if err != nil {
		return nil, fmt.Errorf("reading what the process takes: %w", err)
	}
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc("process_"+name, help, nil, nil) }
	c := &processCollector{
		process:  process,
		cpu:      desc("cpu_seconds_total", "Total user and system CPU time spent in seconds."),
		files:    desc("open_fds", "Number of open file descriptors."),
		virtual:  desc("virtual_memory_bytes", "Virtual memory size in bytes."),
		resident: desc("resident_memory_bytes", "Resident memory size in bytes."),
	}
	fix := func(name, help string, v float64) {
		c.fixed = append(c.fixed, prometheus.MustNewConstMetric(desc(name, help), prometheus.GaugeValue, v))
	}
	stat, err := process.Stat()
	if err != nil {
		return nil, fmt.Errorf("reading what the process takes: %w", err)
	}
	if start, err := stat.StartTime(); err == nil { // it needs the time of the boot, which a sandbox may hide
		fix("start_time_seconds", "Start time of the process since unix epoch in seconds.", start)
	}
	if limits, err := process.Limits(); err == nil {
		fix("max_fds", "Maximum number of open file descriptors.", float64(limits.OpenFiles))
		fix("virtual_memory_max_bytes", "Maximum amount of virtual memory available in bytes.", float64(limits.AddressSpace))
	}
	return c, nil
}

// Describe implements prometheus.Collector.
func (c *processCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, m := range c.fixed {
		ch <- m.Desc()
	}
	for _, d := range []*prometheus.Desc{c.cpu, c.files, c.virtual, c.resident} {
		ch <- d
	}
}

// Collect implements prometheus.Collector. What cannot be read is absent.
func (c *processCollector) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c.fixed {
		ch <- m
	}
	if stat, err := c.process.Stat(); err == nil {
		ch <- prometheus.MustNewConstMetric(c.cpu, prometheus.CounterValue, stat.CPUTime())
		ch <- prometheus.MustNewConstMetric(c.virtual, prometheus.GaugeValue, float64(stat.VirtualMemory()))
		ch <- prometheus.MustNewConstMetric(c.resident, prometheus.GaugeValue, float64(stat.ResidentMemory()))
	}
	if n, err := c.process.FileDescriptorsLen(); err == nil {
		ch <- prometheus.MustNewConstMetric(c.files, prometheus.GaugeValue, float64(n))
	}
}
