// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// limits returns the limits of a control group and of those above it on the memory of the GPU, as the driver and the kernel tell them.
// It asks as often as for the MIG mode, and at once for a group that is new. What cannot be read harms nothing else.
func (r *reading) limits(group string) []gpu.Limit {
	limits, known := r.device.processes.limits[group]
	if known || len(group) < 2 || strings.HasPrefix(group+"/", "/../") {
		return limits
	}
	folder := filepath.Join(r.device.source.cfg.SysFS, "fs/cgroup", group)
	var drivers gpu.Opt[nvml.MemoryLimits_v1]
	r.aside(func() {
		// The driver opens the folder, which may be gone with its last process, or hidden from the exporter.
		drivers = get(r, "nvmlDeviceGetMemoryLimits_v1", func() (nvml.MemoryLimits_v1, nvml.Return) {
			return r.handle.GetMemoryLimits_v1(folder)
		}, nvml.ERROR_OPERATING_SYSTEM)
	})
	if most := bounded(drivers.V.HardLimit); drivers.OK && most.OK { // all ones are none
		limits = append(limits, gpu.Limit{Source: gpu.LimitNVML, Of: group, Bytes: most.V, Charged: bounded(drivers.V.CurrentUsed)})
	}
	bus := r.device.info.PCIBusID
	if most := readRegion(folder+"/dmem.max", bus); most.OK {
		charged := readRegion(folder+"/dmem.current", bus)
		limits = append(limits, gpu.Limit{Source: gpu.LimitDmem, Of: group, Bytes: most.V, Charged: charged.If(charged.V > 0)})
	}
	limits = append(limits, r.limits(path.Dir(group))...)
	r.device.processes.limits[group] = limits
	return limits
}

// region is a line of a file of the controller dmem that is about the memory of a GPU, such as "drm/0000:03:00.0/vram0 12550144". Other
// regions, such as stolen, are memory of the host. Source: Documentation/admin-guide/cgroup-v2.rst of the kernel, "DMEM".
var region = regexp.MustCompile(`(?m)^drm/0*(\S+)/vram\S* *(.*)$`)

// readRegion returns the bytes of the GPU's memory in such a file, 0 if they cannot be read; absent without its line, without the file, and
// if they are "max". The driver writes eight digits of the address's domain, and the kernel four.
func readRegion(file, bus string) gpu.Opt[uint64] {
	text, err := os.ReadFile(file)
	if err != nil {
		return gpu.Some(uint64(0)).If(!errors.Is(err, fs.ErrNotExist)) // an old kernel, or a group that is gone
	}
	for _, m := range region.FindAllStringSubmatch(string(text), -1) {
		if strings.EqualFold(m[1], strings.TrimLeft(bus, "0")) && m[2] != "max" {
			bytes, err := strconv.ParseUint(m[2], 10, 64)
			if err != nil {
				bytes = 0
			}
			return gpu.Some(bytes)
		}
	}
	return gpu.Opt[uint64]{}
}
