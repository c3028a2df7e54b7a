// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func seconds2026(s int) time.Duration { return start + time.Duration(s)*time.Second }

// memory is one second of a memory: what each process holds, and what stands in
// no list.
type memory struct {
	members map[int]float64
	rest    float64
	broken  bool // the list cannot be read
}

// play gives a memory to a domain, every so many seconds, and returns for each
// frame what is unreleased, in GiB: "1:6" is 6 GiB of process 1.
func play(t *testing.T, d *Domain[int], from, to, step int, at func(s int) memory) (all []string) {
	t.Helper()
	for s := from; s < to; s += step {
		m := at(s)
		f := Frame[int]{T: seconds2026(s), Used: Of(m.rest), Capacity: Of(80 * gib), Complete: !m.broken}
		for key := range 100 {
			used, ok := m.members[key]
			if !ok {
				continue
			}
			f.Used.V += used
			in := Member[int]{Key: key, Used: Of(used), Started: start - time.Hour}
			if m.broken {
				in.Used = Value{}
			}
			f.Members = append(f.Members, in)
		}
		f.Used.V = max(0, f.Used.V)
		j, err := look(d, &f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, stays(j))
		for _, v := range []Verdict{j.Device, j.Residual} {
			if v.Judged && !v.Leak && (v.Pattern == PatternUnreleased) != (len(j.Unreleased) > 0) {
				t.Fatalf("second %d: pattern %q with %+v", s, v.Pattern, j.Unreleased)
			}
		}
	}
	return all
}

func stays(j *Judgement[int]) string {
	var b strings.Builder
	for _, u := range j.Unreleased {
		fmt.Fprintf(&b, " %d:%.3g", u.Key, u.Used/gib)
	}
	return strings.TrimPrefix(b.String(), " ")
}

// spans says when what was unreleased, in seconds: "660-2000 1:6".
func spans(all []string, step int) string {
	var b strings.Builder
	begin := 0
	for i := range all {
		if i+1 < len(all) && all[i+1] == all[i] {
			continue
		}
		if all[i] != "" {
			fmt.Fprintf(&b, ", %d-%d %s", begin*step, (i+1)*step, all[i])
		}
		begin = i + 1
	}
	return strings.TrimPrefix(b.String(), ", ")
}

const gone = 600 // the second in which a process is gone in these tests

