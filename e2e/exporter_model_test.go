// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// bounds are the lowest and the highest value that a series may have; for most of
// them they are the same.
type bounds struct{ low, high float64 }

// expected is every series that a scrape has to show, and no other, by seriesKey.
type expected map[string]bounds

// seriesKey writes a series as PromQL does, labels ordered by name.
func seriesKey(name string, labels map[string]string) string {
	var b strings.Builder
	for i, l := range slices.Sorted(maps.Keys(labels)) {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "%s=%q", l, labels[l])
	}
	return name + "{" + b.String() + "}"
}

// set adds a series.
func (e expected) set(name string, labels map[string]string, v float64) {
	e.between(name, labels, v, v)
}

// between adds a series that is not known exactly.
func (e expected) between(name string, labels map[string]string, low, high float64) {
	e[seriesKey(name, labels)] = bounds{low, high}
}

// model computes what the exporter has to show of a machine. It shares nothing with
// the exporter but its documentation. The machine must stand still: no ramps.
type model struct {
	*machine
	want  expected
	t     *testing.T
	begin time.Time // of the exporter, or earlier
	// detector says that the detector's series are expected, of a run that is too
	// short to be judged but longer than its first block of 10 s.
	detector bool
	// v1 is a driver without nvmlDeviceGetMemoryInfo_v2.
	v1 bool
}

// window is the only one of the exporters that are compared with a model.
const window = "1m"

// compute fills want.
func (m *model) compute() {
	m.want = expected{}
	unresolved := 0
	for i := range m.GPUs {
		id, g := m.id(i), &m.GPUs[i]
		m.identity(id, i)
		if i == bare {
			if m.detector { // what is left of it is about the exporter
				m.resets(id)
				m.want.set("gpu_detector_attributed", id, 0)
			}
			continue
		}
		m.memory(id, i)
		m.utilization(id, g)
		m.thermal(id, g)
		m.power(id, g)
		m.ecc(id, g)
		m.pcie(id, g)
		m.nvlinks(id, g)
		m.mig(id, i)
		unresolved += m.processes(id, i)
	}
	none := map[string]string{}
	m.want.set("gpu_devices", none, float64(len(m.GPUs)))
	m.want.set("gpu_pci_devices", none, float64(len(m.GPUs)))
	m.want.set("gpu_driver_up", none, 1)
	m.want.set("gpu_processes_unresolved", none, float64(unresolved))
	for _, kind := range []string{"oom", "limit", "allocator", "gpu_lost", "xid"} {
		if !m.detector {
			break
		}
		m.want.set("gpu_incidents_total", map[string]string{"kind": kind}, 0)
		for _, by := range []string{"page", "ticket", "nothing"} {
			if kind != "gpu_lost" && kind != "xid" {
				m.want.set("gpu_incidents_foreseen_total", map[string]string{"kind": kind, "by": by}, 0)
			}
		}
	}
	for _, c := range []string{"memory", "utilization", "thermal", "power", "clocks", "ecc", "pcie", "nvlink", "workload"} {
		m.want.set("gpu_collector_success", map[string]string{"collector": c}, 1)
		m.want.between("gpu_collector_duration_seconds", map[string]string{"collector": c}, 1e-9, 10)
	}
}

// pagingXIDs are those that are shown from the start.
var pagingXIDs = []int{48, 62, 64, 74, 79, 94, 95, 119, 120, 140, 143}

