// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// The budget is the limit of the control group, or GOMEMLIMIT before it. GOGC holds before the exporter's own.
func TestLimitMemory(t *testing.T) {
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(100)
	t.Cleanup(func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	})
	of := func(limit uint64, err error) memlimit.Provider {
		return func() (uint64, error) { return limit, err }
	}
	const none = math.MaxInt64
	for name, c := range map[string]struct {
		environment, gogc string
		before            int64 // what Go took from the environment
		group             memlimit.Provider
		want              float64
		limit             int64 // of Go's memory
		percent           int
		fails             bool
	}{
		"a control group":             {before: none, group: of(1000, nil), want: 1000, limit: 900, percent: gcPercent},
		"one without a limit":         {before: none, group: of(0, memlimit.ErrNoLimit), limit: none, percent: gcPercent},
		"no control group":            {before: none, group: of(0, memlimit.ErrNoCgroup), limit: none, percent: gcPercent},
		"no control groups":           {before: none, group: of(0, memlimit.ErrCgroupsNotSupported), limit: none, percent: gcPercent},
		"one that cannot be read":     {before: none, group: of(0, os.ErrPermission), limit: none, percent: gcPercent, fails: true},
		"GOMEMLIMIT":                  {environment: "500", before: 500, group: of(1000, nil), want: 500, limit: 500, percent: gcPercent},
		"GOMEMLIMIT says no limit":    {environment: "off", before: none, group: of(1000, nil), limit: none, percent: gcPercent},
		"GOGC beside a control group": {gogc: "100", before: none, group: of(1000, nil), want: 1000, limit: 900, percent: 100},
	} {
		t.Setenv("GOGC", c.gogc)
		t.Setenv("GOMEMLIMIT", c.environment)
		if c.environment == "" {
			_ = os.Unsetenv("GOMEMLIMIT")
		}
		debug.SetMemoryLimit(c.before)
		debug.SetGCPercent(100)
		got, err := limitMemory(c.group)
		after := debug.SetGCPercent(100)
		if got != c.want || (err != nil) != c.fails || debug.SetMemoryLimit(-1) != c.limit || after != c.percent {
			t.Errorf("%s: %g, %v; Go has %d bytes and %d percent", name, got, err, debug.SetMemoryLimit(-1), after)
		}
	}
}

// TestProcessCollector compares them with those of client_golang's collector.
func TestProcessCollector(t *testing.T) {
	gather := func(list ...prometheus.Collector) map[string]float64 {
		registry := prometheus.NewRegistry()
		registry.MustRegister(list...)
		families, err := registry.Gather()
		testkit.Must(t, err)
		values := map[string]float64{}
		for _, f := range families {
			m := f.GetMetric()[0]
			values[strings.Join([]string{f.GetName(), f.GetHelp(), f.GetType().String()}, "\n")] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		return values
	}
	ours, theirs := gather(newProcessCollector()), gather(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for name, v := range ours {
		want, ok := theirs[name]
		if !ok || math.Abs(v-want) > 0.05*want+1 { // the process goes on between the two
			t.Errorf("%s: %g, want %g", name, v, want)
		}
	}
	testkit.Equal(t, len(ours), 7, "metrics")
}