func TestUnreleased(t *testing.T) {
	// two are a process of 8 GiB that ends, and one that goes on.
	two := func(s int) map[int]float64 {
		if s < gone {
			return map[int]float64{1: 8 * gib, 2: 20 * gib}
		}
		return map[int]float64{2: 20 * gib}
	}
	const rest = 512 * mib
	after := func(s int, left float64) float64 {
		if s < gone {
			return rest
		}
		return rest + left
	}
	for name, c := range map[string]struct {
		at   func(s int) memory
		want string
	}{
		"all of it stays":  {func(s int) memory { return memory{members: two(s), rest: after(s, 8*gib)} }, "660-3000 1:8"},
		"half of it stays": {func(s int) memory { return memory{members: two(s), rest: after(s, 4*gib)} }, "660-3000 1:4"},
		"it stays for a while": {func(s int) memory {
			return memory{members: two(s), rest: after(s, 8*gib*float64(btoi(s < 2000)))}
		}, "660-2001 1:8"},
		"it shrinks, and goes": {func(s int) memory {
			left := 8 * gib
			switch {
			case s >= 2000:
				left = 4 * gib
			case s >= 1000:
				left = 6 * gib
			}
			return memory{members: two(s), rest: after(s, float64(left))}
		}, "660-1001 1:8, 1001-2001 1:6"},
		"slowly freed, and yet not all": {func(s int) memory {
			return memory{members: two(s), rest: after(s, max(2*gib, 8*gib-float64(s-gone)*gib))}
		}, "660-3000 1:2"},
		"others come on top, and it goes": {func(s int) memory {
			m := memory{members: two(s), rest: after(s, 8*gib)}
			if s > 1000 {
				m.rest += 30 * gib
			}
			if s > 2000 {
				m.rest -= 8 * gib
			}
			return m
		}, "660-2002 1:8"},
		"two end at once": {func(s int) memory {
			m := memory{members: map[int]float64{1: 9 * gib, 2: 3 * gib, 3: gib}, rest: after(s, 8*gib)}
			if s >= gone {
				m.members = map[int]float64{3: gib}
			}
			return m
		}, "660-3000 1:6 2:2"},
		"two end, and stay, one after the other": {func(s int) memory {
			m := memory{members: map[int]float64{1: 9 * gib, 2: 3 * gib, 3: gib}, rest: after(s, 9*gib)}
			if s >= gone {
				delete(m.members, 1)
			}
			if s >= 1000 {
				delete(m.members, 2)
				m.rest += 3 * gib
			}
			if s >= 2000 {
				m.rest -= 9 * gib
			}
			return m
		}, "660-1060 1:9, 1060-2001 1:9 2:3, 2001-3000 2:3"},
		"the list is read a moment after the memory": {func(s int) memory {
			m := memory{members: two(s), rest: after(s, 8*gib)}
			if s%7 == 0 {
				m.rest -= 10 * gib // of which a process has let go in between
			}
			return m
		}, "660-3000 1:8"},

		"all is freed":           {func(s int) memory { return memory{members: two(s), rest: rest} }, ""},
		"it takes nine seconds":  {func(s int) memory { return memory{members: two(s), rest: after(s, max(0, 9-float64(s-gone))*gib)} }, ""},
		"it takes fifty seconds": {func(s int) memory { return memory{members: two(s), rest: after(s, max(0, 50-float64(s-gone))*gib)} }, ""},
		"less than is said":      {func(s int) memory { return memory{members: two(s), rest: after(s, 60*mib)} }, ""},
		"a small process": {func(s int) memory {
			return memory{members: map[int]float64{1 - btoi(s >= gone): 60 * mib}, rest: after(s, 60*mib)}
		}, ""},
		"another grows by as much":    {func(s int) memory { return memory{members: map[int]float64{1 + btoi(s >= gone): 8 * gib}, rest: rest} }, ""},
		"memory that nobody owns yet": {swap(3), ""},
		"and that takes a while":      {swap(40), ""},
		"memory that comes later, unlisted": {func(s int) memory {
			return memory{members: two(s), rest: rest + 8*gib*float64(btoi(s >= gone+120))}
		}, ""},
		"the list cannot be read at the exit": {func(s int) memory {
			m := memory{members: two(s), rest: after(s, 8*gib), broken: s >= gone-300 && s < gone+300}
			return m
		}, ""},
		"the list is never whole": {func(s int) memory { return memory{members: two(s), rest: after(s, 8*gib), broken: true} }, ""},
		"missing from one list": {func(s int) memory {
			m := memory{members: two(0), rest: rest}
			if s%50 == 49 {
				delete(m.members, 1)
				m.rest += 8 * gib
			}
			return m
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, step := range []int{1, 5, 15, 60} {
				got := spans(play(t, newDomain(t), 0, 3000, step, c.at), step)
				if step == 1 && got != c.want {
					t.Errorf("unreleased: %q, want %q", got, c.want)
				}
				if step > 1 && c.want == "" && got != "" {
					t.Errorf("every %d s: unreleased: %q", step, got)
				}
			}
		})
	}
	t.Run("memory that comes soon, unlisted", func(t *testing.T) {
		got := play(t, newDomain(t), 0, 3000, 1, func(s int) memory { return memory{members: two(s), rest: rest + 8*gib*float64(btoi(s >= gone+3))} })
		if spans(got, 1) != "" {
			t.Errorf("unreleased: %q", spans(got, 1))
		}
	})
	t.Run("seldom sampled", func(t *testing.T) {
		at := func(s int) memory { return memory{members: two(s), rest: after(s, 8*gib)} }
		for step, want := range map[int]string{15: "660-3000 1:8", 60: "720-3000 1:8"} {
			if got := spans(play(t, newDomain(t), 0, 3000, step, at), step); got != want {
				t.Errorf("every %d s: %q, want %q", step, got, want)
			}
		}
	})
}

