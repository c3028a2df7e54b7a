// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// lists are frames of up to nine processes, of which a list may lack some.
type lists struct {
	step   int                        // seconds between frames; 1 if 0
	held   func(key, s int) float64   // what a process holds, listed or not; 0 if it is none
	lacks  func(key, s int) bool      // the list lacks it
	group  func(key int) string       // none if nil
	change func(f *Frame[int], s int) // of the frame; none if nil
}

func (l *lists) frame(s int) *Frame[int] {
	f := &Frame[int]{T: seconds2026(s), Used: Of(gib), Capacity: Of(80 * gib), Complete: true}
	for key := 1; key < 10; key++ {
		held := l.held(key, s)
		f.Used.V += held
		if held == 0 || l.lacks(key, s) {
			continue
		}
		m := Member[int]{Key: key, Used: Of(held), Started: start - time.Hour}
		if l.group != nil {
			m.Group = l.group(key)
		}
		f.Members = append(f.Members, m)
	}
	if l.change != nil {
		l.change(f, s)
	}
	return f
}

// run gives the frames of so many seconds to a domain and returns the exits, "600:1" being that
// of process 1 in second 600.
func (l *lists) run(t *testing.T, d *Domain[int], seconds int, look func(s int, j *Judgement[int])) string {
	t.Helper()
	var exits []string
	for s := 0; s < seconds; s += max(l.step, 1) {
		if err := d.Observe(l.frame(s)); err != nil {
			t.Fatal(err)
		}
		j := d.Judgement()
		for _, e := range j.Exited {
			exits = append(exits, fmt.Sprintf("%d:%d", s, e.Key))
		}
		if look != nil {
			look(s, j)
		}
	}
	return strings.Join(exits, " ")
}

// lives says what processes of 8, 4, 2 GiB and so on hold, each until its second.
func lives(until ...int) func(key, s int) float64 {
	return func(key, s int) float64 {
		if key > len(until) || s >= until[key-1] {
			return 0
		}
		return 16 * gib / float64(int(1)<<key)
	}
}

// away says that a process is not in the list from one second to another.
func away(from, to int, keys ...int) func(key, s int) bool {
	return func(key, s int) bool { return s >= from && s < to && slices.Contains(keys, key) }
}

func both(a, b func(key, s int) bool) func(key, s int) bool {
	return func(key, s int) bool { return a(key, s) || b(key, s) }
}

func never(int, int) bool { return false }

// A leak is found when it would be, though lists lack its process now and then, and stays.
func TestLeakOfAProcessThatIsMissingNowAndThen(t *testing.T) {
	every := func(each, frames int) func(key, s int) bool {
		return func(key, s int) bool { return key == 1 && s%each >= each-frames }
	}
	want := 0
	for _, c := range []struct {
		name  string
		lacks func(key, s int) bool
	}{
		{"never", never},
		{"a frame of 50", every(50, 1)},
		{"two frames of 97", every(97, 2)},
		{"eight frames of 301", every(301, 8)},
	} {
		l := lists{lacks: c.lacks, held: func(key, s int) float64 {
			return [...]float64{0, round(10*gib + leaked(s)), 20 * gib, 9: 0}[key]
		}}
		var device, member []int
		exits := l.run(t, newDomain(t), quiet+3000, func(s int, j *Judgement[int]) {
			if j.Device.Leak == (len(device)%2 == 0) {
				device = append(device, s)
			}
			if m := j.Members[0]; m.Key == 1 && m.Leak == (len(member)%2 == 0) {
				member = append(member, s)
			}
			if j.Residual.Leak || j.Residual.SpikesTotal > 0 {
				t.Fatalf("%s: second %d: the residual %+v", c.name, s, j.Residual)
			}
		})
		if want == 0 && len(device) > 0 {
			want = device[0]
		}
		if exits != "" || len(device) != 1 || len(member) != 1 || device[0] < want || device[0] > want+15 || member[0] < device[0] || member[0] > device[0]+2 {
			t.Errorf("%s: the GPU's verdict changed at %v, the process's at %v, want %d; exits %q", c.name, device, member, want, exits)
		}
	}
}

