// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// everything are the functions that tell something of a GPU, but for its UUID.
var everything = []string{
	"nvmlDeviceGetName", "nvmlDeviceGetSerial", "nvmlDeviceGetVbiosVersion", "nvmlDeviceGetPciInfo*", "nvmlDeviceGetArchitecture",
	"nvmlDeviceGetAddressingMode", "nvmlDeviceGetNumaNodeId", "nvmlDeviceGetC2cModeInfoV", "nvmlDeviceGetMemoryInfo*",
	"nvmlDeviceGetBAR1MemoryInfo", "nvmlDeviceGetMig*", "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetComputeRunningProcesses*",
	"nvmlDeviceGetGraphicsRunningProcesses*", "nvmlDeviceGetMPSComputeRunningProcesses*", "nvmlDeviceGetProcessUtilization",
	"nvmlDeviceGetUtilizationRates", "nvmlDeviceGetEncoderUtilization", "nvmlDeviceGetDecoderUtilization",
	"nvmlDeviceGetJpgUtilization", "nvmlDeviceGetOfaUtilization", "nvmlDeviceGetFieldValues", "nvmlDeviceGetTemperature*",
	"nvmlDeviceGetMarginTemperature", "nvmlDeviceGetNumFans", "nvmlDeviceGetFanSpeed*", "nvmlDeviceGetCurrentClocks*",
	"nvmlDeviceGetSupportedClocks*", "nvmlDeviceGetPower*", "nvmlDeviceGetEnforcedPowerLimit",
	"nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPerformanceState", "nvmlDeviceGetClockInfo", "nvmlDeviceGetMaxClockInfo",
	"nvmlDeviceGetEccMode", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetMemoryErrorCounter", "nvmlDeviceGetRemappedRows*",
	"nvmlDeviceGetRetiredPages*", "nvmlDeviceGetCurrPcie*", "nvmlDeviceGetMaxPcie*", "nvmlDeviceGetPcie*", "nvmlDeviceGetNvLink*",
	"nvmlDeviceGetSupportedEventTypes", "nvmlDeviceRegisterEvents",
}

// bare is the GPU of richNode that offers nothing but its UUID.
const bare = 6

// richNode returns a machine with 8 GPUs of all kinds and 64 processes, a few of
// which exist. Nothing on it moves.
//
//	0, 2  H100s           1  Ada, with margins and fans      3  in MIG mode
//	4     before Ampere   5  process memory partly unknown   6  nothing offered   7  no ECC, hot
func richNode(t *testing.T, missing ...string) *machine {
	t.Helper()
	m := newMachine(t, 8, missing...)
	for i := range m.GPUs {
		m.GPUs[i].Energy.Rate = 0
	}
	m.GPUs[3].Partition("1g.10gb", "2g.20gb", "3g.40gb")
	// Two compute instances share the memory of the last GPU instance.
	last := &m.GPUs[3].MIG.Instances[2]
	last.Devices = append(last.Devices, fakenvml.MIGDevice{
		Index: 3, ComputeInstance: 1, UUID: "MIG-another", Slices: 1, Multiprocessors: 16,
	})
	old := &m.GPUs[4]
	old.Unsupported, old.RetiredPending = nil, true
	old.RetiredPages = []fakenvml.RetiredPage{{Cause: 0, Address: 1}, {Cause: 0, Address: 2}, {Cause: 1, Address: 3}}
	m.GPUs[bare].Unsupported = everything
	odd := &m.GPUs[7]
	odd.ECC = fakenvml.ECC{}
	odd.Temperature, odd.PState, odd.RecoveryAction, odd.ClockReasons = 91, 8, 2, 0x60
	odd.RemappedRows.Pending, odd.RemappedRows.Failed = true, true
	odd.Thresholds[fakenvml.ThresholdAcousticMax] = 88
	populate(t, m)
	return m
}