func (m *model) identity(id map[string]string, i int) {
	cuda := fmt.Sprintf("%d.%d", m.CUDA/1000, m.CUDA/10%100) // NVML tells 1000 × major + 10 × minor
	g, info := &m.GPUs[i], with(id, "driver_version", m.Driver, "cuda_version", cuda, "memory", "",
		"name", "", "pci_bus_id", "", "serial", "", "vbios_version", "", "architecture", "")
	if i != bare {
		info = with(info, "name", g.Name, "pci_bus_id", g.BusID, "serial", g.Serial, "vbios_version", g.VBIOS,
			"architecture", map[uint32]string{7: "ampere", 8: "ada", 9: "hopper"}[g.Architecture])
	}
	now := float64(time.Now().UnixNano()) / 1e9
	m.want.set("gpu_up", id, 1)
	m.want.set("gpu_info", info, 1)
	m.want.between("gpu_sample_timestamp_seconds", id, float64(m.begin.UnixNano())/1e9, now)
	m.want.between("gpu_samples_missed_total", id, 0, 1e6)
	for _, xid := range pagingXIDs {
		m.want.set("gpu_xid_errors_total", with(id, "xid", strconv.Itoa(xid)), 0)
	}
}

func (m *model) memory(id map[string]string, i int) {
	g := &m.GPUs[i]
	used, reserved := float64(m.Used(i, 0)), float64(g.Memory.Reserved)
	free := float64(g.Memory.Total) - reserved - used
	if m.v1 {
		used += reserved
	} else {
		m.want.set("gpu_memory_reserved_bytes", id, reserved)
	}
	m.want.set("gpu_memory_total_bytes", id, float64(g.Memory.Total))
	m.want.set("gpu_memory_used_bytes", id, used)
	m.want.set("gpu_memory_used_peak_bytes", id, used)
	m.want.set("gpu_memory_free_bytes", id, free)
	m.want.set("gpu_bar1_memory_total_bytes", id, float64(g.BAR1Total))
	m.want.set("gpu_bar1_memory_used_bytes", id, float64(g.BAR1Used.At(0)))
	sum, complete := m.sum(i)
	lacks := func(p fakenvml.Process) bool { return !m.exists(p.PID) }
	if complete && !slices.ContainsFunc(g.Processes, lacks) {
		m.want.set("gpu_memory_unattributed_bytes", id, used-sum)
	}
	m.judged("gpu_", id, used)
	if !m.detector {
		return
	}
	m.resets(id)
	attributed := 0.0
	if complete && !g.MIG.Enabled {
		attributed = 1
	}
	m.want.set("gpu_detector_attributed", id, attributed)
	m.want.between("gpu_detector_window_fill_ratio", with(id, "window", window), 0.1, 1)
	if !g.MIG.Enabled { // there the instances run out of memory
		m.want.set("gpu_oom_headroom_bytes", id, free)
	}
}

// sum adds up the memory of the processes of a GPU, and says whether all is known.
func (m *model) sum(i int) (sum float64, complete bool) {
	complete = true
	for _, p := range m.merged(i) {
		complete = complete && p.known
		sum += p.used
	}
	return sum, complete
}

func (m *model) resets(id map[string]string) {
	for _, reason := range []string{"device_reset", "repartition", "clock_step"} {
		m.want.set("gpu_detector_resets_total", with(id, "reason", reason), 0)
	}
}

// judged adds what the detector says of constant memory that is too young for a
// judgement.
func (m *model) judged(scope string, id map[string]string, used float64) {
	if !m.detector {
		return
	}
	for _, name := range []string{"leak_slope_bytes_per_second", "leak_r2", "spike_count"} {
		m.want.set(scope+name, with(id, "window", window), 0)
	}
	m.want.set(scope+"spikes_total", id, 0)
	m.want.set(scope+"memory_trough_bytes", id, used)
}

func (m *model) utilization(id map[string]string, g *fakenvml.GPU) {
	if g.MIG.Enabled {
		return
	}
	for name, percent := range map[string]uint32{
		"gpu_utilization_ratio": g.Utilization.SM, "gpu_memory_controller_utilization_ratio": g.Utilization.Memory,
		"gpu_encoder_utilization_ratio": g.Utilization.Encoder, "gpu_decoder_utilization_ratio": g.Utilization.Decoder,
		"gpu_jpeg_utilization_ratio": g.Utilization.JPEG, "gpu_ofa_utilization_ratio": g.Utilization.OFA,
	} {
		m.want.set(name, id, float64(percent)/100)
	}
}

