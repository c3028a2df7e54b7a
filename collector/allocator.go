// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// What the memory allocators in processes hold, where they have a probe.
var allocatorFamily = family{name: "allocator", enabled: true, metrics: []metric{
	gauge("gpu_process_allocator_allocated_bytes",
		"GPU memory in bytes that live tensors of the process hold, as its framework's allocator says. Only of processes with a probe.",
		ofAllocator(func(a *gpu.Allocator) gpu.Opt[uint64] { return a.Allocated })),
	gauge("gpu_process_allocator_reserved_bytes",
		"GPU memory in bytes that the framework's allocator has taken from the driver: what is allocated, and its cache.",
		ofAllocator(func(a *gpu.Allocator) gpu.Opt[uint64] { return a.Reserved })),
	gauge("gpu_process_allocator_active_bytes",
		"GPU memory in bytes of the allocator's blocks that are allocated, or freed while a stream may still use them.",
		ofAllocator(func(a *gpu.Allocator) gpu.Opt[uint64] { return a.Active })),
	gauge("gpu_process_allocator_inactive_split_bytes",
		"Free GPU memory in bytes that the allocator cannot give back, because a part of its segment is in use: fragmentation.",
		ofAllocator(func(a *gpu.Allocator) gpu.Opt[uint64] { return a.InactiveSplit })),
	counter("gpu_process_allocator_retries_total",
		"Allocations of the process for which its allocator had to give its cache back first.",
		ofAllocator(func(a *gpu.Allocator) gpu.Opt[uint64] { return a.Retries })),
	counter("gpu_process_allocator_ooms_total",
		"Allocations of the process that failed with out-of-memory.",
		ofAllocator(func(a *gpu.Allocator) gpu.Opt[uint64] { return a.OOMs })),
	gauges("gpu_process_allocator_info",
		"Always 1; the labels name the framework whose allocator tells, its version, and the allocator where there are several.",
		[]string{"framework", "version", "backend"},
		func(p *sampler.ProcessState, e *emitter) {
			if a := p.Allocator; a != nil {
				e.emit(1, a.Framework, a.Version, a.Backend)
			}
		}),
	gauges("gpu_process_leak_site_bytes",
		"Bytes by which live memory that this line allocates has grown while the process recorded where it allocates. "+
			"The 5 lines that grew most, with --collector.allocator.sites only.",
		[]string{"site"},
		func(p *sampler.ProcessState, e *emitter) {
			for _, s := range p.LeakSites() {
				e.emit(float64(s.Bytes), s.Line)
			}
		}),
	gauge("gpu_process_untracked_memory_bytes",
		"gpu_process_memory_used_bytes minus gpu_process_allocator_reserved_bytes: the CUDA context, and what libraries such as NCCL and cuDNN took without the allocator. "+
			"The allocator's part may be five seconds older. Absent while it is the larger one.",
		func(p *sampler.ProcessState) optional {
			a := p.Allocator
			if a == nil || !a.Reserved.OK || !p.Used.OK || a.Reserved.V > p.Used.V {
				return optional{}
			}
			return gpu.Some(float64(p.Used.V - a.Reserved.V))
		}),
}}

func ofAllocator(get func(*gpu.Allocator) gpu.Opt[uint64]) func(*sampler.ProcessState) optional {
	return func(p *sampler.ProcessState) optional {
		if p.Allocator == nil {
			return optional{}
		}
		return number(get(p.Allocator))
	}
}
