// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"cmp"
	"slices"

	"github.com/gpuleak/gpu_leak_exporter/collector/allocator"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// What the memory allocators in processes hold, where they have a probe.
var _ = register(family{name: "allocator", enabled: true, metrics: []metric{
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
		func(p *ProcessState, e *emitter) {
			if a := p.Allocator; a != nil {
				e.emit(1, a.Framework, a.Version, a.Backend)
			}
		}),
	gauges("gpu_process_leak_site_bytes",
		"Bytes by which live memory that this line allocates has grown while the process recorded where it allocates. "+
			"The 5 lines that grew most, with --collector.allocator.sites only.",
		[]string{"site"},
		func(p *ProcessState, e *emitter) {
			for _, s := range sitesOf(p) {
				e.emit(float64(s.bytes), s.line)
			}
		}),
	gauge("gpu_process_untracked_memory_bytes",
		"gpu_process_memory_used_bytes minus gpu_process_allocator_reserved_bytes: the CUDA context, and what libraries such as NCCL and cuDNN took without the allocator. "+
			"The allocator's part may be five seconds older. Absent while it is the larger one.",
		func(p *ProcessState) optional {
			a := p.Allocator
			if a == nil || !a.Reserved.OK || !p.Used.OK || a.Reserved.V > p.Used.V {
				return optional{}
			}
			return gpu.Some(float64(p.Used.V - a.Reserved.V))
		}),
}})

// maxSites is of how many lines a process has a series.
const maxSites = 5

func ofAllocator(get func(*gpu.Allocator) gpu.Opt[uint64]) func(*ProcessState) optional {
	return func(p *ProcessState) optional {
		if p.Allocator == nil {
			return optional{}
		}
		return number(get(p.Allocator))
	}
}

// site is a line that allocates what stays.
type site struct {
	line  string
	bytes uint64
}

// sitesOf returns the lines that grew most, the largest first. A line that was reached by several
// ways counts once.
func sitesOf(p *ProcessState) []site {
	if p.Sites == nil || p.Sites.State != allocator.SitesDone {
		return nil
	}
	var list []site
	for _, s := range p.Sites.List {
		line := cmp.Or(s.Line, "not in Python code")
		if i := slices.IndexFunc(list, func(l site) bool { return l.line == line }); i >= 0 {
			list[i].bytes += s.Growth
			continue
		}
		list = append(list, site{line, s.Growth})
	}
	slices.SortStableFunc(list, func(a, b site) int { return cmp.Compare(b.bytes, a.bytes) })
	return list[:min(len(list), maxSites)]
}
