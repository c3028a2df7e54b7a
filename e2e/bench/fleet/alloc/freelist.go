// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"cmp"
	"slices"
)

// freeList holds the free blocks of one stream in one pool, small or large ones,
// ordered by size and then by address: the first that is large enough is the
// best fit.
type freeList struct {
	entries []entry
	wholes  int // of the entries, those that are whole segments
	small   bool
	holes   []*Block // the unmapped parts of its expandable segment
}

type entry struct {
	size, addr uint64
	b          *Block
}

func compare(x, y entry) int { return cmp.Or(cmp.Compare(x.size, y.size), cmp.Compare(x.addr, y.addr)) }

func (l *freeList) search(size, addr uint64) int {
	i, _ := slices.BinarySearchFunc(l.entries, entry{size: size, addr: addr}, compare)
	return i
}

func (l *freeList) insert(b *Block) {
	b.free = true
	if b.whole() {
		l.wholes++
	}
	l.entries = slices.Insert(l.entries, l.search(b.size, b.addr), entry{b.size, b.addr, b})
}

func (l *freeList) remove(b *Block) {
	b.free = false
	if b.whole() {
		l.wholes--
	}
	i := l.search(b.size, b.addr)
	l.entries = slices.Delete(l.entries, i, i+1)
}

// list returns the list that serves size bytes on a stream of a pool.
func (a *Allocator) list(size uint64, stream, pool int) *freeList {
	small := a.o.Kind != BFC && size <= smallLimit
	lists := &a.pools[pool].large
	if small {
		lists = &a.pools[pool].small
	}
	for len(*lists) <= stream {
		*lists = append(*lists, nil)
	}
	l := (*lists)[stream]
	if l == nil {
		l = &freeList{small: small}
		(*lists)[stream] = l
	}
	return l
}
