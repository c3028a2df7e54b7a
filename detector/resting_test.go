// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "testing"

// TestWhatRests has processes that come one after the other, compute for three minutes, and then
// hold 512 MiB and compute no more. Where none of them ends the memory leaks, though no process does.
func TestWhatRests(t *testing.T) {
	for _, c := range []struct {
		name    string
		every   int   // seconds between two that come
		stays   int   // seconds for which each stays; 0 to the end
		sm      Value // of those that rest
		restore bool  // the domain is saved and restored each 100 frames
		want    bool
	}{
		{name: "children that nobody reaps", every: 240, sm: Of(0), want: true},
		{name: "the same, restored", every: 240, sm: Of(0), restore: true, want: true},
		{name: "they work", every: 240, sm: Of(0.2)},
		{name: "it is not known whether they work", every: 240},
		{name: "they end after half an hour", every: 240, stays: 1800, sm: Of(0)},
		{name: "a few that stay", every: 4 * 3600, sm: Of(0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, leaks := newDomain(t), 0
			for s := 0; s < 5*3600; s += 10 {
				f := Frame[int]{T: seconds2026(s), Used: Of(gib), Capacity: Of(80 * gib), Complete: true}
				for n := range 1 + s/c.every {
					age := s - n*c.every
					if c.stays > 0 && age >= c.stays {
						continue
					}
					m := Member[int]{Key: n, Used: Of(512 * mib), Started: seconds2026(n * c.every), SM: Of(0.5), State: StateAlive}
					if age > 180 {
						m.SM = c.sm
					}
					f.Used.V += m.Used.V
					f.Members = append(f.Members, m)
				}
				j, err := look(d, &f)
				if err != nil {
					t.Fatal(err)
				}
				leaks += btoi(j.Device.Leak)
				for i := range j.Members {
					if j.Members[i].Leak {
						t.Fatalf("second %d: process %d leaks", s, j.Members[i].Key)
					}
				}
				if c.restore && s%1000 == 990 {
					d = restored(t, d)
				}
			}
			if leaks > 0 != c.want {
				t.Errorf("it leaks in %d frames, want some: %v", leaks, c.want)
			}
		})
	}
}

// TestRestoreEarlierVersion reads a state of the version before: a leak that was active still is.
func TestRestoreEarlierVersion(t *testing.T) {
	d := newDomain(t)
	var want *Judgement[int]
	for s := 1; s <= quiet+1500; s++ {
		want = observe(t, d, s, 512*mib, map[int]float64{1: round(10*gib + leaked(s))})
	}
	if !want.Device.Leak {
		t.Fatal("no leak: this test shows nothing")
	}
	d.resting, d.reached, d.reaching = nil, 0, 0
	c := codec{b: []byte{stateVersion0}, writing: true, version: stateVersion0}
	old := d.saved(&c, func(b []byte, k int) []byte { return append(b, byte(k)) })
	again := newDomain(t)
	if err := again.Restore(old, func(b []byte) (int, bool) { return int(b[0]), len(b) == 1 }); err != nil {
		t.Fatal(err)
	}
	j := observe(t, again, quiet+1502, 512*mib, map[int]float64{1: round(10*gib + leaked(quiet+1502))})
	if !j.Device.Leak || j.Device.Since != want.Device.Since {
		t.Errorf("after the upgrade: leak %v since %s, before since %s", j.Device.Leak, j.Device.Since, want.Device.Since)
	}
	if err := again.Restore([]byte{stateVersion0 - 1}, nil); err == nil {
		t.Error("a version that nobody knows was read")
	}
}
