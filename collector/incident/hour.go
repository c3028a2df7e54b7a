// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// Hour keeps the highest use in each Step of the last Span, with seven digits. The zero Hour is empty.
type Hour struct {
	first int64 // the number of the first step since the begin of the source's clock
	high  []float32
}

// noSample stands for a step without a sample.
const noSample = -1

// Add adds a sample. If the clock went back, a new hour begins.
func (h *Hour) Add(t time.Duration, used gpu.Opt[uint64]) {
	if !used.OK {
		return
	}
	n := int64(t / Step)
	if last := h.first + int64(len(h.high)) - 1; n < last || n-last > int64(maxCourse) {
		*h = Hour{first: n, high: h.high[:0]}
	}
	for h.first+int64(len(h.high)) <= n {
		h.high = append(h.high, noSample)
	}
	if gone := len(h.high) - maxCourse; gone > 0 {
		h.first += int64(gone)
		h.high = slices.Delete(h.high, 0, gone)
	}
	x := &h.high[len(h.high)-1]
	*x = max(*x, float32(used.V))
}

// Since returns when a course to that time begins, a Span before at most.
func (h *Hour) Since(to time.Duration) time.Duration {
	begin := min(time.Duration(h.first)*Step, to) // there may be no sample before, or none at all
	return max(begin, to-Span).Truncate(Step)
}

// Course returns the highest use in each step from one time to another, in bytes. It is never nil.
func (h *Hour) Course(from, to time.Duration) []gpu.Opt[uint64] {
	list := []gpu.Opt[uint64]{}
	for n := int64(from / Step); n <= int64(to/Step); n++ {
		var v gpu.Opt[uint64]
		if i := n - h.first; i >= 0 && i < int64(len(h.high)) && h.high[i] != noSample {
			v = gpu.Some(uint64(h.high[i]))
		}
		list = append(list, v)
	}
	return list
}