// When the end of a process is told.
func TestEndOfAProcessThatIsMissing(t *testing.T) {
	const ever = 3000
	pod := func(key int) string { return fmt.Sprint("ml/pod-", key%2) }
	for name, c := range map[string]struct {
		lists
		want string
	}{
		"its memory is free at once":             {lists{held: lives(gone, ever), lacks: never}, "600:1"},
		"its memory is free 3 s later":           {lists{held: lives(gone+3, ever), lacks: away(gone, ever, 1)}, "603:1"},
		"its memory stays":                       {lists{held: lives(ever, ever), lacks: away(gone, ever, 1)}, "610:1"},
		"its memory stays, every 5 s":            {lists{held: lives(ever, ever), lacks: away(gone, ever, 1), step: 5}, "615:1"},
		"its memory stays, every minute":         {lists{held: lives(ever, ever), lacks: away(gone, ever, 1), step: 60}, "780:1"},
		"it is back in time":                     {lists{held: lives(ever, ever), lacks: away(gone, gone+10, 1)}, ""},
		"it is back too late":                    {lists{held: lives(ever, ever), lacks: away(gone, gone+11, 1)}, "610:1"},
		"back too late, and gone":                {lists{held: lives(900, ever), lacks: away(gone, gone+11, 1)}, "610:1 900:1"},
		"two missing, both are back":             {lists{held: lives(ever, ever), lacks: away(gone, gone+2, 1, 2)}, ""},
		"all missing":                            {lists{held: lives(ever, ever, ever, ever), lacks: away(gone, gone+2, 1, 2, 3, 4)}, ""},
		"two missing, the large one is gone":     {lists{held: lives(gone+1, ever), lacks: away(gone, gone+5, 1, 2)}, "601:1"},
		"two missing, the first is back before":  {lists{held: lives(ever, ever), lacks: both(away(gone, gone+2, 1), away(gone, gone+4, 2))}, ""},
		"two missing, the second is back before": {lists{held: lives(ever, ever), lacks: both(away(gone, gone+4, 1), away(gone, gone+2, 2))}, ""},
		"one after the other, both for a while":  {lists{held: lives(ever, ever), lacks: both(away(gone, gone+5, 1), away(gone+2, gone+8, 2))}, ""},
		"one is missing as another is back":      {lists{held: lives(ever, ever), lacks: both(away(gone, gone+2, 1), away(gone+2, gone+4, 2))}, ""},
		"one is gone as another is back":         {lists{held: lives(ever, gone+2), lacks: away(gone, gone+2, 1)}, "602:2"},
		"another comes, and it is back":          {lists{held: comer(3), lacks: away(gone, gone+4, 1), group: pod}, ""},
		"the same, in the other order": {lists{held: comer(3), lacks: away(gone, gone+4, 1), group: pod, change: func(f *Frame[int], _ int) {
			slices.Reverse(f.Members)
		}}, ""},
		"another is listed twice": {lists{held: lives(ever, ever), lacks: away(gone, gone+2, 1), change: func(f *Frame[int], _ int) {
			f.Members = append(f.Members, f.Members[len(f.Members)-1])
		}}, ""},
		"two missing, the small one is gone":                {lists{held: lives(ever, gone+1), lacks: away(gone, gone+5, 1, 2)}, "601:2"},
		"one missing as another ends, that is listed first": {lists{held: lives(gone, ever), lacks: away(gone, gone+5, 2)}, "600:1"},
		"one missing as a larger one ends": {lists{held: lives(ever, gone), lacks: away(gone, gone+5, 1), change: func(f *Frame[int], _ int) {
			slices.Reverse(f.Members)
		}}, "600:2"},
		"one missing as another ends":        {lists{held: lives(ever, gone), lacks: away(gone, gone+5, 1)}, "600:2"},
		"another comes to its pod":           {lists{held: comer(3), lacks: away(gone, ever, 1), group: pod}, "604:1"},
		"another comes to another pod":       {lists{held: comer(4), lacks: away(gone, ever, 1), group: pod}, "610:1"},
		"another comes, and there is no pod": {lists{held: comer(3), lacks: away(gone, ever, 1)}, "610:1"},
		"the list is not complete": {lists{held: lives(ever, ever), lacks: away(gone, gone+300, 1), change: func(f *Frame[int], s int) {
			f.Complete = s < gone || s >= gone+300
		}}, ""},
		"the used memory is not known": {lists{held: lives(ever, ever), lacks: away(gone, ever, 1), change: func(f *Frame[int], s int) {
			f.Used.OK = s != gone
		}}, "600:1"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDomain(t)
			if got := c.run(t, d, 1200, nil); got != c.want || len(d.missing) > 0 {
				t.Errorf("exits %q, want %q; %d are missing", got, c.want, len(d.missing))
			}
		})
	}
}

// comer has a process come 4 s after the first one was missing.
func comer(key int) func(k, s int) float64 {
	return func(k, s int) float64 {
		if k <= 2 || k == key && s >= gone+4 {
			return gib
		}
		return 0
	}
}

