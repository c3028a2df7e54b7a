// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package alloc

import "slices"

// Kind is one of the mechanisms.
type Kind uint8

// The mechanisms.
const (
	// Caching is PyTorch's CUDACachingAllocator: what is freed stays reserved
	// for its stream and its pool.
	Caching Kind = iota
	// BFC is TensorFlow's and JAX's best-fit allocator with coalescing: regions
	// that double, and are never given back.
	BFC
	// Plain is cudaMalloc and cudaFree: the driver packs small requests into
	// pages and gives a page back as soon as it is empty.
	Plain
)

// Options are the settings of an Allocator.
type Options struct {
	Kind Kind
	// Limit is the most that it reserves, in bytes; 0 is no limit of its own.
	Limit uint64
	// GCThreshold is PyTorch's garbage_collection_threshold, a ratio of Limit
	// (0 to 1); 0 is off. As in PyTorch it does nothing without a limit.
	GCThreshold float64
	// MaxSplit is PyTorch's max_split_size in bytes; 0 is no bound.
	MaxSplit uint64
	// Expandable is PyTorch's expandable_segments.
	Expandable bool
	// Preallocate is what BFC reserves at its start, in bytes. It then reserves
	// nothing more.
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

// Allocator hands out blocks of a Device as one process does. It is for one
// goroutine.
type Allocator struct {
	dev                 *Device
	o                   Options
	pools               []*pool // 0 is the default one, others those of graphs
	reserved, allocated uint64
	base                uint64 // the address of the next segment
	calls               uint64 // allocations so far
	region              uint64 // the size of BFC's next region
	spare               []*Block
	limited             bool // the last failure was of the limit
}

// pool holds the free blocks of one owner: of all ordinary code, or of a graph.
type pool struct {
	released     bool // its graph is gone: the segments may be given back
	small, large []*freeList
}

// New returns an allocator of d's memory. A preallocation that does not fit
// reserves what there is.
func New(d *Device, o Options) *Allocator {
	a := &Allocator{dev: d, o: o, pools: []*pool{{}}, region: 2 * MiB}
	if o.Preallocate > 0 {
		n := min(o.Preallocate, d.capacity-d.used) / Granule * Granule
		a.o.Limit = n
		if l := a.list(n, 0, 0); n > 0 {
			l.insert(a.segment(l, n))
		}
	}
	return a
}

// Reserved returns the bytes that it holds of the device.
func (a *Allocator) Reserved() uint64 { return a.reserved }

// Allocated returns the bytes of the blocks that are handed out, as rounded.
func (a *Allocator) Allocated() uint64 { return a.allocated }

// Limited reports whether the last request that failed did so at the limit of the
// allocator, and not because the device was full.
func (a *Allocator) Limited() bool { return a.limited }

// NewPool returns the number of a new private pool, such as a CUDA graph has.
func (a *Allocator) NewPool() int {
	a.pools = append(a.pools, &pool{})
	return len(a.pools) - 1
}

// ReleasePool says that the graph of a pool is gone. As in PyTorch its memory
// returns to the device when the cache is next emptied.
func (a *Allocator) ReleasePool(n int) { a.pools[n].released = true }

// Alloc hands out a block for size bytes on a stream (0 is the default one) from
// a pool. It returns nil if the device is full, after what is cached was given
// back.
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
		l.insert(a.cut(b, size))
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
	b = a.merge(b)
	b.freed = a.calls
	b.list.insert(b)
	if a.o.Kind == Plain && b.whole() {
		a.drop(b)
	}
}

// merge joins a block that becomes free with its free neighbours.
func (a *Allocator) merge(b *Block) *Block {
	if p := b.prev; p != nil && p.free {
		p.list.remove(p)
		p.size += b.size
		a.unlink(b)
		b = p
	}
	if n := b.next; n != nil && n.free {
		n.list.remove(n)
		b.size += n.size
		a.unlink(n)
	}
	return b
}

// cut shortens b to size bytes and returns the rest as a block of its own.
func (a *Allocator) cut(b *Block, size uint64) *Block {
	rest := a.block()
	*rest = Block{size: b.size - size, addr: b.addr + size, prev: b, next: b.next, list: b.list, freed: a.calls}
	if b.next != nil {
		b.next.prev = rest
	}
	b.next, b.size = rest, size
	return rest
}

// unlink takes a block out of its segment.
func (a *Allocator) unlink(b *Block) {
	if b.prev != nil {
		b.prev.next = b.next
	}
	if b.next != nil {
		b.next.prev = b.prev
	}
	*b = Block{}
	a.spare = append(a.spare, b)
}

func (a *Allocator) block() *Block {
	if n := len(a.spare); n > 0 {
		b := a.spare[n-1]
		a.spare = a.spare[:n-1]
		return b
	}
	return &Block{}
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

// segment reserves n bytes as one block; nil if there is no room.
func (a *Allocator) segment(l *freeList, n uint64) *Block {
	if !a.reserve(n) {
		return nil
	}
	b := a.block()
	*b = Block{size: n, addr: a.base, list: l}
	a.base += up(n, Granule)
	return b
}

// drop gives the segment of a free block back to the device.
func (a *Allocator) drop(b *Block) {
	b.list.remove(b)
	a.release(b)
}

// release does so with a block that is in no list any more.
func (a *Allocator) release(b *Block) {
	a.reserved -= b.size
	a.dev.Give(b.size)
	a.unlink(b)
}

// EmptyCache gives back all segments in which nothing is handed out, as
// torch.cuda.empty_cache does.
func (a *Allocator) EmptyCache() {
	if a.o.Kind != Caching {
		return
	}
	for i, p := range a.pools {
		if i > 0 && !p.released {
			continue // a graph will replay into these addresses
		}
		for _, lists := range [][]*freeList{p.small, p.large} {
			for _, l := range lists {
				a.empty(l)
			}
		}
	}
}

func (a *Allocator) empty(l *freeList) {
	if l == nil {
		return
	}
	if a.o.Expandable {
		a.unmap(l)
		return
	}
	if l.wholes == 0 {
		return
	}
	l.wholes = 0
	l.entries = slices.DeleteFunc(l.entries, func(e entry) bool {
		whole := e.b.whole()
		if whole {
			a.release(e.b)
		}
		return whole
	})
}

// Close gives everything back, as the end of the process does. The allocator
// cannot be used afterwards.
func (a *Allocator) Close() {
	a.dev.Give(a.reserved)
	*a = Allocator{}
}
