// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestProbe runs the example of a program that tells what its allocator holds, on a GPU of the
// fake library: it has the series of a probe, and another process has none.
func TestProbe(t *testing.T) {
	t.Parallel()
	const used = 3 * gib
	binary := filepath.Join(t.TempDir(), "example")
	if out, err := exec.Command("gcc", "-o", binary, filepath.Join(harness.Root(), "probe/example.c")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := exec.Command(binary)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait() // it was killed
	}()
	pid := uint32(c.Process.Pid)
	m := newMachine(t, 1)
	link(t, fmt.Sprintf("/proc/%d", pid), filepath.Join(m.procfs, strconv.Itoa(int(pid))))
	other := fakenvml.Process{PID: m.child(t), Memory: fakenvml.Constant(used)}
	m.GPUs[0].Processes = []fakenvml.Process{{PID: pid, Memory: fakenvml.Constant(used)}, other}
	labels := with(m.id(0), "pid", strconv.Itoa(int(pid)))
	p := m.start(t)
	s := eventually(t, p, func(s harness.Metrics) error {
		return want(s, gib, "gpu_process_allocator_allocated_bytes", labels)
	})
	if err := errors.Join(
		want(s, 2*gib, "gpu_process_allocator_reserved_bytes", labels),
		want(s, used-2*gib, "gpu_process_untracked_memory_bytes", labels),
		want(s, 1, "gpu_process_allocator_info", with(labels, "framework", "mypool")),
		gone(s, "gpu_process_allocator_active_bytes", nil), // it does not tell
		gone(s, "gpu_process_allocator_info", with(m.id(0), "pid", strconv.Itoa(int(other.PID)))),
	); err != nil {
		t.Error(err)
	}
	m.GPUs[0].Processes = []fakenvml.Process{other}
	m.apply(t)
	eventually(t, p, func(s harness.Metrics) error {
		return gone(s, "gpu_process_allocator_allocated_bytes", nil)
	})
}
