// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// migMode is the driver's last answer to whether a GPU is in MIG mode.
type migMode struct {
	enabled    gpu.Opt[bool]
	asked      gpu.Opt[time.Duration]
	generation uint64
}

// migEnabled reports whether the GPU is in MIG mode; absent where it has none. It asks every SlowInterval, and at once after a
// new Init, and has limits asked for again, too. The call takes 0.15 ms of a core on an H200, fifteen times as long as that
// for the memory.
func (r *reading) migEnabled(at time.Duration) gpu.Opt[bool] {
	m, cfg := &r.device.mig, &r.device.source.cfg
	if m.asked.OK && at-m.asked.V < cfg.SlowInterval-cfg.Interval/2 && m.generation == r.handle.generation {
		return m.enabled
	}
	m.asked, r.device.processes.limits = gpu.Opt[time.Duration]{}, map[string][]gpu.Limit{}
	failed := len(r.errs)
	m.enabled = get(r, "nvmlDeviceGetMigMode", func() (bool, nvml.Return) {
		current, _, ret := r.handle.GetMigMode()
		return current == nvml.DEVICE_MIG_ENABLE, ret
	})
	if len(r.errs) == failed {
		m.asked, m.generation = gpu.Some(at), r.handle.generation
	}
	return m.enabled
}

// maxMIGDevices bounds how many positions of MIG devices are asked for: a GPU has seven.
const maxMIGDevices = 64

// instances returns the GPU instances that have a compute instance: without one nothing can run on them.
//
// Another layout throws away all that was learnt of the GPU. So if an instance is gone, the list is read once more: one call
// may have been wrong.
func (r *reading) instances() []gpu.Instance {
	instances := r.listInstances()
	for id := range r.device.profiles {
		if !slices.ContainsFunc(instances, func(in gpu.Instance) bool { return in.ID == id }) {
			instances = r.listInstances()
			break
		}
	}
	r.device.profiles = make(map[uint32]string, len(instances))
	for _, in := range instances {
		r.device.profiles[in.ID] = in.Profile
	}
	return instances
}

func (r *reading) listInstances() []gpu.Instance {
	count := get(r, "nvmlDeviceGetMaxMigDeviceCount", r.handle.GetMaxMigDeviceCount)
	var instances []gpu.Instance
	for i := range min(count.V, maxMIGDevices) {
		r.migDevice(i, &instances)
	}
	slices.SortFunc(instances, func(a, b gpu.Instance) int { return cmp.Compare(a.ID, b.ID) })
	for _, in := range instances {
		slices.SortFunc(in.Devices, func(a, b gpu.MIGDevice) int { return cmp.Compare(a.ComputeInstance, b.ComputeInstance) })
	}
	return instances
}

// migDevice adds the MIG device at a position, if there is one: the positions have gaps. A device that is destroyed between
// two calls leaves no trace.
func (r *reading) migDevice(index int, instances *[]gpu.Instance) {
	const gone = nvml.ERROR_INVALID_ARGUMENT
	device := get(r, "nvmlDeviceGetMigDeviceHandleByIndex", func() (nvml.Device, nvml.Return) {
		return r.handle.GetMigDeviceHandleByIndex(index)
	}, gone)
	if !device.OK {
		return
	}
	d := device.V
	id := get(r, "nvmlDeviceGetGpuInstanceId", d.GetGpuInstanceId, gone)
	compute := get(r, "nvmlDeviceGetComputeInstanceId", d.GetComputeInstanceId, gone)
	if !id.OK || !compute.OK {
		return
	}
	var uuid string
	var err error
	r.aside(func() { uuid, err = ask(r.call, "nvmlDeviceGetUUID", d.GetUUID, gone) })
	if errors.Is(err, errAbsent) {
		return
	}
	at := slices.IndexFunc(*instances, func(in gpu.Instance) bool { return in.ID == uint32(id.V) })
	if at < 0 {
		in := gpu.Instance{ID: uint32(id.V)}
		r.aside(func() { in.Profile, in.Memory = r.profile(d, in.ID), r.memory(d, &r.device.migMemory2) })
		*instances = append(*instances, in)
		at = len(*instances) - 1
	}
	in := &(*instances)[at]
	in.Devices = append(in.Devices, gpu.MIGDevice{ComputeInstance: uint32(compute.V), UUID: uuid})
}

// profile returns the profile of the GPU instance under a MIG device, as nvidia-smi names it: from the device's name, else
// from the attributes. If the name cannot be read this time, the profile stays, because another one would make another
// instance of it.
func (r *reading) profile(d nvml.Device, instance uint32) string {
	name, err := ask(r.call, "nvmlDeviceGetName", d.GetName, nvml.ERROR_INVALID_ARGUMENT)
	if p := profileOf(name); err == nil && p != "" {
		return p
	}
	if p := r.device.profiles[instance]; p != "" && err != nil && !errors.Is(err, errAbsent) {
		return p
	}
	a := get(r, "nvmlDeviceGetAttributes_v2", d.GetAttributes, nvml.ERROR_INVALID_ARGUMENT)
	if !a.OK {
		return ""
	}
	gib := (a.V.MemorySizeMB + 512) / 1024
	return fmt.Sprintf("%dg.%dgb", a.V.GpuInstanceSliceCount, gib)
}

// profileOf returns the part behind MIG in a name such as "NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", without the compute
// instance.
func profileOf(name string) string {
	_, p, ok := strings.Cut(name, " MIG ")
	if !ok {
		return ""
	}
	if slices, rest, ok := strings.Cut(p, "c."); ok && strings.Trim(slices, "0123456789") == "" {
		p = rest
	}
	return p
}