// field returns the value of a field of NVML, and whether the GPU has it.
func field(g *fakenvml.GPU, id, scope uint32) (uint64, bool) {
	f, ok := g.Fields[fakenvml.FieldKey{ID: id, Scope: scope}]
	return f.Value.At(0), ok
}

func (m *model) thermal(id map[string]string, g *fakenvml.GPU) {
	m.want.set("gpu_temperature_celsius", with(id, "sensor", "gpu"), float64(g.Temperature))
	if v, ok := field(g, fakenvml.FieldMemoryTemperature, 0); ok {
		m.want.set("gpu_temperature_celsius", with(id, "sensor", "memory"), float64(v))
	}
	names := map[fakenvml.Threshold]string{
		fakenvml.ThresholdShutdown: "shutdown", fakenvml.ThresholdSlowdown: "slowdown",
		fakenvml.ThresholdMemoryMax: "memory_max", fakenvml.ThresholdGPUMax: "gpu_max",
		fakenvml.ThresholdAcousticMin: "acoustic_min", fakenvml.ThresholdAcousticCurrent: "acoustic_current",
		fakenvml.ThresholdAcousticMax: "acoustic_max",
	}
	for threshold, degrees := range g.Thresholds {
		m.want.set("gpu_temperature_threshold_celsius", with(id, "threshold", names[threshold]), float64(degrees))
	}
	if g.Margin != nil {
		m.want.set("gpu_temperature_margin_celsius", id, float64(*g.Margin))
	}
	for field32, name := range map[uint32]string{
		fakenvml.FieldTLimitShutdown: "shutdown", fakenvml.FieldTLimitSlowdown: "slowdown",
		fakenvml.FieldTLimitMemoryMax: "memory_max", fakenvml.FieldTLimitGPUMax: "gpu_max",
	} {
		if v, ok := field(g, field32, 0); ok {
			m.want.set("gpu_temperature_margin_threshold_celsius", with(id, "threshold", name), float64(int64(v)))
		}
	}
	for i, percent := range g.Fans {
		m.want.set("gpu_fan_speed_ratio", with(id, "fan", strconv.Itoa(i)), float64(percent)/100)
	}
	m.clockEvents(id, g)
}

func (m *model) clockEvents(id map[string]string, g *fakenvml.GPU) {
	for bit, name := range []string{
		"gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "sync_boost", "sw_thermal_slowdown",
		"hw_thermal_slowdown", "hw_power_brake_slowdown", "display_clock_setting",
	} {
		if g.SupportedReasons>>bit&1 == 1 {
			m.want.set("gpu_clock_event_active", with(id, "reason", name), float64(g.ClockReasons>>bit&1))
		}
	}
	for field32, name := range map[uint32]string{
		fakenvml.FieldClockReasonPower: "sw_power_cap", fakenvml.FieldClockReasonSyncBoost: "sync_boost",
		fakenvml.FieldClockReasonSWThermal: "sw_thermal_slowdown", fakenvml.FieldClockReasonHWThermal: "hw_thermal_slowdown",
		fakenvml.FieldClockReasonHWPowerBrake: "hw_power_brake_slowdown",
	} {
		if ns, ok := field(g, field32, 0); ok {
			m.want.set("gpu_clock_event_seconds_total", with(id, "reason", name), float64(ns)/1e9)
		}
	}
}

func (m *model) power(id map[string]string, g *fakenvml.GPU) {
	m.want.set("gpu_power_watts", id, float64(g.Power.At(0))/1000)
	m.want.set("gpu_energy_joules_total", id, float64(g.Energy.At(0))/1000)
	m.want.set("gpu_performance_state", id, float64(g.PState))
	for name, milliwatts := range map[string]uint32{
		"enforced": g.PowerLimits.Enforced, "management": g.PowerLimits.Limit, "default": g.PowerLimits.Default,
		"min": g.PowerLimits.Min, "max": g.PowerLimits.Max,
	} {
		m.want.set("gpu_power_limit_watts", with(id, "limit", name), float64(milliwatts)/1000)
	}
	for name, mhz := range map[string][2]uint32{
		"graphics": {g.Clocks.Graphics, g.MaxClocks.Graphics}, "sm": {g.Clocks.SM, g.MaxClocks.SM},
		"memory": {g.Clocks.Memory, g.MaxClocks.Memory}, "video": {g.Clocks.Video, g.MaxClocks.Video},
	} {
		m.want.set("gpu_clock_hertz", with(id, "clock", name), float64(mhz[0])*1e6)
		m.want.set("gpu_clock_max_hertz", with(id, "clock", name), float64(mhz[1])*1e6)
	}
}

