// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

const (
	// fullShare is the share of its capacity from which on a memory is full: there allocators
	// empty their caches before they fail, and a server such as vLLM reserves as much. The two times
	// below are chosen.
	fullShare = 0.9
	// FullBefore is how long before a fall of it, or the end of a process, the memory was full at most, if that made them.
	FullBefore = time.Minute
	// Times of a full memory that are fullApart are independent.
	fullApart = time.Hour
)

// Fullness notes when a memory was full. The zero Fullness never was.
type Fullness struct {
	Full         bool
	Since, Until time.Duration // first and last frame in a row in which it was full; 0 never
	Lately       time.Duration // the first one of those that were not fullApart apart; 0 never
	Left         bool          // a process that held much of it has ended since: Lately restarts
	Unlisted     bool          // nobody tells the processes: a fall may be the end of one
}

// Note adds a frame.
func (f *Fullness) Note(t time.Duration, used, capacity stat.Bytes) {
	now := capacity > 0 && float64(used) >= fullShare*float64(capacity)
	if now && !f.Full {
		f.Since = t
	}
	if now {
		if f.Until == 0 || f.Left || t-f.Until >= fullApart {
			f.Lately = t
		}
		f.Until, f.Left = t, false
	}
	f.Full = now
}

// Was reports whether the memory was full at the last time t of a process, or just before it: allocators empty their caches
// before they fail.
func (f *Fullness) Was(t time.Duration) bool { return f.Until > 0 && f.Until >= t-FullBefore }
