// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package alloc holds the allocators of GPU memory as mechanisms: the caching
// allocator of PyTorch, the best-fit allocator with coalescing (BFC) of
// TensorFlow and JAX, and cudaMalloc itself. They hand out addresses and no
// memory, so that what they reserve for a sequence of requests is what the real
// ones would.
package alloc

// Sizes in bytes.
const (
	// KiB, MiB and GiB are the binary multiples.
	KiB = 1 << 10
	MiB = 1 << 20
	GiB = 1 << 30
	// Granule is the unit in which a driver hands out device memory, as
	// cuMemGetAllocationGranularity tells it on all GPUs since Pascal.
	Granule = 2 * MiB
)

// Device is the memory of a GPU or of a GPU instance. It counts bytes; which
// of them is not told, because the GPU has virtual addresses and a driver
// joins pages from anywhere.
type Device struct{ capacity, used uint64 }

// NewDevice returns an empty memory of capacity bytes.
func NewDevice(capacity uint64) *Device { return &Device{capacity: capacity} }

// Capacity returns its size in bytes.
func (d *Device) Capacity() uint64 { return d.capacity }

// Used returns the bytes that are taken.
func (d *Device) Used() uint64 { return d.used }

// Take takes n bytes, or none of them and reports false if fewer are free.
func (d *Device) Take(n uint64) bool {
	if n > d.capacity-d.used {
		return false
	}
	d.used += n
	return true
}

// Give returns n bytes. To give more than was taken is an error of the caller.
func (d *Device) Give(n uint64) {
	if n > d.used {
		panic("alloc: more is given back than was taken")
	}
	d.used -= n
}

// up returns n rounded up to a multiple of unit.
func up(n, unit uint64) uint64 { return (n + unit - 1) / unit * unit }