// bit is 1 for true.
func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (m *model) ecc(id map[string]string, g *fakenvml.GPU) {
	m.want.set("gpu_ecc_enabled", id, bit(g.ECC.Enabled))
	m.want.set("gpu_recovery_action", id, float64(g.RecoveryAction))
	locations := []string{"l1_cache", "l2_cache", "dram", "register_file", "texture_memory", "texture_shm", "cbu", "sram"}
	totals := map[string]float64{}
	for key, n := range g.ECC.Errors {
		if !g.ECC.Enabled || g.MIG.Enabled && !key.Aggregate {
			continue
		}
		labels := with(id, "type", "corrected", "counter", "volatile", "location", "total")
		if key.Uncorrected {
			labels["type"] = "uncorrected"
		}
		if key.Aggregate {
			labels["counter"] = "aggregate"
		}
		totals[seriesKey("gpu_ecc_errors_total", labels)] += float64(n)
		m.want.set("gpu_ecc_errors_total", with(labels, "location", locations[key.Location]), float64(n))
	}
	for key, n := range totals {
		m.want[key] = bounds{n, n}
	}
	if !g.MIG.Enabled {
		m.want.set("gpu_remapped_rows_total", with(id, "type", "corrected"), float64(g.RemappedRows.Corrected))
		m.want.set("gpu_remapped_rows_total", with(id, "type", "uncorrected"), float64(g.RemappedRows.Uncorrected))
		m.want.set("gpu_row_remap_pending", id, bit(g.RemappedRows.Pending))
		m.want.set("gpu_row_remap_failed", id, bit(g.RemappedRows.Failed))
	}
	if slices.Contains(g.Unsupported, "nvmlDeviceGetRetiredPages*") {
		return
	}
	pages := map[uint32]float64{}
	for _, p := range g.RetiredPages {
		pages[p.Cause]++
	}
	m.want.set("gpu_retired_pages", with(id, "cause", "single_bit"), pages[0])
	m.want.set("gpu_retired_pages", with(id, "cause", "double_bit"), pages[1])
	m.want.set("gpu_retired_pages_pending", id, bit(g.RetiredPending))
}

func (m *model) pcie(id map[string]string, g *fakenvml.GPU) {
	m.want.set("gpu_pcie_link_generation", with(id, "state", "current"), float64(g.PCIe.Generation))
	m.want.set("gpu_pcie_link_generation", with(id, "state", "max"), float64(g.PCIe.MaxGeneration))
	m.want.set("gpu_pcie_link_width", with(id, "state", "current"), float64(g.PCIe.Width))
	m.want.set("gpu_pcie_link_width", with(id, "state", "max"), float64(g.PCIe.MaxWidth))
	m.want.set("gpu_pcie_replays_total", id, float64(g.PCIe.Replays))
	for field32, direction := range map[uint32]string{fakenvml.FieldPCIeTXBytes: "transmit", fakenvml.FieldPCIeRXBytes: "receive"} {
		if n, ok := field(g, field32, 0); ok {
			m.want.set("gpu_pcie_bytes_total", with(id, "direction", direction), float64(n))
		}
	}
}

