// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import "time"

// Group is a part of Status that is read on its own, so that an unused part costs no calls.
type Group string

// The groups, in the order in which they are read.
const (
	GroupMemory      Group = "memory" // BAR1 only; the frame buffer is in Sample
	GroupUtilization Group = "utilization"
	GroupThermal     Group = "thermal"
	GroupPower       Group = "power"
	GroupClocks      Group = "clocks"
	GroupECC         Group = "ecc"
	GroupPCIe        Group = "pcie"
	GroupNVLink      Group = "nvlink"
)

// Groups are all groups, in the order in which they are read.
var Groups = []Group{
	GroupMemory, GroupUtilization, GroupThermal, GroupPower, GroupClocks, GroupECC, GroupPCIe, GroupNVLink,
}

// Status is the slow reading of a GPU: all but memory and processes. Each part
// belongs to the group of its name.
type Status struct {
	BAR1        BAR1        `json:"bar1,omitzero"`
	Utilization Utilization `json:"utilization,omitzero"`
	Thermal     Thermal     `json:"thermal,omitzero"`
	Power       Power       `json:"power,omitzero"`
	Clocks      []Clock     `json:"clocks,omitzero"`
	ECC         ECC         `json:"ecc,omitzero"`
	PCIe        PCIe        `json:"pcie,omitzero"`
	NVLinks     []NVLink    `json:"nvlinks,omitzero"`
}

// BAR1 is the memory window through which the host reaches the frame buffer, in
// bytes.
type BAR1 struct {
	Total Opt[uint64] `json:"total,omitzero"`
	Used  Opt[uint64] `json:"used,omitzero"`
}

// Utilization holds ratios (0 to 1) of the driver's last sampling period in
// which the engine was busy. All are absent on a GPU in MIG mode.
type Utilization struct {
	GPU              Opt[float64] `json:"gpu,omitzero"`
	MemoryController Opt[float64] `json:"memory_controller,omitzero"`
	Encoder          Opt[float64] `json:"encoder,omitzero"`
	Decoder          Opt[float64] `json:"decoder,omitzero"`
	JPEG             Opt[float64] `json:"jpeg,omitzero"`
	OFA              Opt[float64] `json:"ofa,omitzero"`
}

// Thermal holds temperatures and the reasons for slow clocks.
type Thermal struct {
	// Temperatures are by sensor: gpu, memory.
	Temperatures []Named[float64] `json:"temperatures,omitzero"`
	// Thresholds are absolute, by name: shutdown, slowdown, memory_max, gpu_max,
	// acoustic_min, acoustic_current, acoustic_max. Absent where the driver gives
	// margins (Ada and later).
	Thresholds []Named[float64] `json:"thresholds,omitzero"`
	// Margin is how many degrees the GPU is below its slowdown temperature.
	Margin Opt[float64] `json:"margin,omitzero"`
	// MarginThresholds are the margins at which something happens, by name:
	// shutdown, slowdown, memory_max, gpu_max.
	MarginThresholds []Named[float64] `json:"margin_thresholds,omitzero"`
	// Fans are ratios of the maximum speed, in the driver's order; they can be
	// over 1.
	Fans []Opt[float64] `json:"fans,omitzero"`
	// ClockEvents are the driver's clocks event reasons, in its order; nil where
	// it does not tell.
	ClockEvents []ClockEvent `json:"clock_events,omitzero"`
}

// Named is one of several values of a kind.
type Named[T any] struct {
	Name string `json:"name,omitzero"`
	V    T      `json:"value"`
}

// ClockEvent is a reason for clocks below their maximum.
type ClockEvent struct {
	// Reason is NVML's name in lower case without its prefix: gpu_idle,
	// applications_clocks_setting, sw_power_cap, hw_slowdown, sync_boost,
	// sw_thermal_slowdown, hw_thermal_slowdown, hw_power_brake_slowdown,
	// display_clock_setting.
	Reason string `json:"reason,omitzero"`
	// Active is whether it holds now.
	Active Opt[bool] `json:"active,omitzero"`
	// Seconds is how long it has held since the driver was loaded.
	Seconds Opt[float64] `json:"seconds,omitzero"`
}

