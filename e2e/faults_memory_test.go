// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// after returns the exporter as a program that a shell becomes once it has run a command.
func after(t *testing.T, command string) []string {
	t.Helper()
	return []string{"sh", "-c", command + ` && exec "$0" "$@"`, harness.Exporter(t)}
}

// TestFaultsOfTheMemory leaves the exporter little memory, and has the calls of a GPU hang meanwhile, which takes threads.
func TestFaultsOfTheMemory(t *testing.T) {
	t.Parallel()
	group := filepath.Join(memoryGroup(t, 256<<20), "cgroup.procs")
	for name, options := range map[string]harness.Options{
		"host: GOMEMLIMIT is 16 MiB, less than it needs": {Env: []string{"GOMEMLIMIT=16MiB"}},
		"host: 2 GiB of addresses (RLIMIT_AS)":           {Program: after(t, "ulimit -v 2097152")},
		"host: 256 MiB of private memory (RLIMIT_DATA)":  {Program: after(t, "ulimit -d 262144")},
		"host: a control group of 256 MiB":               {Program: after(t, "echo $$ >"+group)},
	} {
		if raced && options.Program != nil {
			continue // the race detector takes terabytes of addresses, and ten times the memory
		}
		m, first := faultyMachine(t)
		first.Stop(t)
		m.calls += "2"
		m.apply(t)
		o := m.options("--nvml.timeout=1s")
		o.Env, o.Program = append(o.Env, options.Env...), options.Program
		p := harness.StartExporter(t, o)
		m.through(t, p, name, []int{0, 2, 3}, func() {
			m.fault(t, fakenvml.Hang("nvmlDevice*").On(m.GPUs[1].UUID))
		}, func() {
			m.fault(t)
		}, m.allUp)
		p.Stop(t)
	}
}

// memoryGroup makes a control group whose processes have that much memory, in bytes, and returns its directory.
func memoryGroup(t *testing.T, limit int) string {
	t.Helper()
	root, file := "/sys/fs/cgroup", "memory.max"
	if controllers, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control")); err != nil || !strings.Contains(string(controllers), "memory") {
		root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes" // version 1
	}
	dir := filepath.Join(root, fmt.Sprintf("gpu-leak-e2e-%d-%d", os.Getpid(), limit))
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		t.Cleanup(func() { _ = os.Remove(dir) })
		err = os.WriteFile(filepath.Join(dir, file), []byte(strconv.Itoa(limit)), 0o600)
	}
	if err != nil {
		t.Skipf("this machine gives no control group with a limit of memory: %v", err)
	}
	return dir
}
