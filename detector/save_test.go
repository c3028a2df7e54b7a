// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// anyone is known.
func anyone(int) bool { return true }

// listed shows a frame of members, the first one of key 1, and rest that is nobody's. Who holds nothing
// is not in it.
func listed(t testing.TB, d *Domain[int], s int, rest float64, members ...float64) *Judgement[int] {
	t.Helper()
	var all []Member[int]
	for i, used := range members {
		if used > 0 {
			all = append(all, proc(i+1, used))
		}
	}
	return show(t, d, frame(s, rest, all...))
}

// busy is second s of five processes of a pod: the first one is an orphan that rests, the second one
// leaks from second 900 on, the third one swings, the fourth one is noise, and the fifth one is in
// pieces, as its allocator tells. From second 1800 on the last two are gone, and what they held stays.
func busy(s int, rng *rand.Rand) *Frame[int] {
	f := &Frame[int]{T: second(s), Used: Of(gib), Capacity: Of(6.5 * gib), Complete: true}
	for k := range 5 {
		used := float64(gib)
		switch k {
		case 1:
			used += math.Floor(float64(max(0, s-900))/4) * 2 * mib
		case 2:
			used += float64(s%60) * 10 * mib
		case 3:
			used += float64(rng.IntN(64)) * 2 * mib
		}
		f.Used.V += used
		f.Members = append(f.Members, Member[int]{
			Key: k, Group: "pod", Used: Of(used), Started: start - time.Hour, SM: Of(0.5), CPU: Of(100), State: StateOrphaned,
		})
	}
	f.Members[0].SM = Of(0)
	f.Members[4].Reserved, f.Members[4].Allocated, f.Members[4].Split = Of(gib), Of(gib/2), Of(gib/3)
	if s > 1800 {
		f.Members = f.Members[:3]
	}
	return f
}

// wild is second s, or later, of processes of a pod whose memory shows all that a series follows, up to the most that there can be.
func wild(s int, rng *rand.Rand) *Frame[int] {
	at := s + s/397*900 // with gaps
	f := &Frame[int]{T: second(at), Used: Of(MaxBytes), Capacity: Of(MaxBytes), Complete: s%100 > 3}
	for k, used := range []float64{
		2*gib + 6*leaked(at),
		2*gib + 6*leaked(at) + float64(at%60)*100*mib,
		2*gib + 6*leaked(min(at, 3200)),
		2*gib + float64(at%700)*10*mib,
		20*gib + 8*gib*math.Sin(float64(at)/300) + float64(rng.IntN(100))*mib,
		2*gib + float64(max(0, 7-at%200))*gib,
		rng.Float64() * MaxBytes,
		float64(at/900%2) * MaxBytes,
	} {
		f.Members = append(f.Members, Member[int]{
			Key: k, Group: "pod", Used: Of(used), Started: start - time.Hour, SM: Of(float64(at / 700 % 2)), CPU: Of(float64(at)), State: StateAlive,
		})
	}
	return f
}

// judged is what is told of each frame by a domain that is saved and restored after some, and how often a leak was on then.
func judged(t *testing.T, frame func(s int, rng *rand.Rand) *Frame[int], restore func(s int) bool) (all []string, leaking int) {
	t.Helper()
	d, rng := newDomain(t), rand.New(rand.NewPCG(17, 18))
	for s := range 2500 {
		j := show(t, d, frame(s, rng))
		all = append(all, fmt.Sprintf("%+v", *j))
		if !restore(s) {
			continue
		}
		if j.Device.Leak {
			leaking++
		}
		d = saveAndRestore(t, d)
	}
	return all, leaking
}

