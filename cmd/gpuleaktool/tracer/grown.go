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

// grown returns what grew: each reading of the second half has more of it than each one of the first. The
// largest growth is first.
func grown(taken []map[int64]total) (list []growth) {
	half := len(taken) / 2
	for stack, last := range taken[len(taken)-1] {
		held := make([]int64, len(taken))
		for i, t := range taken {
			held[i] = t[stack].Bytes
		}
		early, late := held[:half], held[half:]
		slices.Sort(early)
		slices.Sort(late)
		if late[0] > early[half-1] {
			list = append(list, growth{stack, late[len(late)/2] - early[half/2], last})
		}
	}
	slices.SortFunc(list, func(a, b growth) int { return cmp.Or(cmp.Compare(b.growth, a.growth), cmp.Compare(a.stack, b.stack)) })
	return list[:min(len(list), maxSites)]
}