// populate adds the 64 processes.
func populate(t *testing.T, m *machine) {
	t.Helper()
	for n := range 64 {
		gpu := []int{0, 1, 2, 3, 4, 5, 7}[n%7]
		p := fakenvml.Process{PID: uint32(4_000_000 + n), Memory: fakenvml.Constant(uint64(100+n) * mib)}
		if n%3 == 0 {
			p.Utilization = &fakenvml.Utilization{SM: uint32(n % 101), Memory: uint32(n % 50), Encoder: uint32(n % 7), Decoder: 3}
		}
		if n < 7 || gpu == 4 {
			p.PID = m.child(t)
		}
		switch {
		case gpu == 3:
			p.Instance = uint32(n/7%3) + 1
		case gpu == 2 && n%2 == 0:
			p.List = fakenvml.Graphics
		case gpu == 7 && n%2 == 0:
			p.List = fakenvml.MPS
		case gpu == 5 && n%2 == 0:
			p.Memory = fakenvml.Constant(fakenvml.NotAvailable)
		}
		m.GPUs[gpu].Processes = append(m.GPUs[gpu].Processes, p)
	}
	// One process in two lists is one process, with the larger memory.
	twice := m.GPUs[0].Processes[1]
	twice.List, twice.Memory, twice.Utilization = fakenvml.Graphics, fakenvml.Constant(64*mib), nil
	m.GPUs[0].Processes = append(m.GPUs[0].Processes, twice)
	// The same pid on another GPU is another series.
	shared := m.GPUs[0].Processes[0]
	shared.Memory = fakenvml.Constant(77 * mib)
	m.GPUs[2].Processes = append(m.GPUs[2].Processes, shared)
}

// TestValues compares every series of a machine with the model, both ways.
func TestValues(t *testing.T) {
	t.Parallel()
	m := richNode(t)
	begin := time.Now()
	m.apply(t)
	o := m.options("--detector.window="+window, "--detector.min-span=24h", "--collector.nvlink")
	o.Env = append(o.Env, "GOMEMLIMIT=1GiB")
	p := harness.StartExporter(t, o)
	model := &model{machine: m, t: t, begin: begin, detector: true}
	s := eventually(t, p, func(s harness.Metrics) error {
		model.compute()
		return model.want.compare(s)
	})
	t.Logf("%d series compared", len(model.want))
	checkCalls(t, m, s, time.Since(begin))
	if err := errors.Join(want(s, gib, "gpu_leak_exporter_budget_bytes", nil), positive(s, "gpu_leak_exporter_connections", nil)); err != nil {
		t.Error(err)
	}
	p.Stop(t)
	m.wellBehaved(t)
	// The library is shut down unless somebody waits for events in it.
	c := m.read(t)
	if n := int(c.Functions["nvmlShutdown"].Calls); n > 1 || c.References != 1-n {
		t.Errorf("%d Inits are left after the end, %d Shutdowns", c.References, n)
	}
}

// checkCalls compares what the exporter says of its calls with what the library
// has counted.
func checkCalls(t *testing.T, m *machine, s harness.Metrics, age time.Duration) {
	t.Helper()
	// Each GPU has a thread that reads and one that waits for events; one asks for
	// the list of GPUs. No more of them can spend time inside the library.
	most := age.Seconds() * float64(2*len(m.GPUs)+1)
	log := m.read(t).Functions
	counts := s.All("gpu_nvml_calls_total", nil)
	for _, c := range counts {
		name := c.Labels["call"]
		if counted := log[name].Calls; c.Value < 1 || c.Value > float64(counted) {
			t.Errorf("gpu_nvml_calls_total of %s is %g, the library has counted %d since", name, c.Value, counted)
		}
		if v, err := s.Value("gpu_nvml_call_seconds_total", map[string]string{"call": name}); err != nil || v <= 0 || v > most {
			t.Errorf("gpu_nvml_call_seconds_total of %s is %g, %v", name, v, err)
		}
	}
	for name := range log {
		if len(s.All("gpu_nvml_calls_total", map[string]string{"call": name})) == 0 {
			t.Errorf("the library was asked for %s, and gpu_nvml_calls_total does not say so", name)
		}
	}
	if len(counts) < 40 {
		t.Errorf("only %d functions were called", len(counts))
	}
}

