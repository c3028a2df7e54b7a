// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"os"
	"testing"
	"time"
)

// oldState returns a state that the release before has saved, of testdata.
func oldState(t testing.TB, name string) []byte {
	t.Helper()
	packed, err := os.ReadFile("testdata/" + name + ".gz")
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil || b[0] != oldVersion {
		t.Fatal(b[0], err)
	}
	return b
}

// oldLeak is second s of state13.bin, which ends with second 3600: frames 10 s apart, half a GiB that
// nobody owns, and process 1 that leaks a MiB a second from second 1200 on. Process 2 ended at second
// 2000 and left a GiB.
func oldLeak(s int) *Frame[int] {
	used := math.Floor((10*1024+float64(s-1200))/2) * 2 * mib
	return &Frame[int]{
		T: start + time.Duration(s)*time.Second, Capacity: Of(80 << 30), Used: Of(used + 3<<29), Complete: true,
		Members: []Member[int]{{
			Key: 1, Group: "ml/leak", Used: Of(used), SM: Of(0.5), CPU: Of(float64(s)), State: StateAlive, Started: start - time.Hour,
		}},
	}
}

// A leak that is on goes on over the upgrade: it is told with the first frame, and for as long as it
// leaks.
func TestLeakSurvivesTheUpgrade(t *testing.T) {
	d := newDomain(t)
	if err := d.Restore(oldState(t, "state13.bin"), savedKeys); err != nil {
		t.Fatal(err)
	}
	for s := 3610; s < 3*3600; s += 10 {
		if err := d.Observe(oldLeak(s)); err != nil {
			t.Fatal(err)
		}
		j := d.Judgement()
		v := &j.Members[0].Verdict
		if !v.Leak || v.Confidence < 0.7 || v.Pattern != PatternLeakLinear || v.Since != start+1250*time.Second || math.Abs(v.Rate.V/mib-1) > 0.05 {
			t.Fatalf("second %d: %+v", s, v)
		}
		if leaked := float64(s-1250) * mib; math.Abs(v.Leaked.V-leaked) > 70*mib {
			t.Fatalf("second %d: %g MiB leaked, want %g", s, v.Leaked.V/mib, leaked/mib)
		}
		if !j.Device.Leak || j.Device.Windows[0].N < 55 || v.Windows[0].Slope.V < 0.9*mib {
			t.Fatalf("second %d: %+v", s, j.Device)
		}
	}
}

// So does a crash loop.
func TestCrashLoopSurvivesTheUpgrade(t *testing.T) {
	d := newDomain(t)
	if err := d.Restore(oldState(t, "loop13.bin"), savedKeys); err != nil {
		t.Fatal(err)
	}
	for s := 5310; s < 8000; s += 10 {
		used := math.Floor((4+float64(s%1000)/1000*72)*512) * 2 * mib
		if err := d.Observe(&Frame[int]{
			T: start + time.Duration(s)*time.Second, Capacity: Of(78 << 30), Used: Of(used + 1<<30), Complete: true,
			Members: []Member[int]{{Key: s / 1000, Group: "ml/loop", Used: Of(used)}},
		}); err != nil {
			t.Fatal(err)
		}
		j := d.Judgement()
		if v := &j.Groups[0].Verdict; !v.Leak || v.Pattern != PatternLeakCyclic || v.Since != start || !j.Device.Leak {
			t.Fatalf("second %d: %+v", s, v)
		}
	}
}
