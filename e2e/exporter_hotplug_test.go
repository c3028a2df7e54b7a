// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestHotPlug adds a GPU to a running machine, takes it away and brings it back.
// As with the driver, who has initialised the library sees no GPU that came later.
func TestHotPlug(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 3)
	m.EnumerateAtInit = true
	three := m.GPUs
	m.GPUs = three[:2]
	m.plug(t)
	p := m.start(t)
	eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(m.driverUp(s), want(s, 2, "gpu_pci_devices", nil))
	})

	m.GPUs = three
	m.apply(t)
	m.plug(t)
	eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(m.driverUp(s), want(s, 3, "gpu_pci_devices", nil))
	})

	three[2].Lost, three[2].Hidden = true, true
	m.apply(t)
	eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(m.up(s, 1, 1, 0), onlyDown(s, m.id(2)), want(s, 2, "gpu_devices", nil))
	})

	three[2].Lost, three[2].Hidden = false, false
	m.apply(t)
	eventually(t, p, m.driverUp)
}

// TestMIGCallsFail lets calls about MIG devices fail. Those that only describe one may fail for ever: the GPU is read as
// before, and what its instances are called stays. That one is not there may be said once: it is no new layout, and
// nothing that was learnt is thrown away.
func TestMIGCallsFail(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 3)
	m.GPUs[0].Processes = nil
	m.GPUs[0].Partition("1g.10gb", "2g.20gb")
	p := m.start(t)
	layout := func(s harness.Metrics) error {
		return errors.Join(m.layout(s, 0, 0, "1=1g.10gb", "2=2g.20gb"), m.up(s, 1, 1, 1))
	}
	eventually(t, p, layout)
	for _, call := range []string{"nvmlDeviceGetGpuInstanceId", "nvmlDeviceGetComputeInstanceId", "nvmlDeviceGetUUID"} {
		before := m.read(t).Functions[call]
		m.fault(t, fakenvml.Fail(call, fakenvml.NotFound).On(m.GPUs[0].MIG.Instances[1].Devices[0].UUID).Times(1))
		eventually(t, p, func(harness.Metrics) error { // the sample with the fault, and one after it
			if f := m.read(t).Functions[call]; f.Failures == before.Failures || f.Calls < before.Calls+12 {
				return fmt.Errorf("%s: %d calls, of which %d failed, after %d and %d", call, f.Calls, f.Failures, before.Calls, before.Failures)
			}
			return nil
		})
		if err := layout(p.Scrape(t)); err != nil {
			t.Errorf("%s: %v", call, err)
		}
	}
	m.Faults = nil
	for _, in := range m.GPUs[0].MIG.Instances {
		for _, call := range []string{"nvmlDeviceGetName", "nvmlDeviceGetAttributes_v2", "nvmlDeviceGetUUID"} {
			m.Faults = append(m.Faults, fakenvml.Fail(call, fakenvml.UnknownError).On(in.Devices[0].UUID))
		}
	}
	m.apply(t)
	eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(layout(s), positive(s, "gpu_nvml_errors_total", with(m.id(0), "call", "nvmlDeviceGetName")))
	})
}

// layout returns an error unless a GPU shows these instances, as id=profile, with
// the memory of the model, and has thrown its history away so many times.
func (m *machine) layout(s harness.Metrics, gpu int, resets float64, instances ...string) error {
	errs := []error{
		want(s, bit(len(instances) > 0), "gpu_mig_enabled", m.id(gpu)),
		want(s, resets, "gpu_detector_resets_total", with(m.id(gpu), "reason", "repartition")),
	}
	if n := len(s.All("gpu_mig_memory_used_bytes", m.id(gpu))); n != len(instances) {
		errs = append(errs, fmt.Errorf("GPU %d shows %d instances, want %d", gpu, n, len(instances)))
	}
	for _, in := range instances {
		id, profile, _ := strings.Cut(in, "=")
		n, err := strconv.ParseUint(id, 10, 32)
		labels := with(m.id(gpu), "gpu_instance", id, "profile", profile)
		errs = append(errs, err, want(s, float64(m.InstanceUsed(gpu, uint32(n), 0)), "gpu_mig_memory_used_bytes", labels),
			want(s, 1, "gpu_mig_info", labels))
	}
	// What the driver does not tell about a GPU in MIG mode is absent.
	if len(instances) > 0 {
		errs = append(errs, gone(s, "gpu_utilization_ratio", m.id(gpu)), gone(s, "gpu_oom_headroom_bytes", m.id(gpu)))
	} else {
		errs = append(errs, positive(s, "gpu_utilization_ratio", m.id(gpu)), gone(s, "gpu_mig_info", m.id(gpu)))
	}
	return errors.Join(errs...)
}

