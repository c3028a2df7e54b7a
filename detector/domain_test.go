// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// The growth of a device is split among the processes that leak, and the one that does not has no part in it. Their pod is
// what they are together.
func TestGrowthIsSplit(t *testing.T) {
	d := newDomain(t)
	var j *Judgement[int]
	waited := false
	for s := range quiet + 3600 {
		members := []Member[int]{proc(0, gib+leaked(s-60)), proc(1, gib+leaked(s)/3), proc(2, gib)}
		for i := range members {
			members[i].Group = "ml/pod"
		}
		j = show(t, d, frame(s, gib, members...))
		g, a, b := &j.Groups[0].Verdict, &j.Members[0].Verdict, &j.Members[1].Verdict
		if g.Leak != (a.Leak || b.Leak) || g.Confidence != max(a.Confidence, b.Confidence) || g.Leak && g.Withheld != WithheldNone {
			t.Fatalf("second %d: the pod %+v of %+v and %+v", s, g, a, b)
		}
		waited = waited || g.Withheld != WithheldNone && g.WithheldFor == min(a.WithheldFor, b.WithheldFor)
	}
	for i, want := range []float64{0.75, 0.25} {
		if share := j.Members[i].Share; !share.OK || math.Abs(share.V-want) > 0.02 {
			t.Errorf("member %d has the share %+v, want %g", i, share, want)
		}
	}
	if m := j.Members[2]; m.Leak || m.Share.OK {
		t.Errorf("the one that does not grow: %+v", m)
	}
	g, a, b := &j.Groups[0].Verdict, &j.Members[0].Verdict, &j.Members[1].Verdict
	if !waited || g.Rate.V != a.Rate.V+b.Rate.V || g.Leaked.V != a.Leaked.V+b.Leaked.V || g.Since != min(a.Since, b.Since) || g.Pattern != a.Pattern || g.SecondsToOOM != j.Device.SecondsToOOM {
		t.Errorf("the pod has waited %t, %+v of %+v and %+v", waited, g, a, b)
	}
}

func TestJobThatArrivesIsNoLeakOfTheGPU(t *testing.T) {
	d := newDomain(t)
	for s := range 7200 {
		var jobs []Member[int]
		for job := range s / 300 { // one more every five minutes
			jobs = append(jobs, proc(job, 2*gib))
		}
		if j := show(t, d, frame(s, 512*mib, jobs...)); j.Device.Leak || j.Residual.Leak {
			t.Fatalf("second %d: %d jobs make the GPU leak", s, len(jobs))
		}
	}
}

// A GPU whose sum grows though nothing on it leaks yet is what grows most of it: one that grows has
// not stopped.
func TestPatternOfAGPUThatGrows(t *testing.T) {
	d, grows := newDomain(t), 0
	for s := range 3600 {
		members := []Member[int]{proc(1, 40*gib)}
		if s >= 1800 {
			m := proc(2, gib+2*mib*float64(s-1800)) // from its start on: it may fill a cache
			m.Started = second(1800)
			members = append(members, m)
		}
		j := show(t, d, frame(s, 512*mib, members...))
		if s < 2400 || j.Device.Leak {
			continue
		}
		if grows++; j.Device.Pattern != PatternWarmup || j.Members[1].Pattern != PatternWarmup {
			t.Fatalf("second %d: %s, its process %s", s, j.Device.Pattern, j.Members[1].Pattern)
		}
	}
	if grows == 0 {
		t.Error("nothing grows: the test shows nothing")
	}
}

func TestGroupWithAnUnknownMemberHasNoSum(t *testing.T) {
	d := newDomain(t)
	for s := range 1000 {
		known := s%100 != 99
		f := frame(s, 38*gib, Member[int]{Key: 1, Group: "pod", Used: Of(gib)}, Member[int]{Key: 2, Group: "pod", Used: Of(gib)})
		f.Complete, f.Members[1].Used.OK = false, known
		j := show(t, d, f)
		if (len(j.Groups) == 1) != known || known && j.Groups[0].Used != 2*gib {
			t.Fatalf("second %d: groups %+v", s, j.Groups)
		}
		if known && j.Groups[0].Judged && j.Groups[0].Pattern != PatternStable {
			t.Fatalf("second %d: a constant pod is %s", s, j.Groups[0].Pattern)
		}
	}
}

