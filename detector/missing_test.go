// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
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
	f := frame(s, gib)
	for key := 1; key < 10; key++ {
		held := l.held(key, s)
		f.Used.V += held
		if held == 0 || l.lacks(key, s) {
			continue
		}
		m := proc(key, held)
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

// run gives the frames of so many seconds to a domain and returns the exits, "600:1" being that of
// process 1 in second 600.
func (l *lists) run(t *testing.T, d *Domain[int], seconds int, look func(s int, j *Judgement[int])) string {
	t.Helper()
	var exits []string
	for s := 0; s < seconds; s += max(l.step, 1) {
		j := show(t, d, l.frame(s))
		for _, e := range j.Exited {
			exits = append(exits, fmt.Sprintf("%d:%d", s, e.Key))
		}
		if look != nil {
			look(s, j)
		}
	}
	return strings.Join(exits, " ")
}

// living says what processes of 8, 4, 2 GiB and so on hold, each until its second.
func living(until ...int) func(key, s int) float64 {
	return func(key, s int) float64 {
		if key > len(until) || s >= until[key-1] {
			return 0
		}
		return 16 * gib / float64(int(1)<<key)
	}
}

// leaks says what a process holds that leaks until a second, and one that does not.
func leaks(until int) func(key, s int) float64 {
	return func(key, s int) float64 {
		return [...]float64{0, round(10*gib + leaked(min(s, until))), 20 * gib, 9: 0}[key]
	}
}

// comer has a process come 4 s after the first one was missing.
func comer(key int) func(k, s int) float64 {
	return func(k, s int) float64 { return gib * float64(btoi(k <= 2 || k == key && s >= gone+4)) }
}

// away says that a process is not in the list from one second to another.
func away(from, to int, keys ...int) func(key, s int) bool {
	return func(key, s int) bool { return s >= from && s < to && slices.Contains(keys, key) }
}

func both(a, b func(key, s int) bool) func(key, s int) bool {
	return func(key, s int) bool { return a(key, s) || b(key, s) }
}

// A leak is found when it would be, though lists lack its process now and then, and stays.
func TestLeakOfAProcessThatIsMissingNowAndThen(t *testing.T) {
	want := 0
	for _, c := range []struct{ each, frames int }{{1000, 0}, {50, 1}, {97, 2}, {301, 8}} {
		l := lists{lacks: func(key, s int) bool { return key == 1 && s%c.each >= c.each-c.frames }, held: leaks(ever)}
		var device, member toggles
		exits := l.run(t, newDomain(t), quiet+3000, func(s int, j *Judgement[int]) {
			device.note(s, j.Device.Leak)
			if m := j.Members[0]; m.Key == 1 {
				member.note(s, m.Leak)
			}
			if j.Residual.Leak || j.Residual.SpikesTotal > 0 {
				t.Fatalf("%+v: second %d: the residual %+v", c, s, j.Residual)
			}
		})
		if exits != "" || len(device) != 1 || len(member) != 1 || member[0] < device[0] || member[0] > device[0]+c.frames {
			t.Fatalf("%+v: the GPU's verdict changed at %v, the process's at %v; exits %q", c, device, member, exits)
		}
		if want == 0 {
			want = device[0]
		}
		if device[0] < want-15 || device[0] > want+15 {
			t.Errorf("%+v: found at %d s, without a miss at %d s", c, device[0], want)
		}
	}
}

// When the end of a process is told.
func TestEndOfAProcessThatIsMissing(t *testing.T) {
	pod := func(key int) string { return fmt.Sprint("ml/pod-", key%2) }
	turned := func(f *Frame[int], _ int) { slices.Reverse(f.Members) }
	two := living(ever, ever)
	for name, c := range map[string]struct {
		lists
		want string
	}{
		"its memory is free at once":             {lists{held: living(gone, ever), lacks: away(0, 0)}, "600:1"},
		"its memory is free 3 s later":           {lists{held: living(gone+3, ever), lacks: away(gone, ever, 1)}, "603:1"},
		"its memory stays":                       {lists{held: two, lacks: away(gone, ever, 1)}, "610:1"},
		"its memory stays, every 5 s":            {lists{held: two, lacks: away(gone, ever, 1), step: 5}, "615:1"},
		"its memory stays, every minute":         {lists{held: two, lacks: away(gone, ever, 1), step: 60}, "780:1"},
		"it is back in time":                     {lists{held: two, lacks: away(gone, gone+10, 1)}, ""},
		"it is back too late":                    {lists{held: two, lacks: away(gone, gone+11, 1)}, "610:1"},
		"back too late, and gone":                {lists{held: living(900, ever), lacks: away(gone, gone+11, 1)}, "610:1 900:1"},
		"two missing, both are back":             {lists{held: two, lacks: away(gone, gone+2, 1, 2)}, ""},
		"all missing":                            {lists{held: living(ever, ever, ever, ever), lacks: away(gone, gone+2, 1, 2, 3, 4)}, ""},
		"two missing, the large one is gone":     {lists{held: living(gone+1, ever), lacks: away(gone, gone+5, 1, 2)}, "601:1"},
		"two missing, the small one is gone":     {lists{held: living(ever, gone+1), lacks: away(gone, gone+5, 1, 2)}, "601:2"},
		"two missing, the first is back before":  {lists{held: two, lacks: both(away(gone, gone+2, 1), away(gone, gone+4, 2))}, ""},
		"two missing, the second is back before": {lists{held: two, lacks: both(away(gone, gone+4, 1), away(gone, gone+2, 2))}, ""},
		"one after the other, both for a while":  {lists{held: two, lacks: both(away(gone, gone+5, 1), away(gone+2, gone+8, 2))}, ""},
		"one is missing as another is back":      {lists{held: two, lacks: both(away(gone, gone+2, 1), away(gone+2, gone+4, 2))}, ""},
		"one is gone as another is back":         {lists{held: living(ever, gone+2), lacks: away(gone, gone+2, 1)}, "602:2"},
		"one missing as another ends":            {lists{held: living(ever, gone), lacks: away(gone, gone+5, 1)}, "600:2"},
		"one missing as a larger one ends":       {lists{held: living(gone, ever), lacks: away(gone, gone+5, 2)}, "600:1"},
		"one missing as another ends, turned":    {lists{held: living(ever, gone), lacks: away(gone, gone+5, 1), change: turned}, "600:2"},
		"another comes, and it is back":          {lists{held: comer(3), lacks: away(gone, gone+4, 1), group: pod}, ""},
		"another comes, and it is back, turned":  {lists{held: comer(3), lacks: away(gone, gone+4, 1), group: pod, change: turned}, ""},
		"another comes to its pod":               {lists{held: comer(3), lacks: away(gone, ever, 1), group: pod}, "604:1"},
		"another comes to another pod":           {lists{held: comer(4), lacks: away(gone, ever, 1), group: pod}, "610:1"},
		"another comes, and there is no pod":     {lists{held: comer(3), lacks: away(gone, ever, 1)}, "610:1"},
		"another is listed twice": {lists{held: two, lacks: away(gone, gone+2, 1), change: func(f *Frame[int], _ int) {
			f.Members = append(f.Members, f.Members[len(f.Members)-1])
		}}, ""},
		"the list is not complete": {lists{held: two, lacks: away(gone, gone+300, 1), change: func(f *Frame[int], s int) {
			f.Complete = s < gone || s >= gone+300
		}}, ""},
		"the used memory is not known": {lists{held: two, lacks: away(gone, ever, 1), change: func(f *Frame[int], s int) {
			f.Used.OK = s != gone
		}}, "600:1"},
	} {
		d := newDomain(t)
		if got := c.run(t, d, 1200, nil); got != c.want || len(d.missing) > 0 {
			t.Errorf("%s: exits %q, want %q; %d are missing", name, got, c.want, len(d.missing))
		}
	}
}

// What stays of a process is told as ever, though its end is told later.
func TestUnreleasedOfAProcessThatWasWaitedFor(t *testing.T) {
	l, at := lists{held: living(ever, ever), lacks: away(gone, ever, 1)}, -1
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
		held: living(ever, ever), group: func(int) string { return "ml/pod" },
		lacks: func(key, s int) bool { return key == 1 && s%50 == 49 },
	}
	l.run(t, newDomain(t), 2000, func(s int, j *Judgement[int]) {
		if len(j.Groups) != btoi(s%50 != 49) {
			t.Fatalf("second %d: groups %+v", s, j.Groups)
		}
		for _, g := range append(j.Groups, GroupVerdict{Used: 12 * gib, Verdict: j.Residual}) {
			if g.Used != 12*gib || g.SpikesTotal > 0 || g.Judged && g.Pattern != PatternStable {
				t.Fatalf("second %d: %+v", s, g)
			}
		}
	})
}