// Power holds electrical figures.
type Power struct {
	// Watts is the draw now.
	Watts Opt[float64] `json:"watts,omitzero"`
	// Limits in watts are by name: enforced, management, default, min, max.
	Limits []Named[float64] `json:"limits,omitzero"`
	// Joules is the energy since the driver was loaded.
	Joules Opt[float64] `json:"joules,omitzero"`
	// PerformanceState is 0 (fastest) to 15.
	PerformanceState Opt[int] `json:"performance_state,omitzero"`
}

// Clock is one clock domain, in hertz.
type Clock struct {
	Name    string       `json:"name,omitzero"` // graphics, sm, memory, video
	Current Opt[float64] `json:"current,omitzero"`
	Max     Opt[float64] `json:"max,omitzero"`
}

// ECC holds memory errors and the repairs.
type ECC struct {
	Enabled Opt[bool]   `json:"enabled,omitzero"`
	Errors  []ECCErrors `json:"errors,omitzero"`
	// RemappedRows counts by type: corrected, uncorrected. Absent under MIG.
	RemappedRows []Named[uint64] `json:"remapped_rows,omitzero"`
	// RemapPending says that a remap needs a reset to take effect; RemapFailed that there was no spare row left.
	RemapPending Opt[bool] `json:"remap_pending,omitzero"`
	RemapFailed  Opt[bool] `json:"remap_failed,omitzero"`
	// RetiredPages are by cause: single_bit, double_bit (before Ampere).
	RetiredPages        []Named[uint64] `json:"retired_pages,omitzero"`
	RetiredPagesPending Opt[bool]       `json:"retired_pages_pending,omitzero"`
	// RecoveryAction is the driver's request, as NVML numbers it: 0 is none.
	RecoveryAction Opt[int] `json:"recovery_action,omitzero"`
}

// ECCErrors is one counter of memory errors.
type ECCErrors struct {
	Type     string `json:"type,omitzero"`     // corrected, uncorrected
	Counter  string `json:"counter,omitzero"`  // volatile (since the driver was loaded), aggregate (of the GPU's life)
	Location string `json:"location,omitzero"` // total, or dram, sram, l1_cache, l2_cache, register_file, …
	Count    uint64 `json:"count"`
}

// PCIe is the link to the host.
type PCIe struct {
	GenerationCurrent Opt[int]    `json:"generation_current,omitzero"`
	GenerationMax     Opt[int]    `json:"generation_max,omitzero"`
	WidthCurrent      Opt[int]    `json:"width_current,omitzero"`
	WidthMax          Opt[int]    `json:"width_max,omitzero"`
	Replays           Opt[uint64] `json:"replays,omitzero"`
	// ReceivedBytes and TransmittedBytes count since the driver was loaded, where it counts at all.
	ReceivedBytes    Opt[uint64] `json:"received_bytes,omitzero"`
	TransmittedBytes Opt[uint64] `json:"transmitted_bytes,omitzero"`
}

// NVLink is one link to another GPU or a switch.
type NVLink struct {
	Link int       `json:"link"`
	Up   Opt[bool] `json:"up,omitzero"`
	// Errors are by type: replay, recovery, crc_flit, crc_data.
	Errors           []Named[uint64] `json:"errors,omitzero"`
	ReceivedBytes    Opt[uint64]     `json:"received_bytes,omitzero"`
	TransmittedBytes Opt[uint64]     `json:"transmitted_bytes,omitzero"`
}

// ProcessorTicks is the unit of ProcessID.Start in ticks a second: USER_HZ, which is 100 on every architecture that NVIDIA's
// driver runs on.
const ProcessorTicks = 100

// TicksToTime converts ticks since boot into time since the Unix epoch. boot is the moment of boot on the clock of the result.
func TicksToTime(boot time.Duration, ticks uint64) time.Duration {
	return boot + time.Duration(ticks)*(time.Second/ProcessorTicks)
}
