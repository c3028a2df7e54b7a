// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nvml

import (
	"path"
	"path/filepath"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// memoryLimits keeps the limits of control groups until they are asked for again.
type memoryLimits struct {
	asked time.Duration
	of    map[string][]gpu.Limit // by the path of the group; nil without a limit
}

// limits returns the limit on the memory of the GPU of a process's control group, or of the nearest one above it that has a limit.
// It asks every SlowInterval, and at once for a group that is new. A call that fails tells no limit, and harms nothing else.
func (r *reading) limits(p *process, at time.Duration) []gpu.Limit {
	if p.placement == nil {
		return nil
	}
	kept, cfg := &r.device.processes.limits, &r.device.source.cfg
	if at-kept.asked >= cfg.SlowInterval-cfg.Interval/2 {
		*kept = memoryLimits{at, map[string][]gpu.Limit{}}
	}
	group := p.placement.Group
	limits, known := kept.of[group]
	if !known {
		r.aside(func() { limits = r.nearestLimit(group) })
		kept.of[group] = limits
	}
	return limits
}

// nearestLimit asks for the limit of a control group, then for those above it.
func (r *reading) nearestLimit(group string) []gpu.Limit {
	for ; len(group) > 1; group = path.Dir(group) {
		// The driver opens the folder, which may be gone with its last process, or hidden from the exporter.
		found := get(r, "nvmlDeviceGetMemoryLimits_v1", func() (nvml.MemoryLimits_v1, nvml.Return) {
			return r.handle.GetMemoryLimits_v1(filepath.Join(r.device.source.cfg.SysFS, "fs/cgroup", group))
		}, nvml.ERROR_OPERATING_SYSTEM)
		if most := bounded(found.V.HardLimit); found.OK && most.OK { // all ones are no limit
			return []gpu.Limit{{Source: gpu.LimitNVML, Of: group, Bytes: most.V, Charged: bounded(found.V.CurrentUsed)}}
		}
	}
	return nil
}
