// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func appendKey(b []byte, k int) []byte { return binary.AppendVarint(b, int64(k)) }

func readKey(b []byte) (int, bool) {
	k, n := binary.Varint(b)
	return int(k), n > 0
}

// A domain that is saved and restored anywhere goes on as if it had never been
// away.
func TestRestoredDomainGivesTheSameVerdicts(t *testing.T) {
	run := func(restoreEvery int) (all []string) {
		d := newDomain(t)
		rng := rand.New(rand.NewPCG(17, 18))
		var f Frame[int]
		for s := range 2500 {
			busyFrame(&f, 5, s, rng)
			for i := range f.Members {
				f.Members[i].Group = "pod"
			}
			if s > 1800 {
				f.Members = f.Members[:3]
			}
			j, err := look(d, &f)
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(j.Exited, func(a, b Exit[int]) int { return a.Key - b.Key })
			all = append(all, fmt.Sprintf("%+v", *j))
			if restoreEvery > 0 && s%restoreEvery == 0 {
				saved := d.Save(nil, appendKey)
				d = newDomain(t)
				if err := d.Restore(saved, readKey); err != nil {
					t.Fatal(err)
				}
			}
		}
		return all
	}
	want := run(0)
	for _, every := range []int{1, 37, 700} {
		got := run(every)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("restored every %d frames, frame %d differs:\n%s\nwant\n%s", every, i, got[i], want[i])
			}
		}
	}
	if !strings.Contains(want[len(want)-1], "Leak:true") {
		t.Error("nothing leaks: the test shows little")
	}
}

func TestRestoreLeavesUnknownMembersOut(t *testing.T) {
	d := newDomain(t)
	observe(t, d, 0, 0, map[int]float64{1: gib, 2: gib})
	saved := d.Save(nil, appendKey)
	if err := d.Restore(saved, func(b []byte) (int, bool) { k, _ := readKey(b); return k, k == 2 }); err != nil {
		t.Fatal(err)
	}
	if len(d.members) != 1 || d.members[2] == nil || d.used == nil {
		t.Errorf("members %v", d.members)
	}
}

func TestRestoreWithOtherWindows(t *testing.T) {
	d := newDomain(t)
	for s := range 100 {
		observe(t, d, s, 0, map[int]float64{1: gib})
	}
	saved := d.Save(nil, appendKey)
	other := DefaultConfig()
	other.Windows = []time.Duration{10 * time.Minute, 2 * time.Hour}
	e, err := NewDomain(func(Subject[int]) Config { return other })
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Restore(saved, readKey); err != nil {
		t.Fatal(err)
	}
	if a, b := e.used.windows[0].total.n, e.used.windows[1].total.n; a != 100 || b != 0 {
		t.Errorf("%d and %d samples in the windows that stayed and came", a, b)
	}
}

func TestRestoreRefusesWhatIsNotItsOwn(t *testing.T) {
	d := newDomain(t)
	for s := range 400 {
		observe(t, d, s, 0, map[int]float64{1: float64(s) * mib * 10})
	}
	saved := d.Save(nil, appendKey)
	for name, b := range map[string][]byte{
		"empty":          nil,
		"other version":  append([]byte{99}, saved[1:]...),
		"cut":            saved[:len(saved)/2],
		"something else": []byte("\x01hello, world, this is text"),
		"longer":         append(slices.Clip(saved), 0),
	} {
		if err := d.Restore(b, readKey); err == nil {
			t.Errorf("%s is accepted", name)
		}
		if d.used != nil || len(d.members) != 0 || d.last != 0 {
			t.Errorf("%s leaves a history", name)
		}
	}
}

// FuzzRestore: whatever a state file holds, it is refused or gives a domain that
// judges without a panic or a NaN.
func FuzzRestore(f *testing.F) {
	d := newDomain(f)
	for s := range 60 {
		observe(f, d, s, 0, map[int]float64{1: float64(s) * mib * 10})
	}
	f.Add(d.Save(nil, appendKey))
	f.Add([]byte{stateVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newDomain(t)
		if err := d.Restore(b, readKey); err != nil {
			return
		}
		for s := range 3 {
			j, err := look(d, &Frame[int]{
				T: time.Duration(d.last) + time.Duration(s+1)*10*time.Second, Used: Of(gib), Capacity: Of(2 * gib), Complete: s != 1,
				Members: []Member[int]{{Key: 1, Used: Of(gib)}},
			})
			if err != nil {
				return // the saved time was at the end of all time
			}
			checkVerdict(t, &j.Device)
			checkVerdict(t, &j.Residual)
			for i := range j.Members {
				checkVerdict(t, &j.Members[i].Verdict)
			}
		}
	})
}
