// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package tracer

import (
	"cmp"
	"slices"
)

const (
	maxSites  = 20
	maxFrames = 32
)

// growth is by how many bytes what was allocated from a stack, and stays, has grown.
type growth struct {
	stack  int64
	growth int64
	last   total
}

// reading is what the kernel has counted at one time.
type reading struct {
	sums  map[int64]total // by stack
	older int64           // blocks that were freed, and are from before
}

// grown returns what grew: each reading of the second half has more of it than each one of the first. The
// largest growth is first.
//
// What is replaced again and again, and lives for longer than the readings took, grows as older blocks are
// freed. Their sizes are not known. So what grew by less than twice as many blocks is left out, and unsure
// says how many there are of these.
func grown(taken []reading) (list []growth, unsure int) {
	older, _ := change(taken, func(r reading) int64 { return r.older })
	for stack, last := range taken[len(taken)-1].sums {
		bytes, steadily := change(taken, func(r reading) int64 { return r.sums[stack].Bytes })
		blocks, _ := change(taken, func(r reading) int64 { return r.sums[stack].Blocks })
		switch {
		case !steadily:
		case blocks < 2*older:
			unsure++
		default:
			list = append(list, growth{stack, bytes, last})
		}
	}
	slices.SortFunc(list, func(a, b growth) int { return cmp.Or(cmp.Compare(b.growth, a.growth), cmp.Compare(a.stack, b.stack)) })
	return list[:min(len(list), maxSites)], unsure
}

// change returns by how much more the later readings have than the early ones, and whether each of them has
// more than each early one.
func change(taken []reading, of func(reading) int64) (by int64, steadily bool) {
	held := make([]int64, len(taken))
	for i, r := range taken {
		held[i] = of(r)
	}
	half := len(held) / 2
	early, late := held[:half], held[half:]
	slices.Sort(early)
	slices.Sort(late)
	return late[len(late)/2] - early[half/2], late[0] > early[half-1]
}