// A process that leaks and is gone while its memory stays leaks no longer than it is waited for.
func TestLeakOfAProcessThatDoesNotComeBack(t *testing.T) {
	const last = quiet + 1800
	l := lists{lacks: away(last, ever, 1), held: leaks(last)}
	var device toggles
	exits := l.run(t, newDomain(t), last+900, func(s int, j *Judgement[int]) { device.note(s, j.Device.Leak) })
	if exits != fmt.Sprintf("%d:1", last+10) || len(device) != 2 || device[1] != last+10 {
		t.Errorf("exits %q, the verdict changed at %v", exits, device)
	}
}

// Who leaks and is missing leaks also where the next list cannot be read.
func TestLeakOfAMissingProcessWithoutAList(t *testing.T) {
	l := lists{
		held:  leaks(ever),
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

// The leak of a pool, of which no process shows it, stays though lists lack one of it.
func TestLeakOfAPoolThatMissesAMember(t *testing.T) {
	d := newDomain(t)
	var device toggles
	for s := range quiet + 3000 {
		f := frame(s, gib, shortWorkers(s)...)
		if s%50 == 49 {
			f.Members = f.Members[1:]
		}
		j := show(t, d, f)
		if device.note(s, j.Device.Leak); device.on() && j.Device.Confidence < DefaultConfig().ClearThreshold {
			t.Fatalf("second %d: the GPU leaks with the confidence %g", s, j.Device.Confidence)
		}
	}
	if len(device) != 1 {
		t.Errorf("the GPU's verdict changed at %v", device)
	}
}

// Of more that are missing than are waited for, the first ones have ended; each end is told once.
func TestMissingMembersAreBounded(t *testing.T) {
	d, exited := newDomain(t), map[int]int{}
	for s := range 600 {
		f := frame(s, 10*gib)
		for key := range 100 {
			if f.Used.V += 512 * mib; s != 300 {
				f.Members = append(f.Members, proc(key, 512*mib))
			}
		}
		for _, e := range show(t, d, f).Exited {
			exited[e.Key]++
		}
		if len(d.missing) > maxMissing {
			t.Fatalf("%d are missing", len(d.missing))
		}
	}
	for key, m := range d.members {
		if waited := key >= 100-maxMissing; waited != (exited[key] == 0) || waited != (m.Samples == 599) || exited[key] > 1 {
			t.Fatalf("process %d exited %d times and has %d samples", key, exited[key], m.Samples)
		}
	}
}

// After a reset nobody is missing.
func TestResetWhileOneIsMissing(t *testing.T) {
	l, d := lists{held: living(ever, ever), lacks: away(gone-1, ever, 1)}, newDomain(t)
	l.run(t, d, gone, nil)
	if len(d.missing) != 1 {
		t.Fatal("nobody is missing: the test shows nothing")
	}
	d.Reset(ReasonDeviceReset)
	l.lacks = away(0, ever, 1)
	if exits := l.run(t, d, 60, nil); exits != "" || len(d.missing) > 0 || d.residual.Used != 9*gib {
		t.Errorf("exits %q, %d are missing, residual %d", exits, len(d.missing), d.residual.Used)
	}
}

// The order of a list says nothing.
func TestMissingInAnyOrder(t *testing.T) {
	l := lists{
		held: living(1000, ever, 1100, ever, 1050), group: func(key int) string { return fmt.Sprint("ml/pod-", key%2) },
		lacks: both(away(400, 403, 1, 2, 4), both(away(600, 602, 3, 5), away(990, ever, 1))),
	}
	run := func(turned bool) (all []Judgement[int]) {
		d := newDomain(t)
		for s := range 1300 {
			f := l.frame(s)
			if turned {
				slices.Reverse(f.Members)
			}
			out := *show(t, d, f)
			out.Members, out.Groups, out.Unreleased = nil, slices.Clone(out.Groups), nil
			out.Exited = slices.Clone(out.Exited)
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

// The rules for who is missing hold when it is back, and its name stays known.
func TestReconfigureWhileOneIsMissing(t *testing.T) {
	mute := false
	d := newDomainOf(t, func(s Subject[int]) Config {
		cfg := DefaultConfig()
		cfg.Mute = mute && s.Kind == KindMember && s.Key == 1 && s.Group == "ml/pod"
		return cfg
	})
	l := lists{held: living(ever, ever), lacks: away(599, 602, 1), group: func(int) string { return "ml/pod" }}
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
