// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"os"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
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

// TestProcessMetrics compares them with those of client_golang's collector.
func TestProcessMetrics(t *testing.T) {
	theirs := prometheus.NewRegistry()
	theirs.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	ours := prometheus.NewRegistry()
	ours.MustRegister(processMetrics()...)
	want, err := theirs.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ours.Gather()
	if err != nil || len(got) != 6 {
		t.Fatalf("%v\n%v", err, got)
	}
	for _, family := range got {
		i := 0
		for i < len(want)-1 && want[i].GetName() != family.GetName() {
			i++
		}
		if family.GetName() != want[i].GetName() || family.GetHelp() != want[i].GetHelp() || family.GetType() != want[i].GetType() {
			t.Fatalf("%v is none of theirs", family)
		}
		ours, theirs := family.Metric[0], want[i].Metric[0]
		g, w := ours.GetGauge().GetValue()+ours.GetCounter().GetValue(), theirs.GetGauge().GetValue()+theirs.GetCounter().GetValue()
		if math.Abs(g-w) > 0.05*math.Abs(w)+1 { // the process goes on between the two
			t.Errorf("%s: %g, want %g", family.GetName(), g, w)
		}
	}
}
