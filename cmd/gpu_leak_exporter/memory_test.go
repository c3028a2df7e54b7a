// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Who set the limit: GOMEMLIMIT before the flag, and that before the control group.
func TestMemoryBudget(t *testing.T) {
	of := func(limit uint64, err error) func() (uint64, error) {
		return func() (uint64, error) { return limit, err }
	}
	for name, c := range map[string]struct {
		flag        float64
		environment string
		goLimit     int64
		group       func() (uint64, error)
		want        budget
		fails       bool
	}{
		"a control group":             {group: of(256<<20, nil), want: budget{256 << 20, "the control group"}},
		"one without a limit":         {group: of(0, memlimit.ErrNoLimit)},
		"no control group":            {group: of(0, memlimit.ErrNoCgroup)},
		"no control groups":           {group: of(0, memlimit.ErrCgroupsNotSupported)},
		"the limit of all memory":     {group: of(1<<62, nil)},
		"one that cannot be read":     {group: of(0, errors.New("permission denied")), fails: true},
		"the flag":                    {flag: 1 << 30, group: of(256<<20, nil), want: budget{1 << 30, "--memory.limit"}},
		"the environment":             {flag: 1 << 30, environment: "100MiB", goLimit: 100 << 20, group: of(256<<20, nil), want: budget{100 << 20, "GOMEMLIMIT"}},
		"the environment says none":   {flag: 1 << 30, environment: "off", goLimit: math.MaxInt64, group: of(256<<20, nil)},
		"the flag, and no such group": {flag: 1 << 30, group: of(0, errors.New("permission denied")), want: budget{1 << 30, "--memory.limit"}},
	} {
		got, err := memoryBudget(c.flag, c.environment, c.goLimit, c.group)
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		if has := len(got.collectors()) > 0; has != (c.want.bytes > 0) {
			t.Errorf("%s: has a metric: %t", name, has)
		}
	}
}

// A heap that is large is collected more often than one that is small.
func TestFollowHeap(t *testing.T) {
	if gcPercent(largeHeap) != smallPercent || gcPercent(largeHeap+1) != largePercent {
		t.Error("not by its size")
	}
	before := debug.SetGCPercent(smallPercent)
	defer debug.SetGCPercent(before)
	held := make([]byte, 2*largeHeap)
	runtime.GC()
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		environment string
		want        int
	}{{"100", smallPercent}, {"", largePercent}} {
		t.Setenv("GOGC", c.environment)
		followHeap(ended)
		if got := debug.SetGCPercent(-1); got != c.want {
			t.Errorf("GOGC=%s: %d percent, want %d", c.environment, got, c.want)
		}
		debug.SetGCPercent(smallPercent)
	}
	runtime.KeepAlive(held)
}
