// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// driverDown returns an error unless the exporter says that no GPU can be seen, and
// why, in the metrics and in its log.
func driverDown(p *harness.Process, s harness.Metrics, reason string) error {
	errs := []error{
		want(s, 0, "gpu_driver_up", nil),
		want(s, 1, "gpu_driver_error", map[string]string{"reason": reason}),
		want(s, 1, "gpu_driver_error", nil), // no other reason
		want(s, 0, "gpu_devices", nil),
	}
	if !strings.Contains(p.Output(), "reason="+reason) {
		errs = append(errs, fmt.Errorf("the log does not say reason=%s", reason))
	}
	return errors.Join(errs...)
}

// driverUp returns an error unless all GPUs of the machine are up.
func (m *machine) driverUp(s harness.Metrics) error {
	errs := []error{
		want(s, 1, "gpu_driver_up", nil), gone(s, "gpu_driver_error", nil), want(s, float64(len(m.GPUs)), "gpu_devices", nil),
	}
	for i := range m.GPUs {
		errs = append(errs, want(s, 1, "gpu_up", m.id(i)), want(s, float64(m.Used(i, 0)), "gpu_memory_used_bytes", m.id(i)))
	}
	return errors.Join(errs...)
}

// TestDriverDown takes the driver away, at the start or from a running exporter, in all ways that a process can outlive, and brings it
// back.
func TestDriverDown(t *testing.T) {
	t.Parallel()
	initFails := func(code fakenvml.Code) []fakenvml.Fault {
		return []fakenvml.Fault{fakenvml.Fail(fakenvml.AnyInit, code)}
	}
	for name, c := range map[string]struct {
		faults []fakenvml.Fault
		later  bool
		reason string
	}{
		"no library":           {nil, false, "library_not_found"},
		"not loaded":           {initFails(fakenvml.DriverNotLoaded), false, "driver_not_loaded"},
		"no permission":        {initFails(fakenvml.NoPermission), false, "no_permission"},
		"unknown":              {initFails(fakenvml.UnknownError), false, "unknown"},
		"mismatch":             {initFails(fakenvml.LibraryMismatch), false, "lib_rm_version_mismatch"},
		"newer than this":      {initFails("999999"), false, "error_999999"},
		"unloaded later":       {append(initFails(fakenvml.DriverNotLoaded), fakenvml.Fail("nvmlDevice*", fakenvml.DriverNotLoaded)), true, "driver_not_loaded"},
		"uninitialized, later": {append(initFails(fakenvml.DriverNotLoaded), fakenvml.Fail("nvmlDevice*", fakenvml.Uninitialized)), true, "driver_not_loaded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, 2)
			library := m.library
			if c.faults == nil {
				m.library = filepath.Join(t.TempDir(), fakenvml.Soname)
			}
			if !c.later {
				m.Faults = c.faults
			}
			p := m.start(t)
			if c.later {
				eventually(t, p, m.driverUp)
				m.fault(t, c.faults...)
			}
			eventually(t, p, func(s harness.Metrics) error {
				err := driverDown(p, s, c.reason)
				if c.later {
					err = errors.Join(err, onlyDown(s, m.id(0)), onlyDown(s, m.id(1)))
				}
				return err
			})
			m.fault(t)
			if c.faults == nil {
				link(t, library, m.library)
			}
			eventually(t, p, m.driverUp)
		})
	}
}

// TestAnotherVersion has the driver become another version under a library that worked, as in an upgrade without a reboot. The library
// stays the old one: the process saves its state and ends, and a new one serves with the reason, for as long as that lasts.
func TestAnotherVersion(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 1)
	state := filepath.Join(t.TempDir(), "state")
	p := m.start(t, "--detector.state-file="+state)
	eventually(t, p, m.driverUp)
	m.fault(t, fakenvml.Fail("nvmlDevice*", fakenvml.LibraryMismatch), fakenvml.Fail(fakenvml.AnyInit, fakenvml.LibraryMismatch))
	equal(t, p.Wait(t, patience), 5, "exit code")
	equal(t, strings.Count(p.Output(), "to be started again"), 1, "lines that say that it has to be started again")
	if _, err := os.Stat(state); err != nil {
		t.Error(err)
	}
	m.calls += "2" // one file a process
	p = m.start(t, "--detector.state-file="+state)
	eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(driverDown(p, s, "lib_rm_version_mismatch"), gone(s, "gpu_up", m.id(0)))
	})
	m.fault(t)
	eventually(t, p, m.driverUp)
}

// positive returns an error unless the one series of that name is above 0.
func positive(s harness.Metrics, name string, labels map[string]string) error {
	v, err := s.Value(name, labels)
	if err == nil && !(v > 0) {
		err = fmt.Errorf("%s%v is %g", name, labels, v)
	}
	return err
}

// TestMemoryCallFailsForAWhile has the call for the memory fail now and then. The older one is no
// stand-in: it counts what is reserved as used, so that the memory would jump.
func TestMemoryCallFailsForAWhile(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 1)
	p := m.start(t)
	first := eventually(t, p, m.driverUp)
	used, err := first.Value("gpu_memory_used_bytes", m.id(0))
	harness.Must(t, err)
	m.fault(t, fakenvml.Fail("nvmlDeviceGetMemoryInfo_v2", fakenvml.UnknownError).After(1).Times(5))
	eventually(t, p, func(s harness.Metrics) error {
		if v, err := s.Value("gpu_memory_used_bytes", m.id(0)); err == nil && v != used {
			t.Fatalf("%g bytes are used, want %g", v, used)
		}
		failed := with(m.id(0), "call", "nvmlDeviceGetMemoryInfo_v2", "error", "UNKNOWN")
		return errors.Join(want(s, 5, "gpu_nvml_errors_total", failed), m.driverUp(s))
	})
	equal(t, m.read(t).Functions["nvmlDeviceGetMemoryInfo"].Calls, 0, "calls of the first version")
}
