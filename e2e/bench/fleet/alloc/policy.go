// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package alloc

// Constants of c10/cuda/CUDACachingAllocator.h, in bytes.
const (
	minBlock     = 512      // kMinBlockSize: requests are rounded to it
	smallLimit   = 1 * MiB  // kSmallSize: the largest request of the small pool
	smallSegment = 2 * MiB  // kSmallBuffer: the segments of the small pool
	largeSegment = 20 * MiB // kLargeBuffer: segments for requests below largeLimit
	largeLimit   = 10 * MiB // kMinLargeAlloc: from here on a segment fits its request
	largeRound   = 2 * MiB  // kRoundLarge: up to this unit
)

// Constants of TensorFlow's bfc_allocator.h and .cc, in bytes.
const (
	bfcBlock = 256       // kMinAllocationSize
	bfcWaste = 128 * MiB // kMaxInternalFragmentation: more than this is split off
)

// up returns n rounded up to a multiple of unit.
func up(n, unit uint64) uint64 { return (n + unit - 1) / unit * unit }

func (a *Allocator) rounded(size uint64) uint64 {
	unit := uint64(minBlock)
	switch {
	case a.o.Kind == BFC:
		unit = bfcBlock
	case a.o.Kind == Plain && size > smallLimit:
		unit = Granule
	}
	return max(up(size, unit), unit)
}

// splits reports whether the rest of a block of have bytes is kept apart when want bytes of it are handed out.
func (a *Allocator) splits(l *freeList, have, want uint64) bool {
	rest := have - want
	switch {
	case a.o.Kind == BFC:
		return have >= 2*want || rest >= bfcWaste
	case l.small || a.o.Expandable:
		return rest >= minBlock
	}
	return (a.o.MaxSplit == 0 || want < a.o.MaxSplit) && rest > smallLimit
}

// fit takes the best free block out of the list; nil if none may serve.
func (a *Allocator) fit(l *freeList, size uint64) *Block {
	i := l.search(size, 0)
	if i == len(l.blocks) {
		return nil
	}
	b := l.blocks[i]
	if split := a.o.MaxSplit; split > 0 && !l.small {
		if size < split && b.size >= split { // large blocks are not for small requests
			return nil
		}
		if size >= split && b.size >= size+largeSegment { // nor to be wasted
			return nil
		}
	}
	l.remove(b)
	return b
}

// grow reserves memory for size bytes. A full device makes PyTorch give back what it caches and try once more; BFC takes less and
// less.
func (a *Allocator) grow(l *freeList, size uint64) *Block {
	if a.o.Kind == BFC {
		return a.extend(l, size)
	}
	a.collect()
	b := a.fresh(l, size)
	if b == nil && a.o.MaxSplit > 0 && a.flushOversize(l, size) {
		b = a.fresh(l, size)
	}
	if b == nil && a.o.Kind == Caching {
		a.EmptyCache()
		b = a.fresh(l, size)
	}
	return b
}

// fresh returns a new segment, or an expandable one made longer.
func (a *Allocator) fresh(l *freeList, size uint64) *Block {
	if a.o.Expandable {
		return a.lengthen(l, size)
	}
	n := up(size, largeRound)
	switch {
	case l.small:
		n = smallSegment
	case size < largeLimit && a.o.Kind == Caching:
		n = largeSegment
	}
	return a.segment(l, n)
}

// collect gives back the oldest cached large blocks once more than the threshold is reserved, as garbage_collect_cached_blocks
// does: those that are as old as the mean, in allocations.
func (a *Allocator) collect() {
	limit := uint64(a.o.GCThreshold * float64(a.o.Limit))
	if limit == 0 || a.reserved <= limit {
		return
	}
	target := a.reserved - limit
	for freed := uint64(0); freed < target; {
		var old []*Block
		ages := uint64(0)
		for _, l := range a.lists {
			for _, b := range l.blocks {
				if l.pool == 0 && !l.small && b.whole() {
					old, ages = append(old, b), ages+a.calls-b.freed
				}
			}
		}
		if len(old) == 0 {
			return
		}
		mean := ages / uint64(len(old))
		for _, b := range old {
			if freed < target && a.calls-b.freed >= mean {
				freed += b.size
				a.drop(b)
			}
		}
	}
}

// flushOversize gives back cached blocks of MaxSplit and more, the largest first, until size bytes are free, as
// release_available_cached_blocks does.
func (a *Allocator) flushOversize(l *freeList, size uint64) bool {
	want := max(size, a.o.MaxSplit)
	freed := uint64(0)
	for i := len(l.blocks) - 1; i >= 0 && freed < want; i-- {
		if b := l.blocks[i]; b.size >= a.o.MaxSplit && b.whole() {
			freed += b.size
			a.drop(b)
		}
	}
	return freed >= want
}

// extend reserves BFC's next region: twice the last one, what there is where that is too much, but never less than size.
func (a *Allocator) extend(l *freeList, size uint64) *Block {
	need := up(size, Granule)
	doubled := false
	for a.region < need {
		a.region *= 2
		doubled = true
	}
	n := a.region
	if a.o.Limit > 0 {
		n = min(n, a.o.Limit-min(a.reserved, a.o.Limit))
	}
	a.limited = n < need
	for n >= need {
		if b := a.segment(l, n); b != nil {
			if !doubled {
				a.region *= 2
			}
			return b
		}
		n = n / 10 * 9 / Granule * Granule // the factor by which BFC retreats
	}
	return nil
}
