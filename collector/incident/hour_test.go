// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package incident

import (
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// begin is a time on a source's clock, at the begin of a step.
const begin = 1_770_000_000 * time.Second

// TestHour has the highest use in each step, gaps, and clocks that go back.
func TestHour(t *testing.T) {
	type sample struct {
		second int
		used   gpu.Opt[uint64]
	}
	used, none := gpu.Some[uint64], gpu.Opt[uint64]{}
	for name, c := range map[string]struct {
		samples []sample
		since   time.Duration // after begin
		want    []gpu.Opt[uint64]
	}{
		"the highest in each step": {[]sample{{0, used(1)}, {9, used(3)}, {9, used(2)}, {10, used(0)}}, 0, []gpu.Opt[uint64]{used(3), used(0)}},
		"a gap":                    {[]sample{{5, used(1)}, {35, used(2)}}, 0, []gpu.Opt[uint64]{used(1), none, none, used(2)}},
		"use that is not known":    {[]sample{{0, used(1)}, {10, none}, {20, none}}, 0, []gpu.Opt[uint64]{used(1)}},
		"the clock goes back":      {[]sample{{500, used(1)}, {3, used(2)}, {12, used(4)}}, 0, []gpu.Opt[uint64]{used(2), used(4)}},
		"it goes back in its step": {[]sample{{9, used(1)}, {3, used(2)}}, 0, []gpu.Opt[uint64]{used(2)}},
		"a gap longer than it":     {[]sample{{0, used(1)}, {9000, used(2)}}, 9000 * time.Second, []gpu.Opt[uint64]{used(2)}},
	} {
		var h Hour
		for _, s := range c.samples {
			h.Add(begin+time.Duration(s.second)*time.Second, s.used)
		}
		to := begin + c.since + time.Duration(len(c.want)-1)*Step
		equal(t, h.Since(to), begin+c.since, "%s: its begin", name)
		equal(t, h.Course(h.Since(to), to), c.want, "%s", name)
	}
}

// TestHourIsBounded has an hour of whatever many samples, and a course outside of it.
func TestHourIsBounded(t *testing.T) {
	var h Hour
	const seconds = 3 * 3600
	for i := range seconds {
		h.Add(begin+time.Duration(i)*time.Second, gpu.Some(uint64(i)))
	}
	last := begin + (seconds-1)*time.Second
	course := h.Course(h.Since(last), last)
	if n := len(course); n != maxCourse || len(h.high) != maxCourse || cap(h.high) > 2*maxCourse {
		t.Errorf("%d values of %d, room for %d", n, len(h.high), cap(h.high))
	}
	equal(t, course[len(course)-1], gpu.Some(uint64(seconds-1)), "the last value")
	equal(t, course[0], gpu.Some(uint64(seconds-Span.Seconds()-1)), "the first value")
	for name, of := range map[string]*Hour{"nothing is known": {}, "before it": &h} {
		equal(t, of.Course(begin-20*time.Second, begin), make([]gpu.Opt[uint64], 3), "%s", name)
	}
	if got := h.Course(last, last-time.Minute); got == nil || len(got) > 0 {
		t.Errorf("a course that ends before it begins is %v, which is no empty list", got)
	}
}
