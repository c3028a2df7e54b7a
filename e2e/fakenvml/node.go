// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fakenvml

import (
	"cmp"
	"math"
	"time"
)

// NotAvailable is what the driver says for a process's memory that it does not know: all ones.
const NotAvailable = math.MaxUint64

// MaxGPUs is the most that a [Node] may have.
const MaxGPUs = 16

// A Node is a machine with GPUs as its driver describes it. The zero value has no GPU; [NewNode] makes a realistic one.
// Changes take effect with the next [Node.Write].
type Node struct {
	// Driver is the driver's version.
	Driver string
	// CUDA is the driver's CUDA version: 12080 is 12.8.
	CUDA int
	// Epoch is when the ramps start.
	Epoch time.Time
	// EnumerateAtInit counts the GPUs that were there at Init, as the driver does, rather than those of the script now.
	EnumerateAtInit bool
	// GPUs, in the driver's order. A handle stays with its UUID: removing one shifts the indices of those behind it.
	GPUs []GPU
	// Faults, of which the first that matches a call acts.
	Faults []Fault

	events uint64
}

// A Ramp is a number that moves with time: Base + Rate × t, never under 0, where t is the time since the node's Epoch. A
// plain number is Ramp{Base: n}, or [Constant].
type Ramp struct {
	Base uint64
	Rate float64 // per second
}

// Constant is a Ramp that does not move.
func Constant(n uint64) Ramp { return Ramp{Base: n} }

// At returns the value at a time after the node's Epoch.
func (r Ramp) At(t time.Duration) uint64 {
	if r.Rate == 0 || r.Base == NotAvailable {
		return r.Base
	}
	moved := int64(r.Rate * max(t, 0).Seconds())
	if moved < 0 && uint64(-moved) > r.Base {
		return 0
	}
	return r.Base + uint64(moved)
}

// Memory is what a GPU or a GPU instance has, bytes.
type Memory struct {
	Total, Reserved uint64
	// Used excludes what the driver reserves, as nvmlDeviceGetMemoryInfo_v2 has it; the first version adds Reserved.
	Used Ramp
	// AddProcesses puts the processes' memory on top of Used: each pid once, not-available ones not at all.
	AddProcesses bool
}

// A GPU is one device as its driver describes it. What a GPU does not offer is listed in Unsupported.
type GPU struct {
	UUID, Name, Serial, VBIOS string
	// BusID is the PCI address as 00000000:3B:00.0.
	BusID                          string
	Minor, Architecture            uint32 // as NVML numbers them
	Lost                           bool   // every call answers GPU_IS_LOST
	Hidden                         bool   // lost, it is not counted either
	Memory                         Memory
	BAR1Total                      uint64 // bytes
	BAR1Used                       Ramp   // bytes
	Utilization                    Utilization
	Temperature                    int32                // °C
	Margin                         *int32               // °C to the next slowdown; nil: not offered
	Thresholds                     map[Threshold]uint32 // °C; a missing one is not supported
	Fans                           []uint32             // %; none: fan calls are not supported
	Power                          Ramp                 // mW
	Energy                         Ramp                 // mJ
	PowerLimits                    PowerLimits
	PState                         uint32
	Clocks, MaxClocks              Clocks
	ClockReasons, SupportedReasons uint64 // clocks event reasons, a bit mask
	ECC                            ECC
	RemappedRows                   RemappedRows
	RetiredPages                   []RetiredPage
	RetiredPending                 bool
	RecoveryAction                 uint32 // as nvmlDeviceGpuRecoveryAction_t
	PCIe                           PCIe
	NVLinks                        map[uint32]NVLink // by link; a missing one is not supported
	Addressing                     uint32            // the mode, as NVML numbers it; 2 is ATS: memory coherent with the CPU's
	// Fields are values of nvmlDeviceGetFieldValues beside those that follow from the rest: ECC mode and totals, energy,
	// power and its limits, PCIe replays, remapped rows, recovery action. Others are not supported.
	Fields    map[FieldKey]Field
	Processes []Process
	Limits    map[string]uint64 // bytes, of control groups by their folder; a missing one is not found
	Events    []Event           // use [Node.Raise]
	MIG       MIG
	// Unsupported are functions that answer NOT_SUPPORTED about this GPU.
	Unsupported []string
}

// Utilization is in percent.
type Utilization struct {
	SM, Memory, Encoder, Decoder, JPEG, OFA uint32
}

// A Threshold is a kind of temperature threshold, as NVML numbers them.
type Threshold uint32

// The kinds of temperature threshold.
const (
	ThresholdShutdown Threshold = iota
	ThresholdSlowdown
	ThresholdMemoryMax
	ThresholdGPUMax
	ThresholdAcousticMin
	ThresholdAcousticCurrent
	ThresholdAcousticMax
)

// PowerLimits are in mW. Limit is the one that was set, Enforced the one that holds.
type PowerLimits struct {
	Limit, Default, Enforced, Min, Max uint32
}

// Clocks are in MHz.
type Clocks struct {
	Graphics, SM, Memory, Video uint32
}

// ECC is the state and the counters of a GPU's ECC. With ECC off, counters are not supported.
type ECC struct {
	Enabled, Pending bool
	// Errors that the GPU counts; a missing one is not supported. The totals are their sums.
	Errors map[ECCKey]uint64
}

