// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

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