// Processes that end in one frame have the order of their last list, each time.
func TestEndsHaveAnOrder(t *testing.T) {
	for range 20 {
		d := newDomain(t)
		for s := range 2 {
			show(t, d, frame(s, 0, proc(4, gib), proc(2, gib), proc(3, gib), proc(1, gib)))
		}
		var keys []int
		for _, e := range show(t, d, frame(2, 0)).Exited {
			keys = append(keys, e.Key)
		}
		if !slices.Equal(keys, []int{4, 2, 3, 1}) {
			t.Fatalf("%v", keys)
		}
	}
}

// An exit that an incomplete list leaves open for minutes is judged by the moment when the process was
// last seen.
func TestExitNearCapacity(t *testing.T) {
	d := newDomain(t)
	observe(t, d, 0, 0, map[int]float64{1: 79 * gib})
	if j := observe(t, d, 1, 0, nil); len(j.Exited) != 1 || !j.Exited[0].NearCapacity || j.Exited[0].Used != Of(79*gib) {
		t.Errorf("exited %+v", j.Exited)
	}

	d, told := newDomain(t), 0
	for s := range 1000 {
		f := frame(s, gib, proc(1, 78*gib))
		if s >= 100 {
			f = frame(s, gib)
		}
		f.Complete = false
		for _, e := range show(t, d, f).Exited {
			told += btoi(e.NearCapacity)
		}
	}
	testkit.Equal(t, told, 1, "exits near the capacity")
}

// A process may die at a peak between two frames. It did not if another one has made room since.
func TestExitAfterAPeak(t *testing.T) {
	for _, c := range []struct {
		name   string
		second int // of the peak: the end is missed at 100
		first  int // second at which the other one is missed; it has 20 GiB
		frees  int // seconds that the driver takes for it
		near   []int
	}{
		{"a moment before", 70, 200, 0, []int{1}},
		{"too long before", 38, 200, 0, nil},
		{"the other one died of it", 70, 75, 0, []int{2}},
		{"which takes the driver long", 70, 75, 5, []int{2}},
		{"both died of it", 98, 100, 0, []int{1, 2}},
		{"after the end of the other one", 90, 75, 0, []int{1}},
	} {
		d := newDomain(t)
		var near []int
		for s := range 110 {
			f := frame(s, 0)
			if s < 100 {
				f.Members = append(f.Members, proc(1, 50*gib))
			}
			if s < c.first {
				f.Members = append(f.Members, proc(2, 20*gib))
			}
			used := 50 * gib
			if s == c.second || s > c.first && s <= c.first+c.frees {
				used = 78 * gib
			}
			f.Used = Of(float64(used))
			for _, e := range show(t, d, f).Exited {
				if e.NearCapacity {
					near = append(near, e.Key)
				}
			}
		}
		slices.Sort(near)
		testkit.Equal(t, near, c.near, "%s: who died near the capacity", c.name)
	}
}

// The crest is that of the last hour, and begins anew when a member ends that held a tenth of it.
func TestHeadroomIsBelowTheCrest(t *testing.T) {
	for _, c := range []struct {
		minutes    int // from the peak of 50 GiB on
		held, want float64
	}{{59, 1, 30}, {61, 1, 40}, {1, 4.5, 30}, {1, 5.5, 40}} {
		d := newDomain(t)
		observe(t, d, 0, (50-c.held)*gib, map[int]float64{1: c.held * gib})
		var j *Judgement[int]
		for minute := 1; minute <= c.minutes; minute++ {
			j = observe(t, d, 60*minute, 40*gib, nil)
		}
		testkit.Equal(t, j.Headroom, Of(c.want*gib), "headroom %d minutes after the end of %g of 50 GiB", c.minutes, c.held)
	}
}

