// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package alloc holds the allocators of GPU memory as mechanisms: the caching allocator of PyTorch, the best-fit allocator with
// coalescing (BFC) of TensorFlow and JAX, and cudaMalloc itself. They hand out addresses and no memory, so that what they reserve
// for a sequence of requests is what the real ones would.
package alloc

import (
	"cmp"
	"slices"
)

// Sizes in bytes.
const (
	// KiB, MiB and GiB are the binary multiples.
	KiB = 1 << 10
	MiB = 1 << 20
	GiB = 1 << 30
	// Granule is the unit in which a driver hands out device memory, as cuMemGetAllocationGranularity tells it on all GPUs since
	// Pascal.
	Granule = 2 * MiB
)

// Device is the memory of a GPU or of a GPU instance. It counts bytes; which of them is not told, because the GPU has virtual
// addresses and a driver joins pages from anywhere.
type Device struct{ capacity, used uint64 }

// NewDevice returns an empty memory of capacity bytes.
func NewDevice(capacity uint64) *Device { return &Device{capacity: capacity} }

// Capacity returns its size in bytes.
func (d *Device) Capacity() uint64 { return d.capacity }

// Used returns the bytes that are taken.
func (d *Device) Used() uint64 { return d.used }

// Free returns those that are not.
func (d *Device) Free() uint64 { return d.capacity - d.used }

