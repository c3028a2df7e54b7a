// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package heights

import "time"

const (
	// A peak counts after settles without harm, and an end if the memory was not full for settles: PyTorch gives back just before
	// it dies.
	settles = 15 * time.Minute
	// Full is the share of the capacity from which on an end may have been an out-of-memory, and from which on a peak of a memory as
	// a whole does not count.
	Full = 0.93
	// begins is the age from which on the lowest use counts: a program begins with none.
	begins = 10 * time.Minute
	// A peak is closed when the memory has fallen to the share fallen of it, above the lowest use.
	fallen = 0.5
	// Processes that end within together are one life: the ranks of a job.
	together = time.Minute
	// A low is the lowest use of lasts, which is longer than an evaluation: beneath that a training may leak.
	lasts = 30 * time.Minute
)

// Life holds the heights of one process, or of a memory, so far. The zero Life has none.
type Life struct {
	Began  time.Duration
	Minute time.Duration  // when the open minute began
	Lows   time.Duration  // when the open low began
	Open   [kinds]float64 // the highest use of that minute, and the lowest of that low
	Climbs [kinds]Climb
	FullAt time.Duration // when the memory was last full; 0 never
}

// Climb is a life by one kind of height.
type Climb struct {
	Base, Top float64 // the lowest use, and the highest one since the last peak
	Waiting   Height  // the highest closed peak that does not count yet, At the first one
	Next      Height  // the same for those that were closed after it
}

// Note adds a sample of used memory, and reports whether a minute has ended: then the caller calls Learn. share is the used share
// of the memory as a whole.
func (l *Life) Note(t time.Duration, used, share float64) bool {
	if share >= Full {
		l.FullAt = t
	}
	ended := l.Began > 0 && t-l.Minute >= time.Minute
	switch {
	case l.Began == 0:
		l.Began, l.Minute, l.Lows, l.Open = t, t, t, [kinds]float64{used, used}
	case ended:
		young := t-l.Began < begins
		l.Climbs[Crest].note(t, l.Open[Crest], young)
		l.Minute, l.Open[Crest] = t, used
		if young || t-l.Lows >= lasts {
			l.Climbs[Low].note(t, l.Open[Low], young)
			l.Lows, l.Open[Low] = t, used
		}
	}
	l.Open = [kinds]float64{max(l.Open[Crest], used), min(l.Open[Low], used)}
	return ended
}

// Learn adds to r the peaks that count by now, unless they were most or higher. leaks says that the life leaks: its lows do not count.
func (l *Life) Learn(t time.Duration, r *Record, most float64, leaks bool) {
	for k := range l.Climbs {
		c := &l.Climbs[k]
		if c.Waiting.Bytes == 0 || t-c.Waiting.At < settles {
			continue
		}
		if (Kind(k) == Crest || !leaks) && c.Waiting.Bytes < most {
			r.Given[k].add(Height{c.Waiting.Bytes, c.Waiting.Fell, t})
		}
		c.Waiting, c.Next = c.Next, Height{}
	}
}

// note adds a height.
func (c *Climb) note(t time.Duration, v float64, young bool) {
	c.Top = max(c.Top, v)
	if young {
		c.Base = v
		return
	}
	c.Base = min(c.Base, v)
	if c.Top > c.Base && v <= c.Base+(c.Top-c.Base)*fallen {
		at := &c.Waiting
		if at.Bytes > 0 {
			at = &c.Next
		}
		if at.Bytes == 0 {
			at.At = t
		}
		at.Bytes, at.Fell = max(at.Bytes, c.Top), max(at.Fell, c.Top-v)
		c.Top = v
	}
}

// End adds the end of the process at the time t to r.
func (l *Life) End(t time.Duration, r *Record, leaks bool) {
	if l.Began == 0 {
		return
	}
	more := r.Ended > 0 && (t-r.Ended).Abs() < together
	if r.Ended = t; !more {
		r.Doubt, r.Whole = [kinds]Height{}, false
	}
	var held [kinds]Height
	for k := range l.Climbs {
		if c := &l.Climbs[k]; Kind(k) == Crest || !leaks {
			h := max(c.Top, c.Waiting.Bytes, c.Next.Bytes, l.Open[k])
			held[k] = Height{h, h, t}
		}
	}
	whole := t-l.Began >= begins
	if l.FullAt == 0 || t-l.FullAt >= settles {
		r.take(&held, more, whole)
		return
	}
	r.Whole = r.Whole || whole
	for k, h := range held {
		if h.Bytes > r.Doubt[k].Bytes {
			r.Doubt[k] = h
		}
	}
}