// What a driver frees within 10 s, or three frames, of the end of a process is no part of the crest: a minute later
// all that is free is headroom.
func TestHeadroomWhileMemoryIsFreed(t *testing.T) {
	const big, end = 60 * gib, 600
	for _, step := range []int{1, 5, 15} {
		for takes := range 5 { // frames
			if takes*step >= max(10, 3*step) {
				break
			}
			d := newDomain(t)
			for s := 0; s <= end+60; s += step {
				f := frame(s, gib, proc(1, 10*gib), proc(2, big))
				if s >= end {
					f = frame(s, gib+big*share(float64(takes-(s-end)/step)/float64(takes+1)), proc(1, 10*gib))
				}
				if j := show(t, d, f); s >= end+60 && j.Headroom.V != 69*gib {
					t.Errorf("a frame each %d s, freed within %d more: headroom of %g GiB, 69 are free", step, takes, j.Headroom.V/gib)
				}
			}
		}
	}
}

// For a while, what leaked still does where lists cannot be read: a list that is missing, and one whose
// processes are known, but not their memory.
func TestUnreadableListKeepsTheVerdict(t *testing.T) {
	const broken = quiet + 1800
	for _, members := range [][]Member[int]{nil, {{Key: 1}, {Key: 2}}} {
		d := newDomain(t)
		var j *Judgement[int]
		for s := range broken {
			j = observe(t, d, s, 0, map[int]float64{1: round(10*gib + leaked(s)), 2: gib})
		}
		before := j.Device
		for s := broken; s < broken+800; s++ {
			f := frame(s, round(11*gib+leaked(s)), members...)
			f.Complete = false
			if j = show(t, d, f); s >= broken+10 {
				continue
			}
			if !j.Device.Leak || !j.Attributed || j.Device.Confidence != before.Confidence || len(j.Exited) > 0 {
				t.Fatalf("second %d: %+v", s, j)
			}
			near(t, "time to out-of-memory", j.Device.SecondsToOOM.V, before.SecondsToOOM.V, 0.02)
		}
		if j.Attributed || j.Residual.Judged {
			t.Error("after 13 minutes without a list the device is still judged through it")
		}
	}
}

// Where the list is never complete, a leak that others hide by shrinking is one all the same, and says
// when.
func TestLeakThatOthersHide(t *testing.T) {
	d := newDomain(t)
	var j *Judgement[int]
	for s := range quiet + 3600 {
		f := frame(s, 0, proc(1, 10*gib+leaked(s)), proc(2, 20*gib-leaked(s)))
		f.Used, f.Complete = Of(40*gib), false
		j = show(t, d, f)
	}
	if m := j.Members[0]; !m.Leak || !j.Device.Leak || math.IsInf(m.SecondsToOOM.V, 0) || m.SecondsToOOM != j.Device.SecondsToOOM || m.Share.V != 1 {
		t.Errorf("member %+v, device %+v", m, j.Device)
	}
}

// Without a list the raw series is judged, and without a capacity, of which nothing is none, nobody
// knows when it is used up.
func TestWithoutListAndCapacity(t *testing.T) {
	for _, capacity := range []Value{{}, Of(0)} {
		for _, listed := range []bool{false, true} {
			d := newDomain(t)
			var j *Judgement[int]
			for s := range quiet + 3600 {
				f := frame(s, 0, proc(1, 2*gib+leaked(s)))
				f.Capacity = capacity
				if !listed {
					f.Members, f.Complete = nil, false
				}
				if j = show(t, d, f); j.Headroom.OK || j.Device.SecondsToOOM.OK || j.Evidence != EvidenceNone {
					t.Fatalf("second %d: %+v", s, j.Device)
				}
			}
			if !j.Device.Leak || j.Attributed != listed {
				t.Errorf("capacity %v, listed %t: %+v", capacity, listed, j.Device)
			}
		}
	}
}

func TestAbsentIsNotZero(t *testing.T) {
	d := newDomain(t)
	for s := range 1200 {
		observe(t, d, s, 0, map[int]float64{1: 10 * gib})
	}
	for i, bad := range []Value{{}, Of(math.NaN()), Of(math.Inf(1)), Of(-1), Of(math.MaxUint64), Of(MaxBytes * 1.01)} {
		f := frame(1200+i, 0, Member[int]{Key: 1, Used: bad})
		f.Used, f.Capacity = bad, bad
		if j := show(t, d, f); j.Device != (Verdict{}) || j.Members[0].Verdict != (Verdict{}) || j.Headroom.OK {
			t.Errorf("%v is taken for a measurement", bad)
		}
	}
	j := observe(t, d, 1300, 0, map[int]float64{1: 10 * gib})
	if f := j.Members[0].Windows[0]; f.Slope.V != 0 || j.Device.Leak || f.N < 450 {
		t.Errorf("after the gap: %+v", f)
	}
}

