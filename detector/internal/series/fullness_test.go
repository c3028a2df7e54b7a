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

// A memory was full when a process ended that was full then, or just before.
func TestWasFull(t *testing.T) {
	f := Fullness{Until: start}
	for after, want := range map[time.Duration]bool{-time.Hour: true, 0: true, FullBefore: true, FullBefore + 1: false} {
		equal(t, f.Was(start+after), want, "whether it was full %s after", after)
	}
	if (&Fullness{}).Was(0) {
		t.Error("it was never full")
	}
}
