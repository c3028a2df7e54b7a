// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"
)

// FuzzDomain feeds frames of any times and values: whatever comes, Observe does
// not panic, and no number that it gives is NaN, no time negative and no
// probability outside of 0 to 1. A domain that takes over in the middle, from what
// the first one saved, judges each further frame alike.
func FuzzDomain(f *testing.F) {
	noise := make([]byte, 0, 4*400)
	for i := range 400 {
		noise = append(noise, 1, byte(i), 3, byte(i))
	}
	f.Add(noise)
	f.Add(fuzzLeak)
	f.Add([]byte{0, 255, 255, 255, 9, 0, 0, 0, 200, 128, 7, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		d, clock, middle := newDomain(t), start, len(data)/2
		var restored *Domain[int]
		for ; len(data) >= 4; data = data[4:] {
			if restored == nil && len(data) <= middle {
				restored = saveAndRestore(t, d)
			}
			clock += fuzzStep(data[0])
			f := fuzzFrame(clock, data)
			err := d.Observe(&f)
			if restored != nil {
				checkRestored(t, d, restored, &f, err)
			}
			if err != nil {
				continue
			}
			j := d.Judgement()
			checkVerdict(t, &j.Device)
			checkVerdict(t, &j.Residual)
			checkUnreleased(t, j)
			for i := range j.Members {
				checkVerdict(t, &j.Members[i].Verdict)
				within(t, "share", j.Members[i].Share, 0, 1)
			}
			for i := range j.Groups {
				checkVerdict(t, &j.Groups[i].Verdict)
			}
			within(t, "headroom", j.Headroom, 0, MaxBytes)
		}
	})
}

// saveAndRestore returns a new domain of the history of d.
func saveAndRestore(t *testing.T, d *Domain[int]) *Domain[int] {
	t.Helper()
	restored := newDomain(t)
	must(t, restored.Restore(d.Save(nil), anyone))
	return restored
}

// checkRestored checks that a restored domain takes a frame as d took it, and judges it alike.
func checkRestored(t *testing.T, d, restored *Domain[int], f *Frame[int], err error) {
	t.Helper()
	if got := restored.Observe(f); (got == nil) != (err == nil) {
		t.Fatalf("restored: %v, want %v", got, err)
	}
	if err != nil {
		return
	}
	want, got := *d.Judgement(), *restored.Judgement()
	if a, b := fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got); a != b {
		t.Fatalf("restored, it says at %s\n%s\nwant\n%s", f.T, b, a)
	}
}

// fuzzLeak are frames every 10 s of a process that computes, holds 4 GiB for 25
// minutes and then grows by 16 MiB a frame.
var fuzzLeak = func() (frames []byte) {
	for i := range 300 {
		frames = append(frames, 10, byte(max(0, i-150)), 1, 1)
	}
	return frames
}()

// The corpus has a leak in it, or the fuzzing would not see what only leaks reach.
func TestFuzzLeakIsOne(t *testing.T) {
	d, clock := newDomain(t), start
	var j *Judgement[int]
	for data := fuzzLeak; len(data) > 0; data = data[4:] {
		clock += fuzzStep(data[0])
		f := fuzzFrame(clock, data)
		j = show(t, d, &f)
	}
	if !j.Device.Leak || !j.Members[0].Leak {
		t.Errorf("device %+v, member %+v", j.Device, j.Members[0])
	}
}

// fuzzStep is how far the clock goes: mostly seconds, sometimes back, not at
// all, a nanosecond or a month.
func fuzzStep(b byte) time.Duration {
	switch b {
	case 0:
		return 0
	case 255:
		return -time.Hour
	case 254:
		return 1
	case 253:
		return 30 * 24 * time.Hour
	case 252:
		return math.MaxInt64 / 64
	}
	return time.Duration(b) * time.Second
}

func fuzzFrame(clock time.Duration, data []byte) Frame[int] {
	x := float64(binary.LittleEndian.Uint16(data[1:])) * 16 * mib
	used := Of(x)
	switch data[3] {
	case 0:
		used = Value{}
	case 255:
		used = Of(math.NaN())
	case 254:
		used = Of(math.MaxUint64)
	case 253:
		used = Of(-x)
	case 252:
		used = Of(MaxBytes)
	}
	f := Frame[int]{T: clock, Used: used, Capacity: Of(80 * gib), Complete: data[3]&1 == 1}
	for k := range int(data[3] & 7) {
		f.Members = append(f.Members, Member[int]{
			Key: k % 5, Group: "g", Used: Of(x / float64(k+1)), Started: clock - time.Duration(data[1])*time.Minute,
			SM: Of(float64(data[2] & 1)), CPU: Of(float64(data[2] >> 1)), State: ProcState(data[1] % 8),
		})
	}
	return f
}

func checkVerdict(t *testing.T, v *Verdict) {
	t.Helper()
	for _, w := range v.Windows {
		within(t, "slope", w.Slope, -math.MaxFloat64, math.MaxFloat64)
		within(t, "R²", w.R2, 0, 1)
		within(t, "spikes", w.Spikes, 0, math.MaxInt32)
		within(t, "fill", Of(w.Fill), 0, 1)
	}
	within(t, "trough", v.Trough, 0, MaxBytes)
	within(t, "confidence", Of(v.Confidence), 0, 1)
	within(t, "rate", v.Rate, 0, math.MaxFloat64)
	within(t, "leaked", v.Leaked, 0, math.MaxFloat64)
	within(t, "lower bound", v.Lower, 0, math.Inf(1))
	within(t, "time to out-of-memory", v.SecondsToOOM, v.Lower.V, math.Inf(1))
	within(t, "upper bound", v.Upper, v.SecondsToOOM.V, math.Inf(1))
	if v.Leak && (v.Since <= 0 || !v.Rate.OK || !v.Pattern.Leaks()) {
		t.Fatalf("incomplete leak: %+v", v)
	}
}

func checkUnreleased(t *testing.T, j *Judgement[int]) {
	t.Helper()
	if len(j.Unreleased) > MaxUnreleased {
		t.Fatalf("%d processes left something", len(j.Unreleased))
	}
	for _, u := range j.Unreleased {
		within(t, "unreleased", Of(u.Used), 0, MaxBytes)
		if u.Since <= 0 || u.Since > j.T {
			t.Fatalf("%+v at %s", u, j.T)
		}
	}
}

func within(t *testing.T, what string, v Value, low, high float64) {
	if v.OK && !(v.V >= low && v.V <= high) {
		t.Helper() // here, as it walks the stack: that was a fifth of all that these tests take
		t.Fatalf("%s is %g, not in [%g, %g]", what, v.V, low, high)
	}
}
