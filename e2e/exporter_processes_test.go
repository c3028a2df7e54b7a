// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestAskedSeldom has a GPU with processes, and one without. What costs much on a real driver is not asked with each sample: the
// utilisation of processes every five seconds, where there are any, and the MIG mode every slow interval.
func TestAskedSeldom(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 2)
	m.GPUs[0].Processes, m.GPUs[1].Processes = nil, []fakenvml.Process{{PID: m.child(t), Memory: fakenvml.Constant(gib)}}
	m.start(t, "--sample.interval=100ms", "--sample.slow-interval=1h")
	calls := func(name string) uint64 { return m.read(t).Functions[name].Calls }
	m.listening(t)
	harness.Eventually(t, patience, func() error {
		if n := calls("nvmlDeviceGetMemoryInfo_v2"); n < 100 {
			return fmt.Errorf("%d samples", n)
		}
		return nil
	})
	samples, questions := calls("nvmlDeviceGetMemoryInfo_v2")/2, calls("nvmlDeviceGetProcessUtilization")
	if questions > samples/50+3 { // the first one finds its buffer too small, and is asked again
		t.Errorf("%d questions for the utilisation in %d samples, want one in fifty", questions, samples)
	}
	equal(t, calls("nvmlDeviceGetMigMode"), 2, "how often two GPUs were asked for their mode in %d samples", samples)
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
	m.fault(t, fakenvml.Race(list).On(m.GPUs[0].UUID))
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
	if n := peakMemory(t, p); n > 400*mib { // more than it needs with the race detector, and less than a list that doubles for ever
		t.Errorf("the exporter held %d MiB", n/mib)
	}
	m.fault(t)
	eventually(t, p, whole)
}

// TestLimitOfTheDriver has a Slurm job with a limit on its GPU memory that the driver tells, beside that of its control group: a process
// in a group below has both. A driver without the call is not asked.
func TestLimitOfTheDriver(t *testing.T) {
	t.Parallel()
	const job, call = "/system.slice/slurmstepd.scope/job_4711", "nvmlDeviceGetMemoryLimits_v1"
	for name, missing := range map[string][]string{"the newest": nil, "535": fakenvml.Driver535()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, 1, missing...)
			folder, region := m.sysfs+"/fs/cgroup"+job, "drm/"+strings.ToLower(strings.TrimPrefix(m.GPUs[0].BusID, "0000"))+"/vram0"
			harness.WriteFile(t, folder+"/dmem.max", fmt.Sprintf("%s %d\n", region, 30*gib))
			harness.WriteFile(t, folder+"/dmem.current", fmt.Sprintf("%s %d\n", region, gib))
			m.GPUs[0].Limits = map[string]uint64{folder: 20 * gib}
			m.GPUs[0].Processes = []fakenvml.Process{{PID: m.childIn(t, job+"/step_0"), Memory: fakenvml.Constant(gib)}}
			p := m.start(t)
			limits := func(nvml float64) func(harness.Metrics) error {
				return func(s harness.Metrics) (errs error) {
					for _, name := range []string{"gpu_process_memory_limit_bytes", "gpu_workload_memory_limit_bytes"} {
						driver, kernel := map[string]string{"slurm_job": "4711", "source": "nvml"}, map[string]string{"slurm_job": "4711", "source": "dmem"}
						if errs = errors.Join(errs, want(s, 30*gib, name, kernel)); nvml > 0 {
							errs = errors.Join(errs, want(s, nvml, name, driver))
						} else {
							errs = errors.Join(errs, gone(s, name, driver))
						}
					}
					return errs
				}
			}
			if missing != nil {
				eventually(t, p, limits(0))
				equal(t, m.read(t).Functions[call].Calls, 0, "calls of a function that is not there")
				return
			}
			eventually(t, p, limits(20*gib))
			m.GPUs[0].Limits[folder] = 25 * gib
			m.fault(t)
			eventually(t, p, limits(25*gib))
			m.fault(t, fakenvml.Fail(call, fakenvml.UnknownError))
			s := eventually(t, p, limits(0))
			if err := errors.Join(m.up(s, 1), positive(s, "gpu_nvml_errors_total", map[string]string{"call": call, "error": "UNKNOWN"})); err != nil {
				t.Error(err)
			}
			m.fault(t)
			eventually(t, p, limits(25*gib))
		})
	}
}

// TestManyProcesses has 3,000 processes on a GPU: the series are capped and the rest is summed.
func TestManyProcesses(t *testing.T) {
	t.Parallel()
	const processes, shown = 3000, 64
	m := newMachine(t, 2)
	m.GPUs[0].Processes = nil
	for n := range uint32(processes) {
		m.GPUs[0].Processes = append(m.GPUs[0].Processes, fakenvml.Process{PID: 4_000_000 + n, Memory: fakenvml.Constant(uint64(n+1) << 10)})
	}
	eventually(t, m.start(t), func(s harness.Metrics) error {
		rest := processes - shown // the smallest
		errs := []error{wantAll(s, m.id(0), map[string]float64{
			"gpu_processes": processes, "gpu_processes_other": float64(rest),
			"gpu_processes_other_memory_used_bytes": float64(rest*(rest+1)/2) * 1024,
		}), want(s, processes, "gpu_processes_unresolved", nil)}
		for _, name := range []string{"gpu_process_info", "gpu_process_memory_used_bytes", "gpu_process_spikes_total"} {
			if n := len(s.All(name, m.id(0))); n > shown {
				errs = append(errs, fmt.Errorf("%d series %s, want %d at most", n, name, shown))
			}
		}
		return errors.Join(errs...)
	})
}
