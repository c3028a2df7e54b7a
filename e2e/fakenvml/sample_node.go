// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fakenvml

import (
	"fmt"
	"time"
)

// GiB is 2³⁰ bytes.
const GiB = 1 << 30

// NewNode makes a node of n GPUs without processes, all idle values distinct from GPU to GPU, so that a mix-up shows. All
// are H100s but the second, which is an RTX 6000 Ada: with fans, temperature margins for thresholds, no MIG, no NVLink.
// The Epoch is now, and everything but energy stands still.
func NewNode(n int) *Node {
	node := &Node{
		Driver: "570.124.06", CUDA: 12080,
		Epoch: time.Now().Truncate(time.Second),
	}
	for i := range n {
		node.GPUs = append(node.GPUs, newH100(uint32(i)))
		if i == 1 {
			node.GPUs[i].becomeAda()
		}
	}
	return node
}

func newH100(i uint32) GPU {
	g := GPU{
		UUID:   fmt.Sprintf("GPU-%08x-1111-2222-3333-4444555566%02x", 0xA0000000+i, i),
		Name:   "NVIDIA H100 80GB HBM3",
		Serial: fmt.Sprintf("16529230%05d", 100+i), VBIOS: fmt.Sprintf("96.00.74.00.%02X", i+1),
		BusID: fmt.Sprintf("00000000:%02X:00.0", 0x1B+9*i),
		Minor: i, Architecture: 9,
		Memory:    Memory{Total: 81559 << 20, Reserved: 551 << 20, Used: Constant(uint64(4+i) << 20), AddProcesses: true},
		BAR1Total: 128 * GiB, BAR1Used: Constant(uint64(2+i) << 20),
		Utilization: Utilization{SM: 40 + i, Memory: 20 + i, Encoder: i, Decoder: 1 + i, JPEG: 2 + i, OFA: 3 + i},
		Temperature: int32(35 + i),
		Thresholds:  map[Threshold]uint32{ThresholdShutdown: 90 + i, ThresholdSlowdown: 87, ThresholdMemoryMax: 95, ThresholdGPUMax: 85},
		Power:       Constant(uint64(310_000 + 1111*i)), Energy: Ramp{Base: 1_000_000_000 + uint64(i)*7, Rate: 310_000},
		PowerLimits: PowerLimits{Limit: 650_000, Default: 700_000, Enforced: 640_000 + i, Min: 200_000, Max: 710_000},
		Clocks:      Clocks{Graphics: 1755 + i, SM: 1740 + i, Memory: 2619 + i, Video: 1545 + i},
		MaxClocks:   Clocks{Graphics: 1980, SM: 1981, Memory: 2620, Video: 1982},
		// Power cap now; GPU idle, application clocks, power cap, slowdowns known.
		ClockReasons: 4, SupportedReasons: 0x1FF,
		ECC:            h100ECC(i),
		RemappedRows:   RemappedRows{Corrected: i, Uncorrected: 1 + i},
		RecoveryAction: 0,
		PCIe: PCIe{
			Generation: 4, MaxGeneration: 5, Width: 8, MaxWidth: 16, Replays: 3 + i,
		},
		NVLinks:     map[uint32]NVLink{},
		Fields:      h100Fields(i),
		MIG:         MIG{MaxDevices: 7, Profiles: h100Profiles()},
		Unsupported: []string{"nvmlDeviceGetRetiredPages*"}, // Ampere and later remap rows
	}
	g.addNVLinks(i)
	return g
}

// addNVLinks gives an H100 its 18 links, of which the last is down, and their counters.
func (g *GPU) addNVLinks(i uint32) {
	for l := range uint32(18) {
		g.NVLinks[l] = NVLink{
			Active: l != 17, Replay: uint64(i), Recovery: uint64(l), CRCFlit: uint64(l + i),
		}
		g.Fields[FieldKey{FieldNVLinkDataTX, l}] = Field{Type: FieldUlonglong, Value: Constant(uint64(1_000_000*i + 1000 + l))}
		g.Fields[FieldKey{FieldNVLinkDataRX, l}] = Field{Type: FieldUlonglong, Value: Constant(uint64(1_000_000*i + 2000 + l))}
	}
}

func h100ECC(i uint32) ECC {
	e := ECC{Enabled: true, Pending: true, Errors: map[ECCKey]uint64{}}
	for _, uncorrected := range []bool{false, true} {
		for _, aggregate := range []bool{false, true} {
			n := uint64(10 * i)
			if uncorrected {
				n++
			}
			if aggregate {
				n += 2
			}
			e.Errors[ECCKey{uncorrected, aggregate, LocationDRAM}] = n
			e.Errors[ECCKey{uncorrected, aggregate, LocationSRAM}] = n + 100
		}
	}
	return e
}

func h100Fields(i uint32) map[FieldKey]Field {
	u := func(n uint32) Field { return Field{Type: FieldUint, Value: Constant(uint64(n))} }
	ull := func(n uint32) Field { return Field{Type: FieldUlonglong, Value: Constant(uint64(n))} }
	return map[FieldKey]Field{
		{FieldMemoryTemperature, 0}:       u(50 + i),
		{FieldNVLinkCount, 0}:             u(18),
		{FieldClockReasonPower, 0}:        ull(1_500_000_000 + i),
		{FieldClockReasonSyncBoost, 0}:    ull(i),
		{FieldClockReasonSWThermal, 0}:    ull(2_000_000 + i),
		{FieldClockReasonHWThermal, 0}:    ull(3_000_000 + i),
		{FieldClockReasonHWPowerBrake, 0}: ull(4_000_000 + i),
		{FieldPCIeTXBytes, 0}:             ull(123_456_000 + i),
		{FieldPCIeRXBytes, 0}:             ull(654_321_000 + i),
	}
}

// becomeAda makes an RTX 6000 Ada out of an H100, with other numbers that stay distinct.
func (g *GPU) becomeAda() {
	g.Name, g.Architecture = "NVIDIA RTX 6000 Ada Generation", 8
	g.Memory.Total, g.Memory.Reserved = 49140<<20, 636<<20
	g.BAR1Total = 64 * GiB
	g.Thresholds = nil
	margin := int32(45)
	g.Margin = &margin
	g.Fans = []uint32{30, 33}
	g.NVLinks = nil
	g.MIG = MIG{}
	fields := map[FieldKey]Field{}
	for key, f := range g.Fields {
		if key.ID < FieldNVLinkCount || key.ID > FieldNVLinkDataRX {
			fields[key] = f
		}
	}
	delete(fields, FieldKey{ID: FieldMemoryTemperature}) // GDDR6 tells none
	for id, c := range map[uint32]int64{FieldTLimitShutdown: -7, FieldTLimitSlowdown: -2, FieldTLimitMemoryMax: 1, FieldTLimitGPUMax: 3} {
		fields[FieldKey{ID: id}] = Field{Type: FieldInt, Value: Constant(uint64(c))}
	}
	g.Fields = fields
}