func TestTimeMustIncrease(t *testing.T) {
	d := newDomain(t)
	observe(t, d, 10, 0, map[int]float64{1: gib})
	for _, s := range []int{10, 9, -1_770_000_001} {
		if err := d.Observe(frame(s, 0)); !errors.Is(err, ErrTime) {
			t.Errorf("second %d after 10: error %v", s, err)
		}
	}
	if j := observe(t, d, 11, 0, map[int]float64{1: gib}); len(j.Exited) != 0 || j.Members[0].Windows[0].N != 2 {
		t.Errorf("a refused frame changed something: %+v", j)
	}
	d.Reset(ReasonClockStep)
	if j := observe(t, d, 0, 0, map[int]float64{1: gib}); j.Members[0].Windows[0].N != 1 || j.Resets[ReasonClockStep] != 1 {
		t.Errorf("after a reset: %+v", j)
	}
}

// The same series at another time, or on another base, has the same verdict, as long as it is as far
// from idle and from full.
func TestVerdictDoesNotDependOnOrigin(t *testing.T) {
	run := func(shift time.Duration, base float64) (all []Verdict) {
		d := newDomain(t)
		rng := rand.New(rand.NewPCG(11, 12))
		for s := range quiet + 3000 {
			used := base + 20*gib + leaked(s) + float64(rng.IntN(50))*2*mib
			v := show(t, d, &Frame[int]{T: second(s) + shift, Used: Of(used), Capacity: Of(base + 200*gib)}).Device
			if v.Trough.OK {
				v.Trough.V -= base
			}
			if v.Leak {
				v.Since -= shift
			}
			v.Windows = [MaxWindows]Fit{} // their sums are rounded
			all = append(all, v)
		}
		return all
	}
	want := run(0, 0)
	for _, got := range [][]Verdict{run(987654321987*time.Nanosecond, 0), run(0, 1000*gib)} {
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("second %d: %+v, want %+v", i, got[i], want[i])
			}
		}
	}
	if !want[len(want)-1].Leak {
		t.Error("the series does not leak: the test shows little")
	}
}

// Beyond the bounds nothing is judged, but all is summed up. Who is listed twice counts once.
func TestManyMembersAreBounded(t *testing.T) {
	d := newDomain(t)
	f := frame(0, 0)
	f.Used = Of(80 * gib)
	for i := range 3000 {
		m := Member[int]{Key: i, Group: string(rune('a' + i)), Used: Of(mib)}
		if i >= 1000 && i < 1100 {
			m.Group = "a" // over the bound of members
		}
		f.Members = append(f.Members, m)
	}
	if j := show(t, d, f); len(d.members) != MaxMembers || len(d.groups) != MaxGroups || len(j.Members) != 3000 {
		t.Fatalf("%d members, %d groups, %d verdicts", len(d.members), len(d.groups), len(j.Members))
	}
	testkit.Equal(t, d.groups[groupName{Name: "a"}].frame.sum, 101*mib, "sum of a group beyond the bound")
	testkit.Equal(t, d.residual.Used, 80*gib-3000*mib, "residual, with the members beyond the bound in the sum")

	d = newDomain(t)
	f = frame(0, 11*gib, proc(1, 10*gib))
	f.Members = append(f.Members, f.Members[0])
	show(t, d, f)
	testkit.Equal(t, d.residual.Used, 11*gib, "residual of who is listed twice")
}

func TestConfigIsChecked(t *testing.T) {
	none := DefaultConfig()
	none.Windows = nil
	if _, err := NewDomain(func(Subject[int]) Config { return none }); err == nil {
		t.Error("no window is accepted")
	}
	// One that cannot hold for a member leaves it to that of the device.
	d := newDomainOf(t, func(s Subject[int]) Config {
		c := DefaultConfig()
		if s.Kind == KindMember {
			c.Windows = make([]time.Duration, 2*MaxWindows)
		}
		return c
	})
	if j := observe(t, d, 1, 0, map[int]float64{1: gib}); j.Members[0].Windows[0].N != 1 || len(d.members[1].Windows) != 2 {
		t.Errorf("member %+v", j.Members[0])
	}
}

