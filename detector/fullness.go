// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "time"

const (
	// fullShare is from which share of its capacity a memory is full: there allocators
	// empty their caches before they fail.
	fullShare = 0.9
	// fullBefore is how long before a fall the memory may have been full last, ns.
	fullBefore = int64(time.Minute)
)

// fullness is for how long a memory has been full.
type fullness struct {
	full         bool
	since, until int64 // first and last frame of those in a row that found it full, ns; 0 never
	lately       int64 // the first one of those that were not crestSpan apart, ns; 0 never
	// left says that who held much of it has ended since: who fills it next begins anew.
	left bool
}

// note adds a frame.
func (f *fullness) note(t, used, capacity int64) {
	now := capacity > 0 && float64(used) >= fullShare*float64(capacity)
	if now && !f.full {
		f.since = t
	}
	if now {
		if f.until == 0 || f.left || t-f.until >= int64(crestSpan) {
			f.lately = t
		}
		f.until, f.left = t, false
	}
	f.full = now
}

// filled reports whether what grew from the time onset on, ns, may have filled the memory by
// the time t: that is full then, or was a while before, and was not when the growth began.
func (f *fullness) filled(onset, t int64) bool {
	return f.until > 0 && f.until >= t-fullBefore && f.since > onset
}

func (f *fullness) code(c *codec) {
	c.bool(&f.full)
	c.time(&f.since)
	c.time(&f.until)
	c.time(&f.lately)
	c.bool(&f.left)
}
