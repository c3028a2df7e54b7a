// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// A flush is a fall by a tenth of the capacity or more, just after the memory was full for a while, that is
// soon filled again; two of them tell. Others hold 19 of 80 GiB.
func TestFlushes(t *testing.T) {
	const capacity, others = 80 * gib, 19 * gib
	const high = 60 * gib // fills the memory
	drop := stat.Bytes(flushShare * float64(capacity))
	type stretch struct {
		s    int // seconds
		used stat.Bytes
	}
	dwell, back := stretch{240, high}, stretch{59, high - drop}
	twice := func(first, fall stretch) []stretch {
		return []stretch{{60, 30 * gib}, first, fall, first, fall, first}
	}
	// slowly is a little less than full for so many seconds before each fall.
	slowly := func(s int) []stretch {
		less := stretch{s - 1, 53*gib - 1}
		return []stretch{{60, 30 * gib}, dwell, less, {30, high - drop}, dwell, less, {30, high - drop}, dwell}
	}
	for _, c := range []struct {
		name     string
		plot     []stretch
		capacity stat.Bytes
		every    int // s
		want     bool
	}{
		{"twice", twice(dwell, back), capacity, 1, true},
		{"once", []stretch{{60, 30 * gib}, dwell, back, dwell}, capacity, 1, false},
		{"a smaller fall", twice(dwell, stretch{60, high - drop + 1}), capacity, 1, false},
		{"full for as long as it must be", twice(stretch{int(fullAfter.Seconds()) + 1, high}, stretch{10, high - drop}), capacity, 1, true},
		{"not for long enough", twice(stretch{int(fullAfter.Seconds()), high}, stretch{10, high - drop}), capacity, 1, false},
		{"not full again soon", twice(dwell, stretch{60, high - drop}), capacity, 1, false}, // a quarter of 239 s are 59.75 s
		{"nor as late as it may be after long", twice(stretch{1200, high}, stretch{int(regainWithin.Seconds()) + 1, high - drop}), capacity, 1, false},
		{"as late", twice(stretch{1200, high}, stretch{int(regainWithin.Seconds()), high - drop}), capacity, 1, true},
		{"seldom seen", twice(stretch{1200, high}, stretch{90, high - drop}), capacity, 30, true},
		{"it falls within a while", slowly(10), capacity, 1, true},
		{"it falls later", slowly(11), capacity, 1, false},
		{"of an unknown capacity", twice(dwell, back), 0, 1, false},
	} {
		var p Flushing
		var f series.Fullness
		now := start
		for _, x := range c.plot {
			for range x.s / c.every {
				f.Note(now, x.used+others, c.capacity)
				p.Note(now, time.Duration(c.every)*time.Second, x.used, c.capacity, &f)
				now += time.Duration(c.every) * time.Second
			}
		}
		if got := p.Often() > 0; got != c.want {
			t.Errorf("%s: %t, %+v", c.name, got, p)
		}
	}
}
