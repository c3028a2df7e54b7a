// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package alloc

import "slices"

// An expandable segment is a range of addresses as large as the device, of which
// pages are mapped as they are needed. What is not mapped is a block as well, of
// the kind that is in no free list.

// pageSize is the unit in which memory is mapped: that of the segments.
func (l *freeList) pageSize() uint64 {
	if l.small {
		return smallSegment
	}
	return largeSegment
}

// lengthen maps pages at the first hole that, with the free block before it,
// has room for size bytes, and returns one block over both; nil if the device
// is full.
func (a *Allocator) lengthen(l *freeList, size uint64) *Block {
	if len(l.holes) == 0 {
		hole := a.block()
		*hole = Block{size: up(2*a.dev.capacity, largeSegment), addr: a.base, list: l, unmapped: true}
		a.base += hole.size
		l.holes = append(l.holes, hole)
	}
	for i, hole := range l.holes {
		before := uint64(0)
		if p := hole.prev; p != nil && p.free {
			before = p.size
		}
		if before+hole.size < size {
			continue
		}
		n := min(up(size-before, l.pageSize()), hole.size)
		if !a.reserve(n) {
			return nil
		}
		return a.fill(l, i, n)
	}
	return nil
}

// fill maps the first n bytes of hole i and joins them with free neighbours.
func (a *Allocator) fill(l *freeList, i int, n uint64) *Block {
	hole := l.holes[i]
	if n < hole.size {
		rest := a.cut(hole, n)
		rest.unmapped = true
		l.holes[i] = rest
	} else {
		l.holes = slices.Delete(l.holes, i, i+1)
	}
	hole.unmapped = false
	return a.merge(hole)
}

// unmap gives back all whole pages of the list's free blocks.
func (a *Allocator) unmap(l *freeList) {
	page := l.pageSize()
	for _, e := range slices.Clone(l.entries[l.search(page, 0):]) {
		b := e.b
		from, to := up(b.addr, page), (b.addr+b.size)/page*page
		if from >= to {
			continue
		}
		l.remove(b)
		if from > b.addr {
			rest := a.cut(b, from-b.addr)
			l.insert(b)
			b = rest
		}
		if end := b.addr + b.size; to < end {
			l.insert(a.cut(b, to-b.addr))
		}
		a.reserved -= b.size
		a.dev.Give(b.size)
		b.unmapped = true
		a.punch(l, b)
	}
}

// punch adds a block that has been unmapped to the holes and joins it with
// those beside it. Holes are ordered by address: the first is taken first.
func (a *Allocator) punch(l *freeList, b *Block) {
	if p := b.prev; p != nil && p.unmapped {
		p.size += b.size
		a.unlink(b)
		b = p
	} else {
		i, _ := slices.BinarySearchFunc(l.holes, b.addr, func(h *Block, addr uint64) int {
			if h.addr < addr {
				return -1
			}
			return 1
		})
		l.holes = slices.Insert(l.holes, i, b)
	}
	if n := b.next; n != nil && n.unmapped {
		i := slices.Index(l.holes, n)
		l.holes = slices.Delete(l.holes, i, i+1)
		b.size += n.size
		a.unlink(n)
	}
}
