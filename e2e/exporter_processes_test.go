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
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// mostMemory is more than the exporter ever needs on these machines, with the race
// detector, too, and less than a list that doubles for ever.
const mostMemory = 400 * mib

// smallEnough fails the test if the process has grown.
func smallEnough(t *testing.T, p *harness.Process) {
	t.Helper()
	if n := residentBytes(t, p.PID()); n > mostMemory {
		t.Errorf("the exporter holds %d MiB", n/mib)
	}
}

// TestUtilizationIsAskedSeldom has a GPU without processes, of which their utilisation is not asked: on a real driver that
// costs more than all the rest. Then it has a process that computes for a moment between two questions for its utilisation, which
// are five seconds apart whatever the interval is: the next answer has the burst, the one after it none. Of a process that
// comes between two questions nothing is known until the next one.
func TestUtilizationIsAskedSeldom(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 1)
	first, second := m.child(t), m.child(t)
	m.GPUs[0].Processes, m.GPUs[0].Samples = nil, nil
	p := m.start(t, "--sample.interval=100ms")
	questions := func() uint64 { return m.read(t).Functions["nvmlDeviceGetProcessUtilization"].Calls }
	s := eventually(t, p, func(s harness.Metrics) error {
		if n, err := s.Value("gpu_nvml_calls_total", map[string]string{"call": "nvmlDeviceGetMemoryInfo_v2"}); err != nil || n < 5 {
			return fmt.Errorf("%g samples, %w", n, err)
		}
		return nil
	})
	if err := gone(s, "gpu_nvml_calls_total", map[string]string{"call": "nvmlDeviceGetProcessUtilization"}); err != nil {
		t.Error(err)
	}
	m.GPUs[0].Processes = []fakenvml.Process{{PID: first, Memory: fakenvml.Constant(gib)}}
	m.apply(t)
	series := func(pid uint32) map[string]string { return with(m.id(0), "pid", strconv.Itoa(int(pid))) }
	until := func(pid uint32, ratio float64) {
		t.Helper()
		eventually(t, p, func(s harness.Metrics) error {
			return wantAll(s, series(pid), map[string]float64{"gpu_process_sm_utilization_ratio": ratio})
		})
	}
	until(first, 0)
	asked := questions()
	m.GPUs[0].Processes = append(m.GPUs[0].Processes, fakenvml.Process{PID: second, Memory: fakenvml.Constant(gib)})
	m.GPUs[0].Samples = []fakenvml.Sample{{PID: first, Stamp: time.Now(), Utilization: fakenvml.Utilization{SM: 77}}}
	m.apply(t)
	s = eventually(t, p, func(s harness.Metrics) error {
		return wantAll(s, series(second), map[string]float64{"gpu_process_memory_used_bytes": gib})
	})
	if err := gone(s, "gpu_process_sm_utilization_ratio", series(second)); err != nil && questions() == asked {
		t.Errorf("a process that has just come: %v", err)
	}
	until(first, 0.77)
	until(second, 0)
	until(first, 0)
	samples := m.read(t).Functions["nvmlDeviceGetMemoryInfo_v2"].Calls
	// The first question finds its buffer too small, and is asked again.
	if n := questions(); n > samples/50+3 {
		t.Errorf("%d questions in %d samples a tenth of a second apart, want one in fifty", n, samples)
	}
}

// TestMIGModeIsAskedSeldom has a GPU that is put into MIG mode: the driver is not asked for that with each sample, but
// once it says that it has changed.
func TestMIGModeIsAskedSeldom(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 1)
	p := m.start(t, "--sample.interval=100ms", "--sample.slow-interval=1h")
	samples := func(n uint64) {
		t.Helper()
		eventually(t, p, func(harness.Metrics) error {
			if now := m.read(t).Functions["nvmlDeviceGetMemoryInfo_v2"].Calls; now < n {
				return fmt.Errorf("%d samples", now)
			}
			return nil
		})
	}
	samples(20)
	m.listening(t)
	if n := m.read(t).Functions["nvmlDeviceGetMigMode"].Calls; n != 1 {
		t.Errorf("it was asked for its mode %d times in 20 samples", n)
	}
	m.GPUs[0].Partition("1g.10gb")
	m.Raise(0, fakenvml.EventMIG, 0)
	m.apply(t)
	eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(want(s, 1, "gpu_mig_enabled", m.id(0)), want(s, 1, "gpu_detector_resets_total", with(m.id(0), "reason", "repartition")))
	})
	if n := m.read(t).Functions["nvmlDeviceGetMigMode"].Calls; n != 2 {
		t.Errorf("it was asked for its mode %d times, want a second time after the event", n)
	}
}