// swap has a process of 8 GiB end and a new one of as much begin at once, which
// stands in the list after so many seconds.
func swap(listed int) func(s int) memory {
	return func(s int) memory {
		m := memory{members: map[int]float64{1: 8 * gib, 2: 20 * gib}, rest: 512 * mib}
		if s >= gone {
			m.members = map[int]float64{2: 20 * gib}
			m.rest += 8 * gib
		}
		if s >= gone+listed {
			m.members[3] = 8 * gib
			m.rest -= 8 * gib
		}
		return m
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Workers that come and go many times a second, each of which is still in the
// memory for a moment after it has left the list: nothing stays.
// What grows beside the processes is not what one of them left.
func TestUnreleasedBesideGrowth(t *testing.T) {
	d := newDomain(t)
	for s := 0; s < 7200; s += 15 {
		held := map[int]float64{2: gib}
		if s < 5400 {
			held[1] = 10 * gib
		}
		if j := observe(t, d, s, gib+float64(max(0, s-1800))*mib, held); len(j.Unreleased) > 0 {
			t.Fatalf("second %d: process %d is said to have left %.0f MiB", s, j.Unreleased[0].Key, j.Unreleased[0].Used/mib)
		}
	}
}

func TestUnreleasedChurn(t *testing.T) {
	d := newDomain(t)
	rng := rand.New(rand.NewPCG(31, 32))
	next := 0
	for s := range 3000 {
		f := Frame[int]{T: seconds2026(s), Used: Of(gib), Capacity: Of(80 * gib), Complete: true}
		next += 14
		for k := range 20 {
			f.Members = append(f.Members, Member[int]{Key: next + k, Used: Of(300 * mib)})
			f.Used.V += 300 * mib
		}
		if rng.IntN(10) < 5 {
			f.Used.V += 600 * mib // of two that have just ended
		}
		j, err := look(d, &f)
		if err != nil {
			t.Fatal(err)
		}
		if len(j.Unreleased) > 0 {
			t.Fatalf("second %d: %s", s, stays(j))
		}
	}
}

// Of a crowd that ends at once the largest are named.
func TestUnreleasedOfACrowd(t *testing.T) {
	all := play(t, newDomain(t), 0, 1000, 1, func(s int) memory {
		m := memory{members: map[int]float64{}, rest: 512 * mib}
		for key := range 40 {
			if used := float64(key+1) * 64 * mib; s < gone {
				m.members[key] = used
			} else {
				m.rest += used
			}
		}
		return m
	})
	if got, want := spans(all, 1), "660-1000 39:2.5 38:2.44 37:2.38 36:2.31 35:2.25 34:2.19 33:2.12 32:2.06"; got != want {
		t.Errorf("unreleased %q, want %q", got, want)
	}
}

// What stays of more processes than are named is that of the first ones.
func TestUnreleasedIsBounded(t *testing.T) {
	d := newDomain(t)
	at := func(s int) memory {
		m := memory{members: map[int]float64{}, rest: 512 * mib}
		for key := range 40 {
			if s < 100*(key+1) {
				m.members[key] = gib
			} else {
				m.rest += gib
			}
		}
		return m
	}
	all := play(t, d, 0, 4400, 1, at)
	if want := "0:1 1:1 2:1 3:1 4:1 5:1 6:1 7:1"; all[len(all)-1] != want {
		t.Errorf("unreleased %q, want %q", all[len(all)-1], want)
	}
}

func TestUnreleasedGoesWithAReset(t *testing.T) {
	at := func(s int) memory {
		if s < gone {
			return memory{members: map[int]float64{1: 8 * gib}}
		}
		return memory{rest: 8 * gib}
	}
	for name, act := range map[string]func(d *Domain[int]){
		"device reset": func(d *Domain[int]) { d.Reset(ReasonDeviceReset) },
		"repartition":  func(d *Domain[int]) { d.Reset(ReasonRepartition) },
	} {
		d := newDomain(t)
		if all := play(t, d, 0, 1000, 1, at); all[999] != "1:8" {
			t.Fatalf("unreleased %q", all[999])
		}
		act(d)
		if got := spans(play(t, d, 1000, 1500, 1, at), 1); got != "" || d.Knows(1) {
			t.Errorf("%s: %q stays", name, got)
		}
	}
}

// A list that fails for a while after memory has stayed leaves the verdict.
func TestUnreleasedWithoutList(t *testing.T) {
	d := newDomain(t)
	at := func(s int) memory {
		m := memory{rest: 8 * gib}
		if s < gone {
			m = memory{members: map[int]float64{1: 8 * gib}}
		}
		m.broken = s >= 1000 && s < 1300 || s >= 2000 && s < 2900
		return m
	}
	all := play(t, d, 0, 3500, 1, at)
	for s, want := range map[int]string{999: "1:8", 1299: "1:8", 1300: "1:8", 2500: "1:8", 2800: "", 2900: "1:8"} {
		if all[s] != want {
			t.Errorf("second %d: %q, want %q", s, all[s], want)
		}
	}
	if !d.Knows(1) || d.Knows(2) {
		t.Errorf("knows 1: %t, 2: %t", d.Knows(1), d.Knows(2))
	}
}

// A leak of memory that nobody owns is a leak, though some of it is known to be a
// dead process's.
func TestUnreleasedIsNoLeak(t *testing.T) {
	d := newDomain(t)
	var j *Judgement[int]
	for s := range quiet + 3000 {
		members := map[int]float64{}
		rest := round(2*gib + leaked(s))
		if s < gone {
			members[1] = 8 * gib
		} else {
			rest += 8 * gib
		}
		j = observe(t, d, s, rest, members)
	}
	if !j.Residual.Leak || !j.Residual.Pattern.leaks() || !j.Device.Pattern.leaks() || len(j.Unreleased) != 1 {
		t.Errorf("residual %q, device %q, %+v", j.Residual.Pattern, j.Device.Pattern, j.Unreleased)
	}
	if u := j.Unreleased[0]; math.Abs(u.Used-8*gib) > 64*mib || u.Since != seconds2026(gone) {
		t.Errorf("%+v", u)
	}
}

// TestLeakOfNobodyIsNotLeftBehind ends a process while memory that belongs to none leaks: what comes by
// that is not blamed on the dead, and what they leave behind is told all the same.
func TestLeakOfNobodyIsNotLeftBehind(t *testing.T) {
	for _, left := range []float64{0, gib} {
		d := newDomain(t)
		const end, step = quiet + 2*3600, 30
		for s := 0; s < end+600; s += step {
			rest, members := gib+float64(max(0, s-quiet))*2*mib, map[int]float64{1: 4 * gib}
			if s >= end {
				rest, members = rest+left, nil
			}
			j := observe(t, d, s, rest, members)
			if s == end-step && !j.Residual.Leak {
				t.Fatal("nothing leaks: the test shows little")
			}
			if s < end+5*step {
				continue
			}
			if left == 0 && len(j.Unreleased) > 0 {
				t.Fatalf("%d s after the end: %+v", s-end, j.Unreleased)
			}
			if left > 0 && (len(j.Unreleased) != 1 || math.Abs(j.Unreleased[0].Used-left) > 0.1*gib) {
				t.Fatalf("%d s after the end: %+v", s-end, j.Unreleased)
			}
		}
	}
}
