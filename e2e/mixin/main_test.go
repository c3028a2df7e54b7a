// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package mixin tests the rules and dashboards that the mixin renders into dashboards/:
// against the series that the exporter has, and with Prometheus's own packages.
package mixin

import (
	"os"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// patience is how long a test waits for what has to come. It only costs time when it
// does not come.
const patience = 10 * time.Minute

// simulated starts an exporter on simulated GPUs, with a limit of memory as in a pod.
func simulated(t *testing.T, scenario, speed string, args ...string) *harness.Process {
	t.Helper()
	return harness.StartExporter(t, harness.Options{
		Env: []string{"GOMEMLIMIT=1GiB"}, Args: append(args, "--source=sim:"+scenario, "--source.speed="+speed),
	})
}
