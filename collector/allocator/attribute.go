// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package allocator

import (
	"slices"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// Attribute fills in the Allocator of each process in a sample of the GPU of that UUID. of is Reader.Of. An Allocator from a
// recording stays. One with more memory than the GPU has is left out.
//
// A limit of the allocator becomes one of its process. What that holds beside the allocator, such as its context of CUDA, comes on top,
// so that the headroom is the allocator's own, and a library that leaks does not come closer to the limit. The driver tells the memory
// now, the probe told its part up to 5 s ago: what was reserved since counts as beside it.
func Attribute(of func(gpu.ProcessID) []Record, uuid string, s *gpu.Sample) {
	total := s.Memory.Total
	for i := range s.Processes {
		p := &s.Processes[i]
		if p.Allocator != nil {
			continue
		}
		a := on(uuids(uuid, s, p), of(p.ID))
		if a == nil || total.OK && max(a.Allocated.V, a.Reserved.V) > total.V {
			continue
		}
		p.Allocator = a
		most := a.Limit.V + p.Used.V - min(a.Reserved.V, p.Used.V)
		if a.Limit.V > 0 && a.Reserved.OK && p.Used.OK && max(a.Limit.V, most) <= total.V { // else the GPU ends before
			p.Limits = append(slices.Clip(p.Limits), gpu.Limit{Source: gpu.LimitFramework, Bytes: most})
		}
	}
}

// uuids returns CUDA's UUIDs for the devices of the process: the GPU, or the MIG devices of its instance.
func uuids(uuid string, s *gpu.Sample, p *gpu.Process) []string {
	if !p.Instance.OK {
		return []string{bareUUID(uuid)}
	}
	var list []string
	for i := range s.Instances {
		if in := &s.Instances[i]; in.ID == p.Instance.V {
			for _, d := range in.Devices {
				list = append(list, bareUUID(d.UUID))
			}
		}
	}
	return list
}

// on returns the sum of the records of these UUIDs; nil if there is none. A record without a UUID belongs to the only GPU of
// its process.
func on(uuids []string, records []Record) *gpu.Allocator {
	var sum *gpu.Allocator
	for i := range records {
		r := &records[i]
		switch {
		case !slices.Contains(uuids, r.UUID) && (r.UUID != "" || len(records) > 1):
		case sum == nil:
			sum = &r.Allocator
		default:
			sum = sumOf(sum, &r.Allocator)
		}
	}
	return sum
}

// sumOf adds the records of two frameworks in one process. A number that one of them lacks is unknown for both.
func sumOf(a, b *gpu.Allocator) *gpu.Allocator {
	return &gpu.Allocator{
		Framework: join(a.Framework, b.Framework), Version: join(a.Version, b.Version), Backend: join(a.Backend, b.Backend),
		Allocated: both(a.Allocated, b.Allocated), Reserved: both(a.Reserved, b.Reserved),
		Active: both(a.Active, b.Active), InactiveSplit: both(a.InactiveSplit, b.InactiveSplit),
		Retries: both(a.Retries, b.Retries), OOMs: both(a.OOMs, b.OOMs), Limit: both(a.Limit, b.Limit),
	}
}

// join returns cupy+torch for cupy and torch.
func join(a, b string) string { return strings.Trim(a+"+"+b, "+") }

func both(a, b gpu.Opt[uint64]) gpu.Opt[uint64] {
	if !a.OK || !b.OK {
		return gpu.Opt[uint64]{}
	}
	return gpu.Some(a.V + b.V)
}

// bareUUID returns a UUID in CUDA's form: without the driver's prefix GPU- or MIG-, in lower case.
func bareUUID(uuid string) string {
	uuid = strings.ToLower(uuid)
	return strings.TrimPrefix(strings.TrimPrefix(uuid, "gpu-"), "mig-")
}