// What stays of a process is told as ever, though its end is told later.
func TestUnreleasedOfAProcessThatWasWaitedFor(t *testing.T) {
	l := lists{held: lives(3000, 3000), lacks: away(gone, 3000, 1)}
	at := -1
	l.run(t, newDomain(t), 1200, func(s int, j *Judgement[int]) {
		if at < 0 && stays(j) == "1:8" {
			at = s
		}
	})
	if at != gone+60 {
		t.Errorf("unreleased from second %d on", at)
	}
}

// The sum of a pod has no hole where a list lacks one of it, nor has the residual a spike.
func TestSumWithoutAMissingMember(t *testing.T) {
	l := lists{
		held: lives(9999, 9999), group: func(int) string { return "ml/pod" },
		lacks: func(key, s int) bool { return key == 1 && s%50 == 49 },
	}
	l.run(t, newDomain(t), 2000, func(s int, j *Judgement[int]) {
		if len(j.Groups) != btoi(s%50 != 49) {
			t.Fatalf("second %d: groups %+v", s, j.Groups)
		}
		for _, g := range j.Groups {
			if g.Used != 12*gib || g.SpikesTotal > 0 || g.Judged && g.Pattern != PatternStable {
				t.Fatalf("second %d: %+v", s, g)
			}
		}
		if j.Residual.SpikesTotal > 0 || j.Residual.Judged && j.Residual.Pattern != PatternStable {
			t.Fatalf("second %d: the residual %+v", s, j.Residual)
		}
	})
}

// A process that leaks and is gone while its memory stays leaks no longer than it is waited for.
func TestLeakOfAProcessThatDoesNotComeBack(t *testing.T) {
	const last = quiet + 1800
	l := lists{lacks: away(last, 9999, 1), held: func(key, s int) float64 {
		return [...]float64{0, round(10*gib + leaked(min(s, last))), 20 * gib, 9: 0}[key]
	}}
	var changes []int
	exits := l.run(t, newDomain(t), last+900, func(s int, j *Judgement[int]) {
		if j.Device.Leak == (len(changes)%2 == 0) {
			changes = append(changes, s)
		}
	})
	if exits != fmt.Sprintf("%d:1", last+10) || len(changes) != 2 || changes[1] != last+10 {
		t.Errorf("exits %q, the verdict changed at %v", exits, changes)
	}
}

// Whoever is missing when the state is saved, the same frames give the same verdicts.
func TestMissingMembersAreRestored(t *testing.T) {
	l := lists{
		held: func(key, s int) float64 {
			return [...]float64{0, round(10*gib + leaked(s)), 4 * gib, 2 * gib * float64(btoi(s < 1703)), 9: 0}[key]
		},
		group: func(key int) string { return fmt.Sprint("ml/pod-", key%2) },
		lacks: func(key, s int) bool {
			return key == 1 && s%50 >= 48 || key == 2 && s%75 >= 71 || key == 3 && s >= 1699
		},
	}
	run := func(restores func(s int) bool) (all []string) {
		d, missing := newDomain(t), 0
		for s := range quiet + 1200 {
			j, err := look(d, l.frame(s))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, fmt.Sprintf("%+v", *j))
			if restores(s) {
				missing += len(d.missing)
				d = restored(t, d)
			}
		}
		if restores(49) && missing < 20 {
			t.Errorf("%d were missing at a restore: the test shows little", missing)
		}
		return all
	}
	want := run(func(int) bool { return false })
	for _, each := range []int{1, 2, 24} {
		got := run(func(s int) bool { return s%each == 0 })
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("restored each %d s, frame %d differs:\n%s\nwant\n%s", each, i, got[i], want[i])
			}
		}
	}
	if !strings.Contains(want[quiet+1149], "Leak:true") {
		t.Error("no leak: the test shows little")
	}
}

// Of more that are missing than are waited for, the first ones have ended; each end is told once.
func TestMissingMembersAreBounded(t *testing.T) {
	d, f := newDomain(t), Frame[int]{Used: Of(60 * gib), Capacity: Of(80 * gib), Complete: true}
	exited := map[int]int{}
	for s := range 600 {
		f.T, f.Members = seconds2026(s), f.Members[:0]
		for key := range 100 * btoi(s != 300) {
			f.Members = append(f.Members, Member[int]{Key: key, Used: Of(512 * mib)})
		}
		j, err := look(d, &f)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range j.Exited {
			exited[e.Key]++
		}
		if len(d.missing) > maxMissing {
			t.Fatalf("%d are missing", len(d.missing))
		}
	}
	for key, m := range d.members {
		if waited := key >= 100-maxMissing; waited != (exited[key] == 0) || waited != (m.samples == 599) || exited[key] > 1 {
			t.Fatalf("process %d exited %d times and has %d samples", key, exited[key], m.samples)
		}
	}
}

