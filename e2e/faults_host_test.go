// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// allGPUs are those of a faultyMachine.
var allGPUs = []int{0, 1, 2, 3}

// through watches an exporter while something goes on around it, and until it is ready again. well are the GPUs that lose
// nothing by it. It begins once a client is connected, which it may keep others from.
func (m *machine) through(t *testing.T, p *harness.Process, name string, well []int, begin, end func(), ready func(harness.Metrics) error) {
	t.Helper()
	k := &faultKind{Name: name, faults: 1}
	healthy := m.follow(t, p, eventually(t, p, ready), well)
	k.watch(t, p, 2*faultTime, begin)
	end()
	cleared := time.Now()
	after := eventually(t, p, ready)
	k.recovery = time.Since(cleared)
	healthy.note(t, after, k)
	k.judge(t, name)
	faultRows.add(k)
}

// TestFaultsOfTheHost takes the exporter's descriptors and the directory of its state file away, and has the disk of that file be
// full, and read-only.
func TestFaultsOfTheHost(t *testing.T) {
	m, _ := faultyMachine(t)
	m.calls += "2" // one file a process
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatalf("a disk of its own needs root: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	dir, full := filepath.Join(disk, "state"), filepath.Join(disk, "full")
	harness.Must(t, os.Mkdir(dir, 0o755))
	// Without a descriptor the library cannot read its script either.
	p := harness.StartExporter(t, m.options("--detector.state-file="+filepath.Join(dir, "state"), "--detector.state-interval=1s"))
	written := func(v float64) func(harness.Metrics) error {
		return func(s harness.Metrics) error {
			return errors.Join(m.allUp(s), want(s, v, "gpu_leak_exporter_state_file_last_write_successful", nil))
		}
	}
	limit := func(n uint64) {
		t.Helper()
		var before unix.Rlimit
		harness.Must(t, unix.Prlimit(p.PID(), unix.RLIMIT_NOFILE, nil, &before))
		before.Cur = n
		harness.Must(t, unix.Prlimit(p.PID(), unix.RLIMIT_NOFILE, &before, nil))
	}
	remount := func(flags uintptr) {
		t.Helper()
		harness.Must(t, unix.Mount("tmpfs", disk, "tmpfs", unix.MS_REMOUNT|flags, "size=1m"))
	}
	for name, fault := range map[string]struct {
		begin, end func()
		lost       bool // nothing can be written meanwhile
	}{
		"host: no descriptor is left":                   {func() { limit(1) }, func() { limit(1024) }, false},
		"host: the directory of the state file is gone": {func() { harness.Must(t, os.Rename(dir, dir+"2")) }, func() { harness.Must(t, os.Rename(dir+"2", dir)) }, true},
		"host: the disk of the state file is full": {
			func() { _ = os.WriteFile(full, make([]byte, 2<<20), 0o600) }, // as much as there is room for
			func() { _ = os.Remove(full) }, true,
		},
		"host: the disk of the state file is read-only": {func() { remount(unix.MS_RDONLY) }, func() { remount(0) }, true},
	} {
		m.through(t, p, name, allGPUs, func() {
			fault.begin()
			if fault.lost {
				eventually(t, p, written(0))
			}
		}, fault.end, written(1))
	}
}

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
