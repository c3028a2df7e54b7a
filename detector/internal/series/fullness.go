// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

const (
	// fullShare is from which share of its capacity a memory is full: there allocators
	// empty their caches before they fail, and a server such as vLLM reserves as much. The two times
	// below are chosen.
	fullShare = 0.9
	// fullBefore is how long before a fall the memory may have been full last.
	fullBefore = time.Minute
	// fullApart is how far apart two times of a full memory are that have nothing to do with each other.
	fullApart = time.Hour
)

// Fullness is for how long a memory has been full. The zero Fullness never was.
type Fullness struct {
	Full         bool
	Since, Until time.Duration // first and last frame of those in a row that found it full; 0 never
	Lately       time.Duration // the first one of those that were not fullApart apart; 0 never
	// Left says that who held much of it has ended since: who fills it next begins anew.
	Left bool
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

// Filled reports whether what grew from the time onset on may have filled the memory by
// the time t: that is full then, or was a while before, and was not when the growth began.
func (f *Fullness) Filled(onset, t time.Duration) bool {
	return f.Until > 0 && f.Until >= t-fullBefore && f.Since > onset
}
