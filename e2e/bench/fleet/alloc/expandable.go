// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package alloc

import "slices"

// An expandable segment is a range of addresses as large as the device, of which pages are mapped as they are needed. What is not
// mapped is a block as well, of the kind that is in no free list.

// pageSize is the unit in which memory is mapped: that of the segments.
func (l *freeList) pageSize() uint64 {
	if l.small {
		return smallSegment
	}
	return largeSegment
}

// lengthen maps pages at the first hole that, with the free block before it, has room for size bytes, and returns one block over
// both; nil if the device is full.
func (a *Allocator) lengthen(l *freeList, size uint64) *Block {
	if l.segment == nil {
		l.segment = &Block{size: up(2*a.dev.capacity, largeSegment), addr: a.base, list: l, unmapped: true}
		a.base += l.segment.size
	}
	for hole := l.segment; hole != nil; hole = hole.next {
		before := uint64(0)
		if p := hole.prev; p != nil && p.free {
			before = p.size
		}
		if !hole.unmapped || before+hole.size < size {
			continue
		}
		n := min(up(size-before, l.pageSize()), hole.size)
		if !a.reserve(n) {
			return nil
		}
		if n < hole.size {
			hole.cut(n, a.calls).unmapped = true
		}
		hole.unmapped = false
		return merge(hole)
	}
	return nil
}

// unmap gives back all whole pages of the list's free blocks, and joins the holes that touch.
func (a *Allocator) unmap(l *freeList) {
	page := l.pageSize()
	for _, b := range slices.Clone(l.blocks[l.search(page, 0):]) {
		from, to := up(b.addr, page), (b.addr+b.size)/page*page
		if from >= to {
			continue
		}
		l.remove(b)
		if from > b.addr {
			rest := b.cut(from-b.addr, a.calls)
			l.insert(b)
			b = rest
		}
		if to < b.addr+b.size {
			l.insert(b.cut(to-b.addr, a.calls))
		}
		a.release(b.size)
		b.unmapped = true
		if n := b.next; n != nil && n.unmapped {
			b.absorb()
		}
		if p := b.prev; p != nil && p.unmapped {
			p.absorb()
		}
	}
}