// An ECCKey names an ECC counter. Location is NVML's nvmlMemoryLocation_t.
type ECCKey struct {
	Uncorrected, Aggregate bool
	Location               uint32
}

// Locations of ECC errors, as NVML numbers them.
const (
	LocationDRAM = 2
	LocationSRAM = 7
)

// RemappedRows are row counts.
type RemappedRows struct {
	Corrected, Uncorrected uint32
	Pending, Failed        bool
}

// A RetiredPage is a page of a GPU older than Ampere. Cause 0 is several corrected errors, 1 an uncorrected one.
type RetiredPage struct {
	Cause   uint32
	Address uint64
}

// PCIe is the link's state.
type PCIe struct {
	Generation, MaxGeneration uint32
	Width, MaxWidth           uint32
	Replays                   uint32
}

// An NVLink is one link of a GPU.
type NVLink struct {
	Active bool
	// Errors are the counters in NVML's order.
	Replay, Recovery, CRCFlit, CRCData, ECCData uint64
}

// A FieldKey names a field value. Scope is mostly 0; for NVLink's it is the link.
type FieldKey struct {
	ID, Scope uint32
}

// Field numbers that an exporter asks for and that nothing else of a GPU tells.
const (
	FieldClockReasonPower        = 74 // ns, as are the next four
	FieldClockReasonSyncBoost    = 76
	FieldClockReasonSWThermal    = 269
	FieldClockReasonHWThermal    = 270
	FieldClockReasonHWPowerBrake = 271
	FieldMemoryTemperature       = 82 // °C
	FieldNVLinkCount             = 91
	FieldNVLinkDataTX            = 138 // KiB, scope the link
	FieldNVLinkDataRX            = 139
	FieldTLimitShutdown          = 193 // °C of margin, as are the next three
	FieldTLimitSlowdown          = 194
	FieldTLimitMemoryMax         = 195
	FieldTLimitGPUMax            = 196
	FieldPCIeTXBytes             = 197
	FieldPCIeRXBytes             = 198
)

// A FieldType is the member of the union that holds the value, as the script spells it.
type FieldType string

// The types of field values.
const (
	FieldUint      FieldType = "u"
	FieldUlonglong FieldType = "ull"
	FieldInt       FieldType = "si"
)

// A Field is the answer to one field of nvmlDeviceGetFieldValues.
type Field struct {
	Type  FieldType
	Value Ramp // signed values in two's complement
}

// A List is one of the driver's process lists.
type List string

// The process lists.
const (
	Compute  List = "compute"
	Graphics List = "graphics"
	MPS      List = "mps"
)

// A Process is an entry of a process list. A process in two lists is two entries.
type Process struct {
	PID uint32
	// List is Compute where it is empty.
	List List
	// Memory in bytes; Base NotAvailable is not known.
	Memory Ramp
	// Instance is the GPU instance that the process runs on, by its ID, in the first compute instance; 0 is none.
	Instance uint32
	// Utilization, where not nil, is a sample that is always fresh.
	Utilization *Utilization
}

// An Event is delivered once to each event set whose registration is older than the event.
type Event struct {
	Seq        uint64 // set by [Node.Raise]
	Type, Data uint64
}

// Types of events, as NVML numbers them.
const (
	EventDoubleBitECC = 2
	EventXID          = 8
)

// Raise adds an event to the GPU of that index. Event sets that register later do not see it, as with the driver: wait
// for nvmlDeviceRegisterEvents in the [Calls] before the Write.
func (n *Node) Raise(gpu int, eventType, data uint64) {
	n.events++
	n.GPUs[gpu].Events = append(n.GPUs[gpu].Events, Event{Seq: n.events, Type: eventType, Data: data})
}

// RaiseXID adds an XID event to the GPU of that index; see [Node.Raise].
func (n *Node) RaiseXID(gpu int, xid uint64) { n.Raise(gpu, EventXID, xid) }

// Used returns the bytes that nvmlDeviceGetMemoryInfo_v2 gives for the GPU of that index at a time after the
// Epoch.
func (n *Node) Used(gpu int, t time.Duration) uint64 {
	g := &n.GPUs[gpu]
	return g.used(g.Memory, 0, t)
}

// InstanceUsed is Used for the GPU instance of that ID.
func (n *Node) InstanceUsed(gpu int, instance uint32, t time.Duration) uint64 {
	g := &n.GPUs[gpu]
	for _, i := range g.MIG.Instances {
		if i.ID == instance {
			return g.used(i.Memory, instance, t)
		}
	}
	return 0
}

func (g *GPU) used(m Memory, instance uint32, t time.Duration) uint64 {
	used := m.Used.At(t)
	seen := map[[2]uint32]bool{}
	for _, list := range []List{Compute, Graphics, MPS} { // the first entry counts, in the fake's order
		for _, p := range g.Processes {
			key := [2]uint32{p.PID, p.Instance}
			if p.list() != list || seen[key] {
				continue
			}
			seen[key] = true
			if m.AddProcesses && p.Memory.Base != NotAvailable && (instance == 0 || p.Instance == instance) {
				used += p.Memory.At(t)
			}
		}
	}
	return min(used, m.Total-m.Reserved)
}

func (p *Process) list() List {
	return cmp.Or(p.List, Compute)
}
