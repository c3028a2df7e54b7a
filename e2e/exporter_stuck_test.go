// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// goesOn waits until a GPU was read for so many seconds more. Meanwhile always must hold, if it is not nil.
func (m *machine) goesOn(t *testing.T, p *harness.Process, before harness.Metrics, gpu int, seconds float64, always func(harness.Metrics) error) harness.Metrics {
	t.Helper()
	from := m.stamp(t, before, gpu)
	return eventually(t, p, func(s harness.Metrics) error {
		if always != nil {
			if err := always(s); err != nil {
				t.Fatal(err)
			}
		}
		if now := m.stamp(t, s, gpu); now < from+seconds {
			return fmt.Errorf("the last sample is of %g, that before of %g", now, from)
		}
		return nil
	})
}

// stamp is when a GPU was read last.
func (m *machine) stamp(t *testing.T, s harness.Metrics, gpu int) float64 {
	t.Helper()
	v, err := s.Value("gpu_sample_timestamp_seconds", m.id(gpu))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestStuckProcess has five processes on a GPU whose arguments never come: one more than threads may be stuck. Their GPU
// is read as ever, what is known already stays, and the log names them once.
func TestStuckProcess(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 1)
	m.GPUs[0].Processes = []fakenvml.Process{{PID: m.child(t), Memory: fakenvml.Constant(gib)}}
	p := m.start(t, "--nvml.timeout=1s")
	known := with(m.id(0), "pid", strconv.Itoa(int(m.GPUs[0].Processes[0].PID)), "process", filepath.Base(os.Args[0]))
	eventually(t, p, func(s harness.Metrics) error { return want(s, gib, "gpu_process_memory_used_bytes", known) })
	var pipes []string
	for pid := range uint32(5) {
		m.GPUs[0].Processes = append(m.GPUs[0].Processes, fakenvml.Process{PID: 5_000_001 + pid, Memory: fakenvml.Constant(gib)})
		m.setStart(t, 5_000_001+pid, procStat(t, uint32(os.Getpid()), 22))
		pipe := filepath.Join(m.procfs, strconv.Itoa(5_000_001+int(pid)), "cmdline")
		if err := syscall.Mkfifo(pipe, 0o644); err != nil { // to open it waits for who writes
			t.Fatal(err)
		}
		pipes = append(pipes, pipe)
	}
	m.apply(t)
	stuck := eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(want(s, 5, "gpu_processes_unresolved", nil), want(s, 0, "gpu_collector_success", map[string]string{"collector": "workload"}))
	})
	s := m.goesOn(t, p, stuck, 0, 3, nil)
	if err := errors.Join(m.up(s, 1), want(s, gib, "gpu_process_memory_used_bytes", known), want(s, 6, "gpu_processes", m.id(0))); err != nil {
		t.Error(err)
	}
	named := 0
	for line := range strings.Lines(p.Output()) {
		if strings.Contains(line, "keeps whoever reads its files in procfs waiting") {
			named++
		}
	}
	if named != 4 {
		t.Errorf("the log names %d processes, want the four that keep a thread each:\n%s", named, p.Output())
	}
	for i, pipe := range pipes { // the fifth once the others have gone
		w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(w, "python3\x00serve%d.py\x00", i)
		w.Close()
	}
	eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(want(s, 0, "gpu_processes_unresolved", nil), want(s, 1, "gpu_collector_success", map[string]string{"collector": "workload"}))
	})
	p.Stop(t)
}