// Take takes n bytes, or none of them and reports false if fewer are free.
func (d *Device) Take(n uint64) bool {
	if n > d.Free() {
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

// Kind is one of the mechanisms.
type Kind uint8

// The mechanisms.
const (
	// Caching is PyTorch's CUDACachingAllocator: what is freed stays reserved for its stream and its pool.
	Caching Kind = iota
	// BFC is TensorFlow's and JAX's best-fit allocator with coalescing: regions that double, and are never given back.
	BFC
	// Plain is cudaMalloc and cudaFree: the driver packs small requests into pages and gives a page back as soon as it is empty.
	Plain
)

// Options are the settings of an Allocator.
type Options struct {
	Kind Kind
	// Limit is the most that it reserves, in bytes; 0 is no limit of its own.
	Limit uint64
	// GCThreshold is PyTorch's garbage_collection_threshold, a ratio of Limit (0 to 1); 0 is off. As in PyTorch it does nothing
	// without a limit.
	GCThreshold float64
	// MaxSplit is PyTorch's max_split_size in bytes; 0 is no bound.
	MaxSplit uint64
	// Expandable is PyTorch's expandable_segments.
	Expandable bool
	// Preallocate is what BFC reserves at its start, in bytes. It then reserves nothing more.
	Preallocate uint64
}

// Block is a piece of a segment, handed out or free.
type Block struct {
	size, addr uint64 // bytes; the address is one in a space without holes
	prev, next *Block // its neighbours in the segment
	list       *freeList
	freed      uint64 // the count of allocations when it was freed
	free       bool
	unmapped   bool // a hole in an expandable segment
}

// Size returns the bytes that it takes of its segment.
func (b *Block) Size() uint64 { return b.size }

// whole reports whether the block is all of its segment.
func (b *Block) whole() bool { return b.prev == nil && b.next == nil }

// cut shortens b to size bytes and returns the rest as a block of its own.
func (b *Block) cut(size, now uint64) *Block {
	rest := &Block{size: b.size - size, addr: b.addr + size, prev: b, next: b.next, list: b.list, freed: now}
	if b.next != nil {
		b.next.prev = rest
	}
	b.next, b.size = rest, size
	return rest
}

// absorb joins b with the next block.
func (b *Block) absorb() {
	n := b.next
	b.size += n.size
	if b.next = n.next; b.next != nil {
		b.next.prev = b
	}
	*n = Block{}
}

// place is what free blocks serve: small or large requests on a stream, of all ordinary code (pool 0) or of a graph.
type place struct {
	stream, pool int
	small        bool
}

// freeList holds the free blocks of one place, ordered by size and then by address: the first that is large enough is the best
// fit.
type freeList struct {
	place
	blocks  []*Block
	segment *Block // the begin of its expandable segment
}

// search returns the position of the first block that is so large, and there or behind.
func (l *freeList) search(size, addr uint64) int {
	i, _ := slices.BinarySearchFunc(l.blocks, addr, func(b *Block, addr uint64) int {
		return cmp.Or(cmp.Compare(b.size, size), cmp.Compare(b.addr, addr))
	})
	return i
}

func (l *freeList) insert(b *Block) {
	b.free = true
	l.blocks = slices.Insert(l.blocks, l.search(b.size, b.addr), b)
}

func (l *freeList) remove(b *Block) {
	b.free = false
	i := l.search(b.size, b.addr)
	l.blocks = slices.Delete(l.blocks, i, i+1)
}

// Allocator hands out blocks of a Device as one process does. It is for one goroutine.
type Allocator struct {
	dev                 *Device
	o                   Options
	at                  map[place]*freeList
	lists               []*freeList // all of them, in the order of their first use
	pools               int         // those of graphs
	reserved, allocated uint64
	base                uint64 // the address of the next segment
	calls               uint64 // allocations so far
	region              uint64 // the size of BFC's next region
	limited             bool   // the last failure was of the limit
}

// New returns an allocator of d's memory. A preallocation that does not fit reserves what there is.
func New(d *Device, o Options) *Allocator {
	a := &Allocator{dev: d, o: o, at: map[place]*freeList{}, region: 2 * MiB}
	if o.Preallocate > 0 {
		n := min(o.Preallocate, d.Free()) / Granule * Granule
		a.o.Limit = n
		if l := a.list(n, 0, 0); n > 0 {
			l.insert(a.segment(l, n))
		}
	}
	return a
}

// Reserved returns the bytes that it holds of the device.
func (a *Allocator) Reserved() uint64 { return a.reserved }

// Allocated returns the bytes that it has handed out.
func (a *Allocator) Allocated() uint64 { return a.allocated }

// Limited reports whether the last request that failed did so at the limit of the allocator, and not because the device was full.
func (a *Allocator) Limited() bool { return a.limited }

// NewPool returns the number of a new private pool, such as a CUDA graph has.
func (a *Allocator) NewPool() int {
	a.pools++
	return a.pools
}

// list returns the list that serves size bytes on a stream of a pool.
func (a *Allocator) list(size uint64, stream, pool int) *freeList {
	p := place{stream, pool, a.o.Kind != BFC && size <= smallLimit}
	l := a.at[p]
	if l == nil {
		l = &freeList{place: p}
		a.at[p], a.lists = l, append(a.lists, l)
	}
	return l
}

// Alloc hands out a block for size bytes on a stream (0 is the default one) from a pool. It returns nil if the device is full,
// after what is cached was given back.
func (a *Allocator) Alloc(size uint64, stream, pool int) *Block {
	a.calls++
	size = a.rounded(size)
	l := a.list(size, stream, pool)
	b := a.fit(l, size)
	if b == nil {
		if b = a.grow(l, size); b == nil {
			return nil
		}
	}
	b.free = false
	if a.splits(l, b.size, size) {
		l.insert(b.cut(size, a.calls))
	}
	a.allocated += b.size
	return b
}

// Free takes a block back. A nil block is none.
func (a *Allocator) Free(b *Block) {
	if b == nil {
		return
	}
	if b.free || b.list == nil {
		panic("alloc: a block is freed twice")
	}
	a.allocated -= b.size
	b = merge(b)
	b.freed = a.calls
	b.list.insert(b)
	if a.o.Kind == Plain && b.whole() {
		a.drop(b)
	}
}

// merge joins a block that becomes free with its free neighbours.
func merge(b *Block) *Block {
	if p := b.prev; p != nil && p.free {
		p.list.remove(p)
		p.absorb()
		b = p
	}
	if n := b.next; n != nil && n.free {
		n.list.remove(n)
		b.absorb()
	}
	return b
}

// reserve takes n bytes of the device, within the limit.
func (a *Allocator) reserve(n uint64) bool {
	a.limited = a.o.Limit > 0 && a.reserved+n > a.o.Limit
	if a.limited || !a.dev.Take(n) {
		return false
	}
	a.reserved += n
	return true
}

// release gives n bytes back to the device.
func (a *Allocator) release(n uint64) {
	a.reserved -= n
	a.dev.Give(n)
}

// segment reserves n bytes as one block; nil if there is no room.
func (a *Allocator) segment(l *freeList, n uint64) *Block {
	if !a.reserve(n) {
		return nil
	}
	b := &Block{size: n, addr: a.base, list: l}
	a.base += up(n, Granule)
	return b
}

// drop gives the segment of a free block back.
func (a *Allocator) drop(b *Block) {
	b.list.remove(b)
	a.release(b.size)
	*b = Block{}
}

// EmptyCache gives back all segments in which nothing is handed out, as torch.cuda.empty_cache does. A graph will replay into the
// addresses of its pool: they stay.
func (a *Allocator) EmptyCache() {
	for _, l := range a.lists {
		switch {
		case a.o.Kind != Caching || l.pool > 0:
		case a.o.Expandable:
			a.unmap(l)
		default:
			for _, b := range slices.Clone(l.blocks) {
				if b.whole() {
					a.drop(b)
				}
			}
		}
	}
}

// Close gives everything back, as the end of the process does. The allocator cannot be used afterwards.
func (a *Allocator) Close() {
	a.dev.Give(a.reserved)
	*a = Allocator{}
}
