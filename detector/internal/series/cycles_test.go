// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"testing"
	"time"
)

// cycled gives cycles those levels in MiB, one a second.
func cycled(levels []float64) *Cycles {
	c := &Cycles{}
	for i, v := range levels {
		c.add(start+time.Duration(i)*time.Second, inMiB(v))
	}
	return c
}

// A cycle ends where enough of its fall is regained; a typical one tells how deep that must be.
func TestCyclesAreCounted(t *testing.T) {
	least := float64(minCycle) / float64(mib)
	tooth := join(ramp(10, 1000, 100), mibs(1000)) // 900 high, 10 s long but for the first
	for _, c := range []struct {
		name   string
		levels []float64
		n      int64
	}{
		{"flat", flat(50, 1000), 0},
		{"growth", ramp(50, 1000, 100), 0},
		{"a fall", mibs(2000, 1000, 1000), 0},
		{"a fall that is regained in part", mibs(2000, 1000, 999+1000*cycleTurn), 0},
		{"in large part", mibs(2000, 1000, 1000+1000*cycleTurn), 1},
		{"a small cycle", mibs(1000, 1001-least, 1000+least), 0},
		{"the least", mibs(1000, 1000-least, 1000), 1},
		{"the deepest point of a fall counts", mibs(2000, 1500, 1000, 1100, 1200, 1300), 1},
		{"four teeth, the last one not begun anew", join(tooth, tooth, tooth, tooth), 3},
		{"a dent of less than half a typical cycle", join(tooth, tooth, tooth, mibs(1900, 1460, 1900, 1000, 1900)), 4},
		{"a deeper one", join(tooth, tooth, tooth, mibs(1900, 1440, 1900, 1000, 1900)), 5},
	} {
		equal(t, cycled(c.levels).N, c.n, "%s: cycles", c.name)
	}
}

// The height of cycles that are alike is theirs, their length from trough to trough, and the last trough is
// known.
func TestTypicalCycle(t *testing.T) {
	var levels []float64
	for range 20 {
		levels = append(levels, ramp(30, 1000, 100)...)
	}
	c := cycled(levels)
	about(t, "height", c.Size, float64(2900*mib))
	about(t, "length", c.Length.Seconds(), 30)
	if want := start + 570*time.Second; c.Ended.At != want || c.Ended.V != 1000*mib {
		t.Errorf("the last one ended at %+v, want %s", c.Ended, want)
	}
	for i := range 400 { // now they are two thirds as high and as long
		c.add(start+time.Duration(600+i)*time.Second, inMiB(1000+100*float64(i%20)))
	}
	if c.Size > 2000*float64(mib) || c.Length > 21*time.Second || c.Length < 20*time.Second {
		t.Errorf("after twenty others: %.0f MiB, %s", c.Size/float64(mib), c.Length)
	}
}

// A cycle that is much higher shows that those before were noise.
func TestHighCyclesReplaceNoise(t *testing.T) {
	var noise []float64
	for range 10 {
		noise = append(noise, 1000, 1100)
	}
	for _, c := range []struct {
		name string
		fall float64
		anew bool
	}{
		{"as high as noise may be", 100 * noiseCycle, false},
		{"higher", 100*noiseCycle + 1, true},
	} {
		got := cycled(join(noise, mibs(1000, 1000+c.fall, 1000, 1000+c.fall)))
		equal(t, got.Size == c.fall*float64(mib) && got.Length == 0, c.anew, "%s: whether %+v is anew", c.name, got)
		equal(t, got.N, 11, "%s: cycles", c.name)
	}
}

// While memory goes in cycles the trough is the end of the last one, and not where the present one is.
func TestTroughInCycles(t *testing.T) {
	w := watching(defaults(), time.Second)
	saw := func(t time.Duration) float64 { return 10000 + 5000*float64(t%(5*time.Minute))/float64(5*time.Minute) }
	w.watch(59*time.Minute, saw) // in four fifths of a cycle
	if got, ok := w.Trough(); !ok || got != 10000*mib {
		t.Errorf("%d MiB", got/mib)
	}
	if low, _ := w.Scales[0].envelope(); low < 13000*mib {
		t.Errorf("the narrowest block is at %d MiB: the test shows nothing", low/mib)
	}
	w.watch(time.Hour, steadily(12000)) // the cycles are over
	got, _ := w.Trough()
	equal(t, got, 12000*mib, "trough after the cycles")
}
