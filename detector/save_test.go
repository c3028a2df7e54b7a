// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
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
	leaking := 0 // at a restore
	run := func(restore func(s int) bool) (all []string) {
		d := newDomain(t)
		rng := rand.New(rand.NewPCG(17, 18))
		var f Frame[int]
		for s := range 2500 {
			busyFrame(&f, 5, s, rng)
			f.Capacity = Of(6.5 * gib)
			for i := range f.Members {
				f.Members[i].Group, f.Members[i].CPU, f.Members[i].State = "pod", Of(100), StateOrphaned
			}
			f.Members[0].SM = Of(0)
			f.Used.V -= f.Members[1].Used.V
			f.Members[1].Used = Of(round(gib + float64(max(0, s-900))*mib/2)) // leaks from there on
			f.Used.V += f.Members[1].Used.V
			if s%300 >= 295 {
				f.Members[4].Used.V -= gib
				f.Used.V -= gib
			}
			if s > 1800 {
				f.Members = f.Members[:3] // and yet their memory stays
			}
			j, err := look(d, &f)
			if err != nil {
				t.Fatal(err)
			}
			slices.SortFunc(j.Exited, func(a, b Exit[int]) int { return a.Key - b.Key })
			all = append(all, fmt.Sprintf("%+v", *j))
			if restore(s) {
				leaking += btoi(j.Device.Leak)
				saved := d.Save(nil, appendKey)
				d = newDomain(t)
				if err := d.Restore(saved, readKey); err != nil {
					t.Fatal(err)
				}
			}
		}
		return all
	}
	want := run(func(int) bool { return false })
	for name, restore := range map[string]func(s int) bool{
		"each time for a while": func(s int) bool { return s >= 1500 && s < 1900 },
		"now and then":          func(s int) bool { return s%37 == 0 },
		"seldom":                func(s int) bool { return s%700 == 0 },
	} {
		got := run(restore)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("restored %s, frame %d differs:\n%s\nwant\n%s", name, i, got[i], want[i])
			}
		}
	}
	if leaking < 100 {
		t.Errorf("a leak is on at only %d restores: the test shows little", leaking)
	}
	for _, part := range []string{"Leak:true", "Pattern:zombie", "Pattern:unreleased", "Pattern:fragmentation", "Unreleased:[{Key:3 Used:1.09"} {
		if !strings.Contains(strings.Join(want, "\n"), part) {
			t.Errorf("%s is nowhere: the test shows little", part)
		}
	}
}

// No field of a series is forgotten, whatever it has seen.
func TestSeriesIsRestoredWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 22))
	for name, memory := range map[string]func(s int) float64{
		"plain":       func(s int) float64 { return 2*gib + 1.2*mib*float64(s) },
		"leaks":       func(s int) float64 { return 2*gib + leaked(s) },
		"accelerates": func(s int) float64 { return 2*gib + leaked(s)*leaked(s)/gib },
		"cyclic leak": func(s int) float64 { return 2*gib + leaked(s) + float64(s%60)*100*mib },
		"stands":      func(s int) float64 { return 2*gib + leaked(min(s, quiet+2000)) },
		"epochs":      func(s int) float64 { return 2*gib + float64(s%700)*10*mib },
		"wanders":     func(s int) float64 { return 20*gib + 8*gib*math.Sin(float64(s)/300) + float64(rng.IntN(100))*mib },
		"spikes":      func(s int) float64 { return 2*gib + float64(btoi(s%200 < 7))*gib },
	} {
		s := newSeries(DefaultConfig())
		for at := range quiet + 3000 {
			s.observe(&observation{
				t: int64(seconds2026(at)), used: int64(round(memory(at))), interval: int64(time.Second), capacity: 60 * gib,
				started: int64(start - time.Hour), sm: Of(float64(at / 700 % 2)),
			})
			if at%397 != 0 && at != quiet+2999 {
				continue
			}
			w := codec{writing: true, last: s.last}
			s.code(&w)
			r := codec{b: w.b, last: s.last}
			restored := newSeries(s.cfg)
			restored.code(&r)
			if r.err != nil || len(r.b) > 0 || !reflect.DeepEqual(flat(restored), flat(s)) {
				t.Fatalf("%s, second %d: %v, %d bytes left\n%+v\nwant\n%+v", name, at, r.err, len(r.b), flat(restored), flat(s))
			}
		}
		if leaks := name == "plain" || name == "leaks" || name == "accelerates" || name == "cyclic leak"; s.leak.on != leaks {
			t.Errorf("%s: a leak: %t", name, s.leak.on)
		}
		if s.leak.over != (name == "stands") {
			t.Errorf("%s: a leak that stands still: %t", name, s.leak.over)
		}
	}
}

