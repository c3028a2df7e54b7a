// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// From when a memory is full, until when, and since when it was so lately.
func TestFullness(t *testing.T) {
	limit := stat.Bytes(fullShare * float64(total))
	apart := int(fullApart / time.Minute)
	var f Fullness
	for _, c := range []struct {
		name                 string
		at                   int // min
		used                 stat.Bytes
		left                 bool // who held much of it has ended
		full                 bool
		since, until, lately int // min
	}{
		{"it is not", 1, limit - 1, false, false, 0, 0, 0},
		{"it is", 2, limit, false, true, 2, 2, 2},
		{"it stays", 3, limit + gib, false, true, 2, 3, 2},
		{"it is not any more", 10, limit - 1, false, false, 2, 3, 2},
		{"it is again", 3 + apart - 1, limit, false, true, 2 + apart, 2 + apart, 2},
		{"it is not for long", 4 + apart, limit - 1, false, false, 2 + apart, 2 + apart, 2},
		{"it is again after that", 2 + 2*apart, limit, false, true, 2 + 2*apart, 2 + 2*apart, 2 + 2*apart},
		{"another one fills it", 4 + 2*apart, limit, true, true, 2 + 2*apart, 4 + 2*apart, 4 + 2*apart},
		{"and goes on", 5 + 2*apart, limit, false, true, 2 + 2*apart, 5 + 2*apart, 4 + 2*apart},
		{"one ends, and it is not full", 6 + 2*apart, limit - 1, true, false, 2 + 2*apart, 5 + 2*apart, 4 + 2*apart},
		{"who comes next fills it", 7 + 2*apart, limit, false, true, 7 + 2*apart, 7 + 2*apart, 7 + 2*apart},
	} {
		f.Left = f.Left || c.left
		f.Note(time.Duration(c.at)*time.Minute, c.used, total)
		minutes := func(n int) time.Duration { return time.Duration(n) * time.Minute }
		if f.Full != c.full || f.Since != minutes(c.since) || f.Until != minutes(c.until) || f.Lately != minutes(c.lately) {
			t.Errorf("%s: %+v", c.name, f)
		}
	}
}

func TestAMemoryOfUnknownCapacityIsNeverFull(t *testing.T) {
	var f Fullness
	if f.Note(start, total, 0); f != (Fullness{}) {
		t.Errorf("%+v", f)
	}
}

// Growth may have filled the memory that was not full when it began and is now, or was just before.
func TestFilled(t *testing.T) {
	for _, c := range []struct {
		name                string
		since, until, onset time.Duration // since start
		want                bool
	}{
		{"it is full", time.Hour, 2 * time.Hour, time.Minute, true},
		{"it was just before", time.Hour, 2*time.Hour - fullBefore, time.Minute, true},
		{"it was a while before", time.Hour, 2*time.Hour - fullBefore - 1, time.Minute, false},
		{"it was full at the begin", time.Hour, 2 * time.Hour, time.Hour, false},
		{"it was just after that", time.Hour + 1, 2 * time.Hour, time.Hour, true},
	} {
		f := Fullness{Since: start + c.since, Until: start + c.until}
		if got := f.Filled(start+c.onset, start+2*time.Hour); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
	var never Fullness
	if never.Filled(-time.Second, 0) {
		t.Error("it was never full")
	}
}
