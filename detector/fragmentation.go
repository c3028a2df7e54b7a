// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "time"

const (
	// flushShare is the least share of the capacity that an allocator gives back when it
	// empties its cache.
	flushShare = 0.1
	// fullAfter is how long a memory must have been full; flushWithin within which
	// time of that the cache is emptied, or three frames if those take longer.
	fullAfter   = int64(time.Minute)
	flushWithin = int64(10 * time.Second)
	// regainWithin is within which time the memory is full again; nor may it take
	// more than a quarter of the time for which it had been full.
	regainWithin = int64(2 * time.Minute)
	regainShare  = 4
	// flushes is how many of them make a fragmentation.
	flushes = 2
)

// flushing looks for an allocator that empties its cache and goes on.
type flushing struct {
	high   int64          // what the process held while the memory was full last, bytes
	fell   int64          // when it gave a part of that back, ns; 0 not since then
	within int64          // how long the memory may take to be full again, ns
	times  [flushes]int64 // when it has flushed its cache, ns; newest first
}

// note adds a frame in which the process holds used bytes.
func (p *flushing) note(t, interval, used, capacity int64, f *fullness) {
	if capacity == 0 {
		return
	}
	if f.full {
		if p.fell > 0 && f.since-p.fell <= p.within {
			p.times = [flushes]int64{p.fell, p.times[0]}
		}
		p.high, p.fell = used, 0
		return
	}
	dwell := f.until - f.since
	if p.fell == 0 && dwell >= fullAfter && t-f.until <= max(flushWithin, 3*interval) &&
		float64(p.high-used) >= flushShare*float64(capacity) {
		p.fell, p.within = t, min(regainWithin, dwell/regainShare)
	}
	if p.fell == 0 && t-f.until > max(flushWithin, 3*interval) {
		p.high = 0 // what it gives back from now on has another reason
	}
}

// fragmented reports whether m's memory looks like that of an allocator that has
// the bytes but not in one piece: twice or more within the longest window, the
// memory of the domain had been at 90 % of its capacity or more for a minute, then
// this very process gave back 10 % of the capacity or more at once, and soon the
// memory was full again. PyTorch does that: when an allocation fails it empties
// its cache and tries again.
//
// That is a weak sign. NVML does not show what is free inside the allocator's
// cache, a flush between two samples is not seen, and a program that empties its
// cache by itself for a moment looks the same. So it is a pattern only: it has no
// confidence, and a leak, which can be what fills the memory, keeps its own. An
// epoch that fills the memory on its way up is not at the top for long enough, or
// not back soon enough. Without members nobody can tell whose memory fell: the raw
// series is never called fragmented.
func (d *Domain[K]) fragmented(m *member) bool {
	oldest := m.flushing.times[flushes-1]
	return oldest > 0 && d.last-oldest <= int64(m.cfg.Windows[len(m.cfg.Windows)-1])
}

func (p *flushing) code(c *codec) {
	c.amount(&p.high)
	c.time(&p.fell)
	c.natural(&p.within)
	for i := range p.times {
		c.time(&p.times[i])
	}
}
