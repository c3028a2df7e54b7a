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
	for _, c := range []struct {
		name     string
		plot     []stretch
		capacity stat.Bytes
		want     bool
	}{
		{"twice", twice(dwell, back), capacity, true},
		{"once", []stretch{{60, 30 * gib}, dwell, back, dwell}, capacity, false},
		{"a smaller fall", twice(dwell, stretch{60, high - drop + 1}), capacity, false},
		{"full for as long as it must be", twice(stretch{int(fullAfter.Seconds()) + 1, high}, stretch{10, high - drop}), capacity, true},
		{"not for long enough", twice(stretch{int(fullAfter.Seconds()), high}, stretch{10, high - drop}), capacity, false},
		{"not full again soon", twice(dwell, stretch{60, high - drop}), capacity, false}, // a quarter of 239 s are 59.75 s
		{"nor as late as it may be after long", twice(stretch{1200, high}, stretch{int(regainWithin.Seconds()) + 1, high - drop}), capacity, false},
		{"as late", twice(stretch{1200, high}, stretch{int(regainWithin.Seconds()), high - drop}), capacity, true},
		{"it falls later", []stretch{dwell, {15, 52*gib + 1}, {30, 30 * gib}, dwell, {15, 52*gib + 1}, {30, 30 * gib}, dwell}, capacity, false},
		{"of an unknown capacity", twice(dwell, back), 0, false},
	} {
		var p Flushing
		var f series.Fullness
		now := start
		for _, x := range c.plot {
			for range x.s {
				f.Note(now, x.used+others, c.capacity)
				p.Note(now, time.Second, x.used, c.capacity, &f)
				now += time.Second
			}
		}
		if got := p.Often() > 0; got != c.want {
			t.Errorf("%s: %t, %+v", c.name, got, p)
		}
	}
}