func (m *model) nvlinks(id map[string]string, g *fakenvml.GPU) {
	for l, link := range g.NVLinks {
		labels := with(id, "link", strconv.Itoa(int(l)))
		m.want.set("gpu_nvlink_up", labels, bit(link.Active))
		for kind, n := range map[string]uint64{
			"replay": link.Replay, "recovery": link.Recovery, "crc_flit": link.CRCFlit, "crc_data": link.CRCData,
		} {
			m.want.set("gpu_nvlink_errors_total", with(labels, "type", kind), float64(n))
		}
		for field32, direction := range map[uint32]string{fakenvml.FieldNVLinkDataTX: "transmit", fakenvml.FieldNVLinkDataRX: "receive"} {
			if kib, ok := field(g, field32, l); ok {
				m.want.set("gpu_nvlink_bytes_total", with(labels, "direction", direction), float64(kib)*1024)
			}
		}
	}
}

func (m *model) mig(id map[string]string, i int) {
	g := &m.GPUs[i]
	if g.MIG.MaxDevices == 0 {
		return
	}
	m.want.set("gpu_mig_enabled", id, bit(g.MIG.Enabled))
	for _, in := range g.MIG.Instances {
		at := slices.IndexFunc(g.MIG.Profiles, func(p fakenvml.Profile) bool { return p.Number == in.Profile })
		labels := with(id, "gpu_instance", strconv.Itoa(int(in.ID)), "profile", strings.TrimPrefix(g.MIG.Profiles[at].Name, "MIG "))
		used, reserved := float64(m.InstanceUsed(i, in.ID, 0)), float64(in.Memory.Reserved)
		free := float64(in.Memory.Total) - reserved - used
		if m.v1 {
			used += reserved
		} else {
			m.want.set("gpu_mig_memory_reserved_bytes", labels, reserved)
		}
		m.want.set("gpu_mig_memory_total_bytes", labels, float64(in.Memory.Total))
		m.want.set("gpu_mig_memory_used_bytes", labels, used)
		m.want.set("gpu_mig_memory_free_bytes", labels, free)
		for _, d := range in.Devices {
			m.want.set("gpu_mig_info", with(labels, "compute_instance", strconv.Itoa(int(d.ComputeInstance)), "mig_uuid", d.UUID), 1)
		}
		m.judged("gpu_mig_", labels, used)
		if m.detector {
			m.want.set("gpu_mig_oom_headroom_bytes", labels, free)
		}
	}
}

// mergedProcess is a process on a GPU or GPU instance, whatever lists it is in.
type mergedProcess struct {
	pid         uint32
	instance    string
	lists       []fakenvml.List
	used        float64
	known       bool
	utilization *fakenvml.Utilization
}

// merged returns the processes of a GPU.
func (m *model) merged(i int) []mergedProcess {
	var all []mergedProcess
	for _, p := range m.GPUs[i].Processes {
		instance := ""
		if p.Instance != 0 {
			instance = strconv.Itoa(int(p.Instance))
		}
		at := slices.IndexFunc(all, func(o mergedProcess) bool { return o.pid == p.PID && o.instance == instance })
		if at < 0 {
			at = len(all)
			all = append(all, mergedProcess{pid: p.PID, instance: instance})
		}
		o := &all[at]
		o.lists = append(o.lists, p.List)
		if p.Memory.Base != fakenvml.NotAvailable {
			o.used, o.known = max(o.used, float64(p.Memory.At(0))), true
		}
		if p.Utilization != nil {
			o.utilization = p.Utilization
		}
	}
	return all
}

// processType is the label type of a process in these lists.
func processType(lists []fakenvml.List) string {
	graphics, compute := slices.Contains(lists, fakenvml.Graphics), slices.Contains(lists, fakenvml.Compute) || slices.Contains(lists, "")
	switch {
	case slices.Contains(lists, fakenvml.MPS):
		return "mps"
	case graphics && compute:
		return "compute+graphics"
	case graphics:
		return "graphics"
	}
	return "compute"
}