// TestRepartition turns MIG on, changes the instances and turns it off again, while
// the exporter runs and another GPU does not change.
func TestRepartition(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 3)
	p := m.start(t)
	steps := []struct {
		profiles []string
		want     []string
	}{
		{nil, nil},
		{[]string{"1g.10gb", "2g.20gb"}, []string{"1=1g.10gb", "2=2g.20gb"}},
		{[]string{"3g.40gb", "2g.20gb", "1g.10gb"}, []string{"1=3g.40gb", "2=2g.20gb", "3=1g.10gb"}},
		{[]string{"3g.40gb", "2g.20gb"}, []string{"1=3g.40gb", "2=2g.20gb"}},
		{nil, nil},
	}
	for n, step := range steps {
		g := &m.GPUs[0]
		g.MIG.Enabled, g.MIG.Instances, g.Processes = false, nil, nil
		if step.profiles != nil {
			g.Partition(step.profiles...)
			g.Processes = []fakenvml.Process{{
				PID: 4_000_000, Memory: fakenvml.Constant(uint64(n) * gib), Instance: 2,
			}}
		}
		m.apply(t)
		eventually(t, p, func(s harness.Metrics) error {
			return errors.Join(m.layout(s, 0, float64(n), step.want...), m.layout(s, 2, 0), m.up(s, 1, 1, 1))
		})
	}
}

// listening waits until the exporter has registered for the events of all GPUs:
// what comes before is not delivered.
func (m *machine) listening(t *testing.T) {
	t.Helper()
	harness.Eventually(t, patience, func() error {
		if n := m.read(t).Functions["nvmlDeviceRegisterEvents"].Calls; n < uint64(len(m.GPUs)) {
			return fmt.Errorf("%d GPUs are registered for events", n)
		}
		return nil
	})
}

// xids returns an error unless a GPU has these counts, and 0 for the XIDs that page
// while its events can be had.
func (m *machine) xids(s harness.Metrics, gpu int, counts map[int]float64) error {
	all := map[int]float64{}
	for _, xid := range pagingXIDs {
		all[xid] = 0
	}
	var errs []error
	for xid, n := range counts {
		all[xid] = n
		at, err := s.Value("gpu_xid_last_timestamp_seconds", with(m.id(gpu), "xid", strconv.Itoa(xid)))
		if age := float64(time.Now().UnixNano())/1e9 - at; err == nil && (age < 0 || age > 120) {
			err = fmt.Errorf("XID %d was %g s ago", xid, age)
		}
		errs = append(errs, err)
	}
	for xid, n := range all {
		errs = append(errs, want(s, n, "gpu_xid_errors_total", with(m.id(gpu), "xid", strconv.Itoa(xid))))
	}
	if n := len(s.All("gpu_xid_errors_total", m.id(gpu))); n != len(all) {
		errs = append(errs, fmt.Errorf("GPU %d has %d XIDs, want %d", gpu, n, len(all)))
	}
	if n := len(s.All("gpu_xid_last_timestamp_seconds", m.id(gpu))); n != len(counts) {
		errs = append(errs, fmt.Errorf("GPU %d has %d times of XIDs, want %d", gpu, n, len(counts)))
	}
	return errors.Join(errs...)
}

// TestXIDs counts events by GPU and code, from the registration on.
func TestXIDs(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 3)
	m.RaiseXID(0, 63) // before anybody has registered
	p := m.start(t)
	m.listening(t)
	eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(m.xids(s, 0, nil), m.xids(s, 1, nil), m.xids(s, 2, nil))
	})
	for _, e := range []struct{ gpu, xid, times int }{{0, 13, 3}, {0, 48, 1}, {2, 31, 2}, {2, 79, 1}} {
		for range e.times {
			m.RaiseXID(e.gpu, uint64(e.xid))
		}
	}
	m.Raise(1, fakenvml.EventDoubleBitECC, 48) // another kind of event, with that number
	m.apply(t)
	eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(m.xids(s, 0, map[int]float64{13: 3, 48: 1}), m.xids(s, 1, nil), m.xids(s, 2, map[int]float64{31: 2, 79: 1}))
	})
	m.RaiseXID(0, 13)
	m.apply(t)
	eventually(t, p, func(s harness.Metrics) error { return m.xids(s, 0, map[int]float64{13: 4, 48: 1}) })
}