// TestListRace has the list of processes grow between count and fill: a few times,
// which nobody notices, and for ever, which costs that list only.
func TestListRace(t *testing.T) {
	t.Parallel()
	const list = "nvmlDeviceGetComputeRunningProcesses*"
	m := newMachine(t, 2)
	for i := range m.GPUs {
		m.GPUs[i].Processes = []fakenvml.Process{{PID: m.child(t), Memory: fakenvml.Constant(gib)}}
	}
	m.Faults = []fakenvml.Fault{fakenvml.Race(list).Times(3)}
	p := m.start(t)
	whole := func(s harness.Metrics) error {
		var errs []error
		for i := range m.GPUs {
			errs = append(errs, wantAll(s, m.id(i), map[string]float64{
				"gpu_processes": 1, "gpu_process_memory_used_bytes": gib, "gpu_detector_attributed": 1,
			}))
		}
		return errors.Join(errs...)
	}
	s := eventually(t, p, whole)
	if err := gone(s, "gpu_nvml_errors_total", nil); err != nil {
		t.Error(err)
	}
	m.Faults = []fakenvml.Fault{fakenvml.Race(list).On(m.GPUs[0].UUID)}
	m.apply(t)
	failed := with(m.id(0), "call", "nvmlDeviceGetComputeRunningProcesses_v3", "error", "INSUFFICIENT_SIZE")
	eventually(t, p, func(s harness.Metrics) error {
		n, err := s.Value("gpu_nvml_errors_total", failed)
		if err == nil && n < 10 {
			err = fmt.Errorf("only %g lists failed", n)
		}
		// The process lives, so it stays, with its memory not known; no memory is
		// called unattributed because of it.
		return errors.Join(err, m.up(s, 1, 1), want(s, 1, "gpu_processes", m.id(0)),
			gone(s, "gpu_process_memory_used_bytes", m.id(0)), gone(s, "gpu_memory_unattributed_bytes", m.id(0)),
			want(s, gib, "gpu_process_memory_used_bytes", m.id(1)))
	})
	smallEnough(t, p)
	m.Faults = nil
	m.apply(t)
	eventually(t, p, whole)
}

// TestManyProcesses has 3,000 processes on a GPU, then others again and again: the
// series are capped and the rest is summed, whatever they do.
func TestManyProcesses(t *testing.T) {
	t.Parallel()
	const processes, shown = 3000, 64
	m := newMachine(t, 2)
	crowd := func(first uint32) {
		m.GPUs[0].Processes = nil
		for n := range uint32(processes) {
			m.GPUs[0].Processes = append(m.GPUs[0].Processes, fakenvml.Process{
				PID: first + n, Memory: fakenvml.Constant(uint64(n+1) << 10),
			})
		}
	}
	crowd(4_000_000)
	p := m.start(t)
	eventually(t, p, func(s harness.Metrics) error {
		rest := processes - shown // the smallest
		return errors.Join(wantAll(s, m.id(0), map[string]float64{
			"gpu_processes": processes, "gpu_processes_other": float64(rest),
			"gpu_processes_other_memory_used_bytes": float64(rest*(rest+1)/2) * 1024,
		}), m.atMost(s, 0, shown), want(s, processes, "gpu_processes_unresolved", nil))
	})
	for round := range uint32(20) {
		crowd(5_000_000 + round*processes)
		m.apply(t)
		loads := m.read(t).Functions["nvmlDeviceGetMemoryInfo_v2"].Calls
		harness.Eventually(t, patience, func() error { // two samples a GPU
			if n := m.read(t).Functions["nvmlDeviceGetMemoryInfo_v2"].Calls; n < loads+4 {
				return fmt.Errorf("%d samples", n)
			}
			return nil
		})
		s, _ := scrapeWithin(t, p, 2*time.Second)
		if err := errors.Join(m.up(s, 1, 1), want(s, processes, "gpu_processes", m.id(0)), m.atMost(s, 0, shown)); err != nil {
			t.Fatal(err)
		}
	}
	smallEnough(t, p)
	t.Logf("%d MiB after %d processes", residentBytes(t, p.PID())/mib, 21*processes)
}

// atMost returns an error if a GPU shows more than n processes.
func (m *machine) atMost(s harness.Metrics, gpu, n int) error {
	for _, name := range []string{"gpu_process_info", "gpu_process_memory_used_bytes", "gpu_process_spikes_total"} {
		if got := len(s.All(name, m.id(gpu))); got > n {
			return fmt.Errorf("%d series %s of GPU %d, want %d at most", got, name, gpu, n)
		}
	}
	return nil
}

// setStart makes the machine's procfs show a process that started at that tick.
func (m *machine) setStart(t *testing.T, pid uint32, ticks uint64) {
	t.Helper()
	dir := filepath.Join(m.procfs, strconv.Itoa(int(pid)))
	// Field 4 is its parent, 14 and 15 the processor time, 22 the start.
	text := fmt.Sprintf("%d (train (x) y) S 2 1 1 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 %d 0 0\n", pid, ticks)
	write(t, filepath.Join(dir, ".stat"), text)
	if err := os.Rename(filepath.Join(dir, ".stat"), filepath.Join(dir, "stat")); err != nil {
		t.Fatal(err)
	}
}

// TestForeignPIDNamespace runs the exporter as in a container without the host's
// pids: what cannot be known is absent and counted, and one line of the log says
// what is missing.
func TestForeignPIDNamespace(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 1)
	ns := filepath.Join(m.procfs, "self/ns/pid")
	if err := os.Remove(ns); err != nil {
		t.Fatal(err)
	}
	link(t, "pid:[4026532000]", ns)
	m.GPUs[0].Processes = []fakenvml.Process{{PID: 4_000_001, Memory: fakenvml.Constant(gib)}}
	p := m.start(t)
	eventually(t, p, func(s harness.Metrics) error {
		said := strings.Count(p.Output(), "hostPID: true")
		if said != 1 {
			return fmt.Errorf("said %d times", said)
		}
		return errors.Join(want(s, 1, "gpu_processes_unresolved", nil), want(s, 0, "gpu_detector_attributed", m.id(0)),
			gone(s, "gpu_memory_unattributed_bytes", nil), want(s, gib, "gpu_process_memory_used_bytes", with(m.id(0), "process", "", "pod", "")))
	})
}