// processes adds those of a GPU and returns how many of them do not exist.
func (m *model) processes(id map[string]string, i int) (unresolved int) {
	all := m.merged(i)
	m.want.set("gpu_processes", id, float64(len(all))) // all of them are shown
	m.want.set("gpu_processes_other", id, 0)
	m.want.set("gpu_processes_other_memory_used_bytes", id, 0)
	m.want.set("gpu_process_exits_near_capacity_total", id, 0)
	for _, p := range all {
		labels := with(id, "gpu_instance", p.instance, "pid", strconv.Itoa(int(p.pid)),
			"process", "", "namespace", "", "pod", "", "container", "", "slurm_job", "")
		owner := ""
		if m.exists(p.pid) {
			start := float64(procNumber(m.t, "stat", "btime")) + float64(startTicks(m.t, p.pid))/100
			self, err := os.Executable()
			harness.Must(m.t, err)
			labels["process"], owner = filepath.Base(self), hostUser
			// The clocks of the test and of the exporter agree to the second.
			m.want.between("gpu_process_start_time_seconds", labels, start-1, start+1)
		} else {
			unresolved++
		}
		m.want.set("gpu_process_info", with(labels, "user", owner, "container_id", "", "type", processType(p.lists)), 1)
		if p.known {
			m.want.set("gpu_process_memory_used_bytes", labels, p.used)
			m.judged("gpu_process_", labels, p.used)
		}
		if !m.GPUs[i].MIG.Enabled {
			m.processUtilization(labels, p.utilization)
		}
	}
	return unresolved
}

func (m *model) exists(pid uint32) bool {
	_, err := os.Stat(filepath.Join(m.procfs, strconv.Itoa(int(pid))))
	return err == nil
}

// processUtilization adds the ratios of a process, 0 where the driver answers and
// has no sample of it.
func (m *model) processUtilization(labels map[string]string, u *fakenvml.Utilization) {
	if u == nil {
		u = &fakenvml.Utilization{}
	}
	for name, percent := range map[string]uint32{
		"sm": u.SM, "memory_controller": u.Memory, "encoder": u.Encoder, "decoder": u.Decoder,
	} {
		m.want.set("gpu_process_"+name+"_utilization_ratio", labels, float64(percent)/100)
	}
	idle := 0.0
	if u.SM == 0 {
		idle = time.Since(m.begin).Seconds()
	}
	m.want.between("gpu_process_idle_seconds", labels, 0, idle)
}

// aboutExporter finds the metrics that the model does not know, with prefixes for
// those of libraries: what they say is of the exporter, not of the GPUs.
var aboutExporter = regexp.MustCompile(`^(gpu_nvml_calls_total|gpu_nvml_call_seconds_total|gpu_nvml_call_in_flight_seconds)$|^(gpu_leak_exporter|go|process|promhttp)_`)

// compare returns how a scrape differs from what is expected, both ways.
func (e expected) compare(s harness.Metrics) error {
	var errs []error
	seen := map[string]bool{}
	for _, series := range s {
		if aboutExporter.MatchString(series.Name) {
			continue
		}
		key := seriesKey(series.Name, series.Labels)
		b, known := e[key]
		switch {
		case !known:
			errs = append(errs, fmt.Errorf("unexpected: %s %g", key, series.Value))
		case seen[key]:
			errs = append(errs, fmt.Errorf("twice: %s", key))
		case !within(series.Value, b):
			errs = append(errs, fmt.Errorf("%s is %v, want %v to %v", key, series.Value, b.low, b.high))
		}
		seen[key] = true
	}
	for _, key := range slices.Sorted(maps.Keys(e)) {
		if !seen[key] {
			errs = append(errs, fmt.Errorf("missing: %s", key))
		}
	}
	if n := len(errs); n > 30 {
		errs = append(errs[:30], fmt.Errorf("and %d more of %d series", n-30, len(e)))
	}
	return errors.Join(errs...)
}

// within allows for the last digit of a float64, because a number of the model may
// have been divided in another order.
func within(v float64, b bounds) bool {
	slack := 1e-15 * max(math.Abs(b.low), math.Abs(b.high))
	return v >= b.low-slack && v <= b.high+slack
}