// Processes come one after the other, compute for three minutes, and then hold 512 MiB and compute no
// more. Where none of them ends the memory leaks, and their pod, though no process does.
func TestWhatRests(t *testing.T) {
	for _, c := range []struct {
		name  string
		every int   // seconds between two that come
		stays int   // seconds for which each stays; 0 to the end
		sm    Value // of those that rest
		want  bool
	}{
		{"children that nobody reaps", 240, 0, Of(0), true},
		{"they work", 240, 0, Of(0.2), false},
		{"it is not known whether they work", 240, 0, Value{}, false},
		{"they end after half an hour", 240, 1800, Of(0), false},
		{"a few that stay", 4 * 3600, 0, Of(0), false},
	} {
		d, device := newDomain(t), toggles(nil)
		for s := 0; s < 5*3600; s += 10 {
			var members []Member[int]
			for n := range 1 + s/c.every {
				age := s - n*c.every
				if c.stays > 0 && age >= c.stays {
					continue
				}
				m := Member[int]{Key: n, Group: "ml/pool", Used: Of(512 * mib), Started: second(n * c.every), SM: Of(0.5), State: StateAlive}
				if age > 180 {
					m.SM = c.sm
				}
				members = append(members, m)
			}
			j := show(t, d, frame(s, gib, members...))
			device.note(s, j.Device.Leak)
			if len(j.Groups) > 0 && j.Groups[0].Leak != j.Device.Leak {
				t.Fatalf("%s: second %d: the pod %+v, the GPU %+v", c.name, s, j.Groups[0].Verdict, j.Device)
			}
			for i := range j.Members {
				if j.Members[i].Leak {
					t.Fatalf("%s: second %d: process %d leaks", c.name, s, j.Members[i].Key)
				}
			}
		}
		if c.want && (len(device) != 1 || device[0] > 2*3600) || !c.want && len(device) > 0 {
			t.Errorf("%s: a leak from and to %v", c.name, device)
		}
	}
}

// TestTroughs draws a leak under a sawtooth of a minute, from its beginning on.
func TestTroughs(t *testing.T) {
	const hours = 3
	d := newDomain(t)
	for s := range hours * 3600 {
		tooth := float64(s%60) * 40 * mib
		observe(t, d, s, gib, map[int]float64{7: 4*gib + leaked(s)/4 + tooth})
	}
	for _, of := range []Subject[int]{{Kind: KindDevice}, {Kind: KindMember, Key: 7}} {
		for _, back := range []time.Duration{20 * time.Minute, time.Hour, hours * time.Hour} {
			since := second(hours*3600) - back
			list := d.Troughs(nil, of, since)
			if len(list) < 3 || len(list) > 100 || list[0].At < since || list[0].At > since+back/4 {
				t.Fatalf("%+v: %d troughs for %s, the first at %s", of, len(list), back, list[0].At-since)
			}
			for i, p := range list[1:] {
				if p.At <= list[i].At {
					t.Fatalf("%+v: not in order: %v", of, list)
				}
			}
		}
	}
	// The last ones tell what stays, and not where the tooth is.
	list := d.Troughs(nil, Subject[int]{Kind: KindMember, Key: 7}, start)
	last := list[len(list)-1]
	at := int((last.At - start) / time.Second)
	if held := 4*gib + leaked(at)/4; float64(last.V) > held+gib/4 {
		t.Errorf("the last trough is %.2f GiB, and %.2f GiB had leaked", float64(last.V)/gib, held/gib)
	}
	for _, of := range []Subject[int]{{Kind: KindMember, Key: 8}, {Kind: KindGroup, Group: "x"}, {Kind: KindResidual}} {
		if list := d.Troughs(nil, of, start); len(list) > 0 {
			t.Errorf("%+v has %v", of, list)
		}
	}
	if list := newDomain(t).Troughs(nil, Subject[int]{}, start); list != nil {
		t.Errorf("nothing was seen, and there is %v", list)
	}
}
