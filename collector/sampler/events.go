// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package sampler

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// maxXIDs bounds the different codes kept a GPU: the catalogue has fewer.
const maxXIDs = 256

// noXIDs are the counts of a GPU that had no XID error. Those for which somebody is woken are exported from the start:
// increase() does not see the first of a series that begins with it. They are shared, and stay as they are.
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
	byUUID sync.Map   // UUID → []XIDState that stays as it is, of those GPUs that had an error
}

// of returns the counts of a GPU, ordered by code. The caller must not change them.
func (x *xidCounts) of(uuid string) []XIDState {
	if counts, ok := x.byUUID.Load(uuid); ok {
		return counts.([]XIDState)
	}
	return noXIDs
}

// add counts an event of the GPU of that UUID.
func (x *xidCounts) add(uuid string, e gpu.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	counts := slices.Clone(x.of(uuid))
	i, found := slices.BinarySearchFunc(counts, e.XID, func(s XIDState, code uint64) int { return cmp.Compare(s.Code, code) })
	if !found {
		if len(counts) >= maxXIDs {
			return
		}
		counts = slices.Insert(counts, i, XIDState{Code: e.XID})
	}
	counts[i].Count++
	counts[i].Last = e.Time
	x.byUUID.Store(uuid, counts)
}

// xidLogPause is how far apart two lines about the same XID error of a GPU are: a GPU that fails may
// report one thousands of times.
const xidLogPause = time.Minute

// xidLog says which XID errors are worth a line. The zero xidLog is ready for use, by several goroutines.
type xidLog struct {
	mu   sync.Mutex
	last map[xidSource]*xidLine
}

// xidSource is a code of a GPU, by its UUID or its address.
type xidSource struct {
	uuid, address string
	code          uint64
}

type xidLine struct {
	at     time.Time
	unsaid int // since then
}

// worth reports whether an event is to be logged, and how many of its like were not since the last that
// was.
func (x *xidLog) worth(e gpu.Event, now time.Time) (worth bool, unsaid int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	from := xidSource{e.UUID, e.PCIBusID, e.XID}
	line := x.last[from]
	switch {
	case line != nil && now.Sub(line.at) < xidLogPause:
		line.unsaid++
		return false, 0
	case line == nil && len(x.last) >= maxXIDs && !x.forget(now):
		return false, 0 // so many at once: the metric counts them
	case line == nil:
		if x.last == nil {
			x.last = map[xidSource]*xidLine{}
		}
		line = &xidLine{}
		x.last[from] = line
	}
	unsaid = line.unsaid
	*line = xidLine{at: now}
	return true, unsaid
}

// forget drops what has not been logged for a while, and reports whether there is room then.
func (x *xidLog) forget(now time.Time) bool {
	maps.DeleteFunc(x.last, func(_ xidSource, l *xidLine) bool { return now.Sub(l.at) >= xidLogPause })
	return len(x.last) < maxXIDs
}

// sameBus reports whether two PCI addresses are the same: the kernel writes the
// domain with four digits and no function, NVML with eight and a function.
func sameBus(a, b string) bool {
	return a != "" && busKey(a) == busKey(b)
}

func busKey(address string) string {
	address, _, _ = strings.Cut(strings.ToLower(address), ".")
	return strings.TrimLeft(address, "0")
}
