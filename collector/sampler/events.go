// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// maxXIDs bounds the codes of a GPU. The catalogue has fewer.
const maxXIDs = 256

// noXIDs are the counts of a GPU that had no XID error. Codes that page have series from the start, because increase() does not
// see the first error of a series that begins with it. All GPUs share them, and nobody changes them.
var noXIDs = func() (zero []XIDState) {
	for code := range uint64(maxXIDs) {
		if finding.XID(code).Severity == finding.Page {
			zero = append(zero, XIDState{Code: code})
		}
	}
	return zero
}()

// xidCounts counts XID errors by GPU. Readers never wait.
type xidCounts struct {
	mu     sync.Mutex // of writers
	byUUID sync.Map   // of GPUs that had an error: UUID → []XIDState, which is immutable
}

// of returns the counts of a GPU, ordered by code. The caller must not change them.
func (x *xidCounts) of(uuid string) []XIDState {
	if counts, ok := x.byUUID.Load(uuid); ok {
		return counts.([]XIDState)
	}
	return noXIDs
}

// xidPause is the least time between two lines of the log about an XID error of a GPU, which may come thousands of times.
const xidPause = time.Minute

// add counts an event of the GPU of that UUID or address. It returns the count, and whether the event is worth a line of the log.
// In a storm only the 2nd, 4th, 8th and so on are.
func (x *xidCounts) add(uuid string, e gpu.Event) (count uint64, worth bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	counts := slices.Clone(x.of(uuid))
	i, found := slices.BinarySearchFunc(counts, e.XID, func(s XIDState, code uint64) int { return cmp.Compare(s.Code, code) })
	if !found {
		if len(counts) >= maxXIDs {
			return 0, false
		}
		counts = slices.Insert(counts, i, XIDState{Code: e.XID})
	}
	c := &counts[i]
	before := c.Last
	c.Count, c.Last = c.Count+1, e.Time
	x.byUUID.Store(uuid, counts)
	return c.Count, c.Count&(c.Count-1) == 0 || e.Time.Sub(before) >= xidPause
}
