// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fakenvml

import (
	"fmt"
	"slices"
)

// MIG is a GPU's partition into instances. MaxDevices 0 is a GPU that knows no MIG.
//
// On a GPU whose MIG mode is Enabled, device-level and process utilisation, volatile ECC counters and remapped rows are
// not supported, as with the driver.
type MIG struct {
	Enabled, Pending bool
	MaxDevices       uint32
	Profiles         []Profile
	Instances        []GPUInstance
}

// A Profile is a kind of GPU instance. Number is NVML's NVML_GPU_INSTANCE_PROFILE_*.
type Profile struct {
	Number, Slices, Multiprocessors uint32
	MemoryMB                        uint64
	Name                            string // MIG 1g.10gb
}

// A GPUInstance has memory of its own, which its compute instances share.
type GPUInstance struct {
	ID      uint32
	Profile uint32 // Number of the Profile
	Memory  Memory
	Devices []MIGDevice
}

// A MIGDevice is a compute instance.
type MIGDevice struct {
	Index           uint32 // for nvmlDeviceGetMigDeviceHandleByIndex
	ComputeInstance uint32
	UUID            string // MIG-…
	Slices          uint32
	Multiprocessors uint32
}

// h100Profiles are those of an H100 with 80 GB.
func h100Profiles() []Profile {
	return []Profile{
		{Number: 0, Slices: 1, Multiprocessors: 16, MemoryMB: 9856, Name: "MIG 1g.10gb"},
		{Number: 9, Slices: 1, Multiprocessors: 26, MemoryMB: 19968, Name: "MIG 1g.20gb"},
		{Number: 1, Slices: 2, Multiprocessors: 32, MemoryMB: 20096, Name: "MIG 2g.20gb"},
		{Number: 2, Slices: 3, Multiprocessors: 60, MemoryMB: 40448, Name: "MIG 3g.40gb"},
		{Number: 3, Slices: 4, Multiprocessors: 64, MemoryMB: 40448, Name: "MIG 4g.40gb"},
		{Number: 4, Slices: 7, Multiprocessors: 132, MemoryMB: 81152, Name: "MIG 7g.80gb"},
	}
}

// Partition turns MIG on with one GPU instance for each profile name (such as 1g.10gb), each with one compute instance
// of all its slices. IDs start at 1; memory is the profile's, 16 MiB of it reserved, with the processes' on top. It
// panics on a name that the GPU has no profile for.
func (g *GPU) Partition(profiles ...string) {
	g.MIG.Enabled, g.MIG.Pending = true, true
	g.MIG.Instances = nil
	for i, name := range profiles {
		p := g.MIG.Profiles[slices.IndexFunc(g.MIG.Profiles, func(p Profile) bool { return p.Name == "MIG "+name })]
		id := uint32(i) + 1
		g.MIG.Instances = append(g.MIG.Instances, GPUInstance{
			ID: id, Profile: p.Number,
			Memory: Memory{Total: p.MemoryMB << 20, Reserved: 16 << 20, Used: Constant(uint64(i+1) << 20), AddProcesses: true},
			Devices: []MIGDevice{{
				Index: uint32(i), Slices: p.Slices, Multiprocessors: p.Multiprocessors,
				UUID: fmt.Sprintf("MIG-%s%02x", g.UUID[len("GPU-"):len(g.UUID)-2], id),
			}},
		})
	}
}