// TestUnifiedMemory has systems on a chip whose driver offers no call for the memory, as on DGX Spark and Jetson: the memory is the
// host's. Another GPU offers no call either, and nothing says that its memory is the host's: it stays unknown, and is said to be. The
// last has memory of its own that is the host's, too: freed pages stay allocated there, so nothing is called unattributed and nothing
// is foretold.
func TestUnifiedMemory(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 4)
	for i := range m.GPUs {
		m.GPUs[i].Processes = nil
		if i < 3 {
			m.GPUs[i].Unsupported = append(m.GPUs[i].Unsupported, "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2")
		}
	}
	const ats = 2 // an addressing mode
	m.GPUs[0].Name, m.GPUs[0].Addressing = "NVIDIA GB10", ats
	m.GPUs[1].Name = "Orin (nvgpu)"
	m.GPUs[0].Processes = []fakenvml.Process{{PID: m.child(t), Memory: fakenvml.Constant(5 * gib)}}
	m.GPUs[3].Memory.Used, m.GPUs[3].Addressing = fakenvml.Constant(8*gib), ats
	harness.WriteFile(t, filepath.Join(m.procfs, "meminfo"), "MemTotal:       127600748 kB\nMemFree:  1000 kB\nMemAvailable:   118566368 kB\nSwapTotal: 16777212 kB\n")
	p := m.start(t)
	host := map[string]float64{
		"gpu_memory_total_bytes": 127600748 << 10, "gpu_memory_free_bytes": 118566368 << 10, "gpu_memory_used_bytes": (127600748 - 118566368) << 10,
	}
	eventually(t, p, func(s harness.Metrics) error {
		var errs []error
		for i, memory := range []string{"unified", "unified", "", "coherent"} {
			errs = append(errs, want(s, 1, "gpu_up", m.id(i)), want(s, 1, "gpu_info", with(m.id(i), "memory", memory)), gone(s, "gpu_memory_unattributed_bytes", m.id(i)))
			if memory == "unified" {
				errs = append(errs, wantAll(s, m.id(i), host), positive(s, "gpu_oom_headroom_bytes", m.id(i)), gone(s, "gpu_memory_reserved_bytes", m.id(i)))
			}
		}
		return errors.Join(append(errs, gone(s, "gpu_memory_used_bytes", m.id(2)), want(s, 8*gib, "gpu_memory_used_bytes", m.id(3)),
			want(s, 0, "gpu_detector_attributed", m.id(3)), gone(s, "gpu_oom_headroom_bytes", m.id(3)), gone(s, "gpu_seconds_to_oom", m.id(3)))...)
	})
	p.Stop(t)
	for text, n := range map[string]int{"the GPU has no memory of its own": 2, "nothing tells how much of the GPU's memory is used": 1} {
		equal(t, strings.Count(p.Output(), text), n, "lines that say %q", text)
	}
}

// without removes the series of that name; all that carry the labels, if there are
// any.
func (e expected) without(name string, labels ...string) {
	maps.DeleteFunc(e, func(key string, _ bounds) bool {
		if !strings.HasPrefix(key, name+"{") {
			return false
		}
		for _, l := range labels {
			if !strings.Contains(key, l) {
				return false
			}
		}
		return true
	})
}

// TestOldDrivers compares every series of drivers that lack functions with the
// model: what they lack is absent, and all else is as it is with the newest one.
// Calling a function that is not there would end the process.
func TestOldDrivers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		driver []string
		v1     bool
		lacks  func(expected)
	}{
		{"535", fakenvml.Driver535(), false, func(e expected) {
			e.without("gpu_temperature_margin_celsius")
		}},
		{"470", fakenvml.Driver470(), true, func(e expected) {
			e.without("gpu_temperature_margin_celsius")
			e.without("gpu_jpeg_utilization_ratio")
			e.without("gpu_ofa_utilization_ratio")
			e.without("gpu_fan_speed_ratio", `fan="1"`) // it tells about one
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := richNode(t, tc.driver...)
			begin := time.Now()
			p := m.start(t, "--no-collector.detector", "--collector.nvlink")
			model := &model{machine: m, t: t, begin: begin, v1: tc.v1}
			eventually(t, p, func(s harness.Metrics) error {
				model.compute()
				tc.lacks(model.want)
				return model.want.compare(s)
			})
			t.Logf("%d series compared", len(model.want))
		})
	}
}