// After a reset nobody is missing.
func TestResetWhileOneIsMissing(t *testing.T) {
	l := lists{held: lives(9999, 9999), lacks: away(gone-1, 9999, 1)}
	d := newDomain(t)
	l.run(t, d, gone, nil)
	if len(d.missing) != 1 {
		t.Fatal("nobody is missing: the test shows nothing")
	}
	d.Reset(ReasonDeviceReset)
	l.lacks = away(0, 9999, 1)
	if exits := l.run(t, d, 60, nil); exits != "" || len(d.missing) > 0 || d.residual.used != 9*gib {
		t.Errorf("exits %q, %d are missing, residual %d", exits, len(d.missing), d.residual.used)
	}
}

// To wait for a process costs no allocation.
func TestMissingMembersAllocateNothing(t *testing.T) {
	d, s := newDomain(t), 0
	l := lists{held: lives(1<<30, 1<<30, 1<<30), lacks: func(key, s int) bool { return key < 3 && s%10 >= 8 }}
	var frames [10]Frame[int]
	for i := range frames {
		frames[i] = *l.frame(i)
	}
	step := func() {
		f := &frames[s%10]
		f.T = seconds2026(s)
		if err := d.Observe(f); err != nil {
			t.Fatal(err)
		}
		d.Judgement()
		s++
	}
	for range 700 {
		step()
	}
	if n := testing.AllocsPerRun(2000, step); n != 0 {
		t.Errorf("%g allocations a frame", n)
	}
}

// The order of a list says nothing.
func TestMissingInAnyOrder(t *testing.T) {
	l := lists{
		held: lives(1000, 9999, 1100, 9999, 1050), group: func(key int) string { return fmt.Sprint("ml/pod-", key%2) },
		lacks: both(away(400, 403, 1, 2, 4), both(away(600, 602, 3, 5), away(990, 9999, 1))),
	}
	run := func(turned bool) (all []Judgement[int]) {
		d := newDomain(t)
		for s := range 1300 {
			f := l.frame(s)
			if turned {
				slices.Reverse(f.Members)
			}
			j, err := look(d, f)
			if err != nil {
				t.Fatal(err)
			}
			out := *j
			out.Members, out.Groups, out.Unreleased = nil, slices.Clone(j.Groups), nil
			out.Exited = slices.Clone(j.Exited)
			slices.SortFunc(out.Exited, func(a, b Exit[int]) int { return a.Key - b.Key })
			all = append(all, out)
		}
		return all
	}
	want, got := run(false), run(true)
	for s := range want {
		if !reflect.DeepEqual(got[s], want[s]) {
			t.Fatalf("second %d: %+v, want %+v", s, got[s], want[s])
		}
	}
}

// The leak of a pool, of which no process shows it, stays though lists lack one of it.
func TestLeakOfAPoolThatMissesAMember(t *testing.T) {
	d, changes := newDomain(t), []int(nil)
	for s := range quiet + 3000 {
		f := Frame[int]{T: seconds2026(s), Used: Of(gib), Capacity: Of(80 * gib), Complete: true}
		for w := range 3 {
			used := round(gib + leaked(s)/3)
			f.Used.V += used
			if s%50 < 49 || w > 0 { // workers that are made anew every 5 minutes
				f.Members = append(f.Members, Member[int]{Key: 3*(s/300) + w, Group: "ml/pool", Used: Of(used), Started: seconds2026(s / 300 * 300)})
			}
		}
		j, err := look(d, &f)
		if err != nil {
			t.Fatal(err)
		}
		if j.Device.Leak == (len(changes)%2 == 0) {
			changes = append(changes, s)
		}
		if leak := len(changes)%2 == 1; leak && j.Device.Confidence < DefaultConfig().ClearThreshold {
			t.Fatalf("second %d: the GPU leaks with the confidence %g", s, j.Device.Confidence)
		}
	}
	if len(changes) != 1 {
		t.Errorf("the GPU's verdict changed at %v", changes)
	}
}

// Who leaks and is missing leaks also where the next list cannot be read.
func TestLeakOfAMissingProcessWithoutAList(t *testing.T) {
	l := lists{
		held:  func(key, s int) float64 { return [...]float64{0, round(10*gib + leaked(s)), 20 * gib, 9: 0}[key] },
		lacks: func(key, s int) bool { return key == 1 && s%50 >= 45 },
		change: func(f *Frame[int], s int) {
			if f.Complete = s%50 < 47; !f.Complete {
				f.Members = nil
			}
		},
	}
	l.run(t, newDomain(t), quiet+2000, func(s int, j *Judgement[int]) {
		if s > quiet+1000 && !j.Device.Leak {
			t.Fatalf("second %d: the GPU %+v", s, j.Device)
		}
	})
}

