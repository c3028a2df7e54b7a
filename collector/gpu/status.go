// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package gpu

import "time"

// Group is a part of Status that is read on its own, so that a part that nobody
// asked for costs nothing and one that fails takes no other with it. Its name is
// that of the collector that exports it.
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
	BAR1        BAR1
	Utilization Utilization
	Thermal     Thermal
	Power       Power
	Clocks      []Clock
	ECC         ECC
	PCIe        PCIe
	NVLinks     []NVLink
}

// BAR1 is the memory window through which the host reaches the frame buffer, in
// bytes.
type BAR1 struct{ Total, Used Opt[uint64] }

// Utilization holds ratios (0 to 1) of the driver's last sampling period in
// which the engine was busy. All are absent on a GPU in MIG mode.
type Utilization struct {
	GPU, MemoryController, Encoder, Decoder, JPEG, OFA Opt[float64]
}

// Thermal holds temperatures and what slows the clocks down.
type Thermal struct {
	// Temperatures are by sensor: gpu, memory.
	Temperatures []Named[float64]
	// Thresholds are absolute, by name: shutdown, slowdown, memory_max, gpu_max,
	// acoustic_min, acoustic_current, acoustic_max. Absent where the driver gives
	// margins (Ada and later).
	Thresholds []Named[float64]
	// Margin is how many degrees the GPU is below its slowdown temperature.
	Margin Opt[float64]
	// MarginThresholds are the margins at which something happens, by name:
	// shutdown, slowdown, memory_max, gpu_max.
	MarginThresholds []Named[float64]
	// Fans are ratios of the maximum speed, in the driver's order; they can be
	// over 1.
	Fans []Opt[float64]
	// ClockEvents are the driver's clocks event reasons, in its order; nil where
	// it does not tell.
	ClockEvents []ClockEvent
}

// Named is one of several values of a kind.
type Named[T any] struct {
	Name string
	V    T
}

// ClockEvent is a reason for clocks below their maximum.
type ClockEvent struct {
	// Reason is NVML's name in lower case without its prefix: gpu_idle,
	// applications_clocks_setting, sw_power_cap, hw_slowdown, sync_boost,
	// sw_thermal_slowdown, hw_thermal_slowdown, hw_power_brake_slowdown,
	// display_clock_setting.
	Reason string
	// Active is whether it holds now.
	Active Opt[bool]
	// Seconds is how long it has held since the driver was loaded.
	Seconds Opt[float64]
}

// Power holds electrical figures.
type Power struct {
	// Watts is the draw now.
	Watts Opt[float64]
	// Limits in watts are by name: enforced, management, default, min, max.
	Limits []Named[float64]
	// Joules is the energy since the driver was loaded.
	Joules Opt[float64]
	// PerformanceState is 0 (fastest) to 15.
	PerformanceState Opt[int]
}

// Clock is one clock domain, in hertz.
type Clock struct {
	Name         string // graphics, sm, memory, video
	Current, Max Opt[float64]
}

// ECC holds memory errors and what became of them.
type ECC struct {
	Enabled Opt[bool]
	Errors  []ECCErrors
	// RemappedRows counts by type: corrected, uncorrected. Absent under MIG.
	RemappedRows []Named[uint64]
	// RemapPending says that a reset is needed for a remap to take effect;
	// RemapFailed that there was no spare row left.
	RemapPending, RemapFailed Opt[bool]
	// RetiredPages are by cause: single_bit, double_bit (before Ampere).
	RetiredPages        []Named[uint64]
	RetiredPagesPending Opt[bool]
	// RecoveryAction is what the driver asks for: 0 none, 1 GPU reset, 2 node
	// reboot, 3 drain peer-to-peer, 4 drain and reset, 5 recover the IMEX domain.
	RecoveryAction Opt[int]
}

// ECCErrors is one counter of memory errors.
type ECCErrors struct {
	Type     string // corrected, uncorrected
	Counter  string // volatile (since the driver was loaded), aggregate (of the GPU's life)
	Location string // total, or dram, sram, l1_cache, l2_cache, register_file, …
	Count    uint64
}

// PCIe is the link to the host.
type PCIe struct {
	GenerationCurrent, GenerationMax, WidthCurrent, WidthMax Opt[int]
	Replays                                                  Opt[uint64]
	// ReceivedBytes and TransmittedBytes count since the driver was loaded, where
	// it counts at all.
	ReceivedBytes, TransmittedBytes Opt[uint64]
}

// NVLink is one link to another GPU or a switch.
type NVLink struct {
	Link int
	Up   Opt[bool]
	// Errors are by type: replay, recovery, crc_flit, crc_data.
	Errors                          []Named[uint64]
	ReceivedBytes, TransmittedBytes Opt[uint64]
}

// ProcessorTicks is the unit of ProcessID.Start in ticks a second: USER_HZ,
// which is 100 on every architecture that NVIDIA's driver runs on.
const ProcessorTicks = 100

// TicksToTime converts ticks since boot into time since the Unix epoch. boot is
// the moment of boot on the clock that the result is wanted in.
func TicksToTime(boot time.Duration, ticks uint64) time.Duration {
	return boot + time.Duration(ticks)*(time.Second/ProcessorTicks)
}
