// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestZombie has two processes that hold memory and compute nothing: one that has
// lost its parent, and a server of the system.
func TestZombie(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 1)
	for pid, group := range map[int]string{70_001: "/user.slice/user-1000.slice/session-2.scope", 70_002: "/system.slice/vllm.service"} {
		dir := filepath.Join(m.procfs, strconv.Itoa(pid))
		write(t, filepath.Join(dir, "stat"), fmt.Sprintf("%d (serve) S 1 1 1 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 %d 0 0\n", pid, pid))
		write(t, filepath.Join(dir, "cgroup"), "0::"+group+"\n")
		m.GPUs[0].Processes = append(m.GPUs[0].Processes, fakenvml.Process{PID: uint32(pid), Memory: fakenvml.Constant(10 * gib)})
	}
	rules := filepath.Join(t.TempDir(), "rules.yml")
	write(t, rules, "groups:\n- name: test\n  rules:\n  - match: ['{}']\n    zombie_after: 10s\n")
	p := m.start(t, "--detector.config="+rules, "--detector.min-span=1s")
	left, server := with(m.id(0), "pid", "70001"), with(m.id(0), "pid", "70002")
	var s harness.Metrics
	harness.Eventually(t, patience, func() error { // what it judges by takes a few blocks of 10 s
		var err error
		if s, err = p.TryScrape(); err != nil {
			return err
		}
		return want(s, 1, "gpu_process_memory_pattern", with(left, "pattern", "zombie"))
	})
	if err := errors.Join(gone(s, "gpu_process_memory_pattern", with(server, "pattern", "zombie"))); err != nil {
		t.Error(err)
	}
	if idle, err := s.Value("gpu_process_idle_seconds", left); err != nil || idle < 10 {
		t.Errorf("idle for %g s: %v", idle, err)
	}
	// It computes again.
	for i := range m.GPUs[0].Processes {
		m.GPUs[0].Processes[i].Utilization = &fakenvml.Utilization{SM: 50}
	}
	m.apply(t)
	eventually(t, p, func(s harness.Metrics) error {
		return gone(s, "gpu_process_memory_pattern", with(left, "pattern", "zombie"))
	})
	// And it stays so in the samples that follow.
	later := m.goesOn(t, p, p.Scrape(t), 0, 1, nil)
	if err := gone(later, "gpu_process_memory_pattern", with(left, "pattern", "zombie")); err != nil {
		t.Error(err)
	}
}