// A domain that is saved and restored anywhere goes on as if it had never been away, and nothing that it can come to is refused.
func TestRestoredDomainGivesTheSameVerdicts(t *testing.T) {
	for _, c := range []struct {
		frame func(s int, rng *rand.Rand) *Frame[int]
		shows []string
	}{
		{busy, []string{"Leak:true", "Pattern:zombie", "Pattern:unreleased", "Pattern:fragmentation", "Unreleased:[{Key:3 Used:1.0"}},
		{wild, []string{"Leak:true", "Pattern:sawtooth", "Pattern:spikes", "Pattern:step"}},
	} {
		want, _ := judged(t, c.frame, func(int) bool { return false })
		leaking := 0
		for name, restore := range map[string]func(s int) bool{
			"each time for a while": func(s int) bool { return s >= 1700 && s < 1900 },
			"now and then":          func(s int) bool { return s%37 == 0 },
			"seldom":                func(s int) bool { return s%700 == 0 },
		} {
			got, n := judged(t, c.frame, restore)
			leaking += n
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("restored %s, frame %d differs:\n%s\nwant\n%s", name, i, got[i], want[i])
				}
			}
		}
		if leaking < 100 {
			t.Errorf("a leak is on at only %d restores: the test shows little", leaking)
		}
		for _, part := range c.shows {
			if !strings.Contains(strings.Join(want, "\n"), part) {
				t.Errorf("%s is nowhere: the test shows little", part)
			}
		}
	}
}

func TestRestoreLeavesUnknownMembersOut(t *testing.T) {
	d := newDomain(t)
	for s := range 100 {
		members := []float64{gib, gib, gib, gib}
		if s > 95 {
			members = members[:2]
		}
		listed(t, d, s, float64(4-len(members))*gib, members...)
	}
	if len(d.exits.List) != 2 {
		t.Fatalf("%d exits", len(d.exits.List))
	}
	saved := d.Save(nil)
	must(t, d.Restore(saved, func(k int) bool { return k%2 == 0 }))
	if len(d.members) != 1 || d.members[2] == nil || d.used == nil {
		t.Errorf("members %v", d.members)
	}
	if len(d.exits.List) != 1 || d.exits.List[0].Key != 4 {
		t.Errorf("exits %v", d.exits.List)
	}
}

func TestRestoreWithOtherWindows(t *testing.T) {
	d := newDomain(t)
	for s := range 100 {
		listed(t, d, s, 0, gib)
	}
	other := DefaultConfig()
	other.Windows = []time.Duration{5 * time.Minute, 10 * time.Minute, 2 * time.Hour}
	e := newDomainOf(t, func(Subject[int]) Config { return other })
	must(t, e.Restore(d.Save(nil), anyone))
	for i, want := range []int64{0, 100, 0} {
		if f := e.used.Windows[i].Fit(); f.N != want || f.Span != other.Windows[i] {
			t.Errorf("window %d: %+v, want %d samples", i, f, want)
		}
	}
}

// grown is a domain of one process that has grown for 400 s.
func grown(t *testing.T) *Domain[int] {
	d := newDomain(t)
	for s := range 400 {
		listed(t, d, s, 0, float64(s)*mib*10)
	}
	return d
}

// What is not its own is refused and leaves no history, and so is what would make later code panic, loop or allocate without end.
func TestRestoreRefuses(t *testing.T) {
	saved := grown(t).Save(nil)
	spoilt := func(spoil func(d *Domain[int], s *series.Series)) []byte {
		d := grown(t)
		spoil(d, d.members[1].Series)
		return d.Save(nil)
	}
	for name, b := range map[string][]byte{
		"empty":               nil,
		"other version":       append([]byte{99}, saved[1:]...),
		"cut":                 saved[:len(saved)/2],
		"something else":      []byte("\x01hello, world, this is text"),
		"longer":              append(slices.Clip(saved), 0),
		"frames":              spoilt(func(d *Domain[int], _ *series.Series) { d.past.Frames = -1 }),
		"at the end of time":  spoilt(func(d *Domain[int], _ *series.Series) { d.past.Last = math.MaxInt64 / 2 }),
		"no residual":         spoilt(func(d *Domain[int], _ *series.Series) { d.residual = nil }),
		"one part of two":     spoilt(func(d *Domain[int], s *series.Series) { d.members[1].Live = s }),
		"residuals":           spoilt(func(d *Domain[int], _ *series.Series) { d.exits.Recent = make([]stat.Bytes, 10) }),
		"after the last":      spoilt(func(d *Domain[int], _ *series.Series) { d.members[1].Last++ }),
		"no width":            spoilt(func(_ *Domain[int], s *series.Series) { s.Scales[2].Width = 0 }),
		"a trough below zero": spoilt(func(_ *Domain[int], s *series.Series) { s.Scales[1].Troughs.Push(stat.Point{V: -1}) }),
		"scale":               spoilt(func(_ *Domain[int], s *series.Series) { s.Leak.Best = 7 }),
		"steps":               spoilt(func(_ *Domain[int], s *series.Series) { s.Steps.Taken = make([]series.Step, 5) }),
		"windows": spoilt(func(_ *Domain[int], s *series.Series) {
			s.Windows = append(s.Windows, s.Windows[0], s.Windows[0], s.Windows[0])
		}),
		"a loop of no life": spoilt(func(d *Domain[int], _ *series.Series) {
			d.groups[groupName{Name: "pod"}] = &group[int]{Loop: crashLoop{Proven: true}}
		}),
	} {
		d := grown(t)
		if err := d.Restore(b, anyone); err == nil {
			t.Errorf("%s is accepted", name)
		}
		if d.used != nil || len(d.members) != 0 || d.past != (past{}) {
			t.Errorf("%s leaves a history", name)
		}
	}
}