// flat returns s without what only tells how it is kept: where a ring begins, what
// is left over in it, and what was noted of it.
func flat(s *series) series {
	c := *s
	for i := range c.ladder {
		e := &c.ladder[i]
		var ring [scaleBlocks]point
		e.points(&ring)
		e.ring, e.head = ring, 0
	}
	c.spikes.low, c.spikes.lowFrom = 0, 0
	c.windows = slices.Clone(c.windows)
	for i := range c.windows {
		w := &c.windows[i]
		var blocks [windowBlocks]block
		for j := range w.len {
			blocks[j] = w.blocks[(w.head+j)%windowBlocks]
		}
		w.blocks, w.head = blocks, 0
	}
	return c
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
	if a, b := e.used.windows[0].fit().N, e.used.windows[1].fit().N; a != 100 || b != 0 {
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
	for s := 60; s < 200; s++ { // what process 2 held stays, and 3 has just ended
		members := map[int]float64{1: gib, 2: gib, 3: gib}
		if s >= 100 {
			delete(members, 2)
		}
		if s >= 197 {
			delete(members, 3)
		}
		observe(f, d, s, float64(3-len(members))*gib, members)
	}
	f.Add(d.Save(nil, appendKey))
	f.Add([]byte{stateVersion})
	d = newDomain(f)
	for s := 0; s < quiet+1200; s += 5 { // a leak that is on
		observe(f, d, s, 0, map[int]float64{1: round(2*gib + leaked(s))})
	}
	if !d.members[1].leak.on {
		f.Fatal("no leak in the corpus")
	}
	f.Add(d.Save(nil, appendKey))
	d = newDomain(f)
	for s := range 5 * 400 { // a crash loop
		life, at := s/400, s%400
		if _, err := look(d, &Frame[int]{
			T: seconds2026(s), Used: Of(gib * (4 + float64(at)/6)), Capacity: Of(70 * gib), Complete: true,
			Members: []Member[int]{{Key: life, Group: "ml/loop", Used: Of(gib * (4 + float64(at)/6))}},
		}); err != nil {
			f.Fatal(err)
		}
	}
	if !d.groups[groupName{name: "ml/loop"}].looping() {
		f.Fatal("no crash loop in the corpus")
	}
	f.Add(d.Save(nil, appendKey))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newDomain(t)
		if err := d.Restore(b, readKey); err != nil {
			return
		}
		for s := range 3 {
			j, err := look(d, &Frame[int]{
				T: time.Duration(d.last) + time.Duration(s+1)*10*time.Second, Used: Of(gib), Capacity: Of(2 * gib), Complete: s != 1,
				Members: []Member[int]{{Key: 1, Group: "ml/loop", Used: Of(gib)}},
			})
			if err != nil {
				return // the saved time was at the end of all time
			}
			checkVerdict(t, &j.Device)
			checkVerdict(t, &j.Residual)
			checkUnreleased(t, j)
			for i := range j.Members {
				checkVerdict(t, &j.Members[i].Verdict)
			}
			for i := range j.Groups {
				checkVerdict(t, &j.Groups[i].Verdict)
			}
		}
	})
}
