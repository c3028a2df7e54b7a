// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strings"

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

func ofAllocator(get func(*gpu.Allocator) gpu.Opt[uint64]) func(*ProcessState) optional {
	return func(p *ProcessState) optional {
		if p.Allocator == nil {
			return optional{}
		}
		return number(get(p.Allocator))
	}
}

// ask fills in what the allocator in the process says of this GPU, or of the instance.
func (t *processTable) ask(sample *gpu.Sample, p *gpu.Process) {
	if t.cfg.Allocators == nil || p.Allocator != nil {
		return
	}
	uuids := []string{t.uuid}
	if p.Instance.OK {
		uuids = uuids[:0]
		for i := range sample.Instances {
			if in := &sample.Instances[i]; in.ID == p.Instance.V {
				for _, d := range in.Devices {
					uuids = append(uuids, d.UUID)
				}
			}
		}
	}
	p.Allocator = allocatorOn(uuids, t.cfg.Allocators.Of(p.ID))
	if a, total := p.Allocator, sample.Memory.Total; a != nil && total.OK && max(a.Allocated.V, a.Reserved.V) > total.V {
		p.Allocator = nil // it lies
	}
}

// allocatorOn returns what the records say of the devices of these UUIDs; nil if nothing.
// A record without a UUID is of the one GPU that its process uses.
func allocatorOn(uuids []string, records []allocator.Record) *gpu.Allocator {
	var sum *gpu.Allocator
	for i := range records {
		r := &records[i]
		here := r.UUID == "" && len(records) == 1
		for _, uuid := range uuids {
			here = here || r.UUID != "" && r.UUID == allocator.BareUUID(uuid)
		}
		switch {
		case !here:
		case sum == nil:
			sum = &r.Allocator
		default:
			sum = sumOf(sum, &r.Allocator)
		}
	}
	return sum
}

// sumOf joins what two frameworks in one process say. What one of them does not tell is not
// known of both.
func sumOf(a, b *gpu.Allocator) *gpu.Allocator {
	return &gpu.Allocator{
		Framework: join(a.Framework, b.Framework), Version: join(a.Version, b.Version), Backend: join(a.Backend, b.Backend),
		Allocated: both(a.Allocated, b.Allocated), Reserved: both(a.Reserved, b.Reserved),
		Active: both(a.Active, b.Active), InactiveSplit: both(a.InactiveSplit, b.InactiveSplit),
		Retries: both(a.Retries, b.Retries), OOMs: both(a.OOMs, b.OOMs),
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