// A head and a member that take as much as can be are restored, and one that takes more is refused before it takes memory.
func TestRestoreIsBounded(t *testing.T) {
	rng := rand.New(rand.NewPCG(25, 26))
	cfg := DefaultConfig()
	cfg.Windows = []time.Duration{time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour}
	domain := func() *Domain[int] { return newDomainOf(t, func(Subject[int]) Config { return cfg }) }
	d := domain()
	for i := range 8000 {
		m := proc(1, 0)
		m.Used, m.Reserved, m.Allocated, m.SM = Of(rng.Float64()*MaxBytes), Of(rng.Float64()*MaxBytes), Of(rng.Float64()*MaxBytes), Of(rng.Float64())
		at := second(30*i) + time.Duration(rng.IntN(1e9))
		show(t, d, &Frame[int]{T: at, Used: Of(rng.Float64() * MaxBytes), Capacity: Of(MaxBytes), Complete: true, Members: []Member[int]{m}})
	}
	for _, e := range d.members[1].Scales {
		if e.Troughs.Len() < stat.MaxPoints {
			t.Errorf("%d troughs: the test shows little", e.Troughs.Len())
		}
	}
	most := len(d.Save(nil)) - mostValue // both together
	if err := domain().Restore(d.Save(nil), anyone); err != nil || most > 0 {
		t.Errorf("%v, %d bytes more than one value can take", err, most)
	}
	d.members[1].Windows = make([]stat.Window, 200_000)
	saved := d.Save(nil)
	d.members[1].Windows = nil
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := domain().Restore(saved, anyone)
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; err == nil || took > 8 {
		t.Errorf("%v, it took %d MiB", err, took)
	}
}

// corpus are states to begin with.
func corpus(f *testing.F) {
	d := newDomain(f)
	for s := range 60 {
		listed(f, d, s, 0, float64(s)*mib*10)
	}
	f.Add(d.Save(nil))
	for s := 60; s < 200; s++ { // what process 2 held stays, and 3 has just ended
		members := []float64{gib, gib, gib}
		if s >= 100 {
			members[1] = 0
		}
		if s >= 197 {
			members[2] = 0
		}
		listed(f, d, s, 3*gib-members[0]-members[1]-members[2], members...)
	}
	f.Add(d.Save(nil))
	f.Add([]byte{stateVersion})
	d = newDomain(f)
	for s := 0; s < 2400; s += 5 { // a leak that is on
		listed(f, d, s, 0, 2*gib+6*mib*float64(max(0, s-1200)))
	}
	if !d.members[1].Leaks() {
		f.Fatal("no leak in the corpus")
	}
	f.Add(d.Save(nil))
}

// FuzzRestore: whatever a state file holds, it is refused or gives a domain that goes on without a
// panic or a NaN.
func FuzzRestore(f *testing.F) {
	corpus(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newDomain(t)
		if err := d.Restore(b, anyone); err != nil {
			return
		}
		last := d.past.Last
		for s := range 50 {
			used := gib + float64(s%7)*64*mib
			if err := d.Observe(&Frame[int]{
				T: last + time.Duration(s+1)*10*time.Second, Used: Of(used), Capacity: Of(2 * gib), Complete: s%9 != 1,
				Members: []Member[int]{{Key: s / 20, Group: "ml/loop", Used: Of(used), SM: Of(float64(s % 2))}},
			}); err != nil {
				t.Fatal(err)
			}
			j := d.Judgement()
			if text := fmt.Sprintf("%+v", *j); strings.Contains(text, "NaN") {
				t.Fatal(text)
			}
		}
	})
}