// A process of a crash loop that leaks by itself counts once, also while it is missing.
func TestCrashLoopIsNotCountedTwiceWhileMissing(t *testing.T) {
	for _, bare := range []bool{false, true} {
		d, both := newDomain(t), 0
		f := Frame[int]{Capacity: Of(18.9 * gib), Complete: true}
		for s := range 4 * 2400 {
			n := min(s/2400, 3)
			f.T, f.Used, f.Members = seconds2026(s), Of(round(4*gib+6*mib*float64(s-2400*n))), f.Members[:0]
			if s%50 > 0 || s%2400 == 0 {
				f.Members = append(f.Members, Member[int]{Key: n, Group: "ml/loop", Used: f.Used, Started: seconds2026(2400 * n)})
				if bare {
					f.Members[0].Group, f.Members[0].Program = "", "loop.py"
				}
			}
			j, err := look(d, &f)
			if err != nil {
				t.Fatal(err)
			}
			if len(d.missing) > 0 && d.missing[0].leak.on && d.groups[d.missing[0].group].looping() {
				both++
				near(t, "rate", j.Device.Rate.V, 6*mib, 0.1)
			}
		}
		if both < 3 {
			t.Errorf("a process of the loop that leaks is missing in only %d frames", both)
		}
	}
}

// The rules for who is missing hold when it is back, and its name stays known.
func TestReconfigureWhileOneIsMissing(t *testing.T) {
	mute := false
	d, err := NewDomain(func(s Subject[int]) Config {
		cfg := DefaultConfig()
		cfg.Mute = mute && s.Kind == KindMember && s.Key == 1 && s.Group == "ml/pod"
		return cfg
	})
	if err != nil {
		t.Fatal(err)
	}
	l := lists{
		held:  func(key, _ int) float64 { return [...]float64{0, 32 * mib, 20 * gib, 9: 0}[key] },
		lacks: away(599, 602, 1), group: func(int) string { return "ml/pod" },
	}
	l.run(t, d, 900, func(s int, j *Judgement[int]) {
		if !d.Knows(1) {
			t.Fatalf("second %d: the process is not known", s)
		}
		if s == 600 {
			mute = true
			d.Reconfigure()
		}
		if s >= 602 && !j.Members[0].Muted {
			t.Fatalf("second %d: not muted", s)
		}
	})
}

// A program between two of its processes keeps its rules: those of nobody else hold for it.
func TestReconfigureBetweenTwoLives(t *testing.T) {
	p := filling(80*gib, 10*gib, 900)
	p.bare, p.lives, p.step, p.pause = true, 5, 4, constant(100)
	var d *Domain[int]
	d, err := NewDomain(func(s Subject[int]) Config {
		cfg := DefaultConfig()
		if s.Kind == KindMember && d != nil && d.Knows(s.Key) {
			cfg.LeakThreshold = 0.95 // of who is known by its name
		}
		return cfg
	})
	if err != nil {
		t.Fatal(err)
	}
	all := p.run(t, d, func(second int, d *Domain[int]) *Domain[int] {
		if second%1000 == 960 {
			d.Reconfigure()
		}
		return d
	})
	if len(all.lives) > 0 {
		t.Errorf("the verdict changed in the lives %v", all.lives)
	}
}

// A state in which a process is missing that holds what nobody can is refused.
func TestRestoreRefusesWhatNobodyHolds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *member)
		ok     bool
	}{
		"nothing changed":           {func(*member) {}, true},
		"less than nothing":         {func(m *member) { m.used = Of(-1 << 60) }, false},
		"more than there can be":    {func(m *member) { m.used = Of(1 << 60) }, false},
		"nobody knows how much":     {func(m *member) { m.used.OK = false }, false},
		"left less than nothing":    {func(m *member) { m.room = Of(-1) }, false},
		"left more than there is":   {func(m *member) { m.room = Of(2 * MaxBytes) }, false},
		"nobody knows what it left": {func(m *member) { m.room = Value{} }, true},
	} {
		d := newDomain(t)
		(&lists{held: lives(9999, 9999), lacks: away(99, 9999, 1)}).run(t, d, 100, nil)
		c.change(d.missing[0].member)
		if err := newDomain(t).Restore(d.Save(nil, appendKey), readKey); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
