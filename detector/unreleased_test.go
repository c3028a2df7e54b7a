// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

const (
	gone = 600 // the second in which a process is gone in these tests
	ever = 1 << 30
)

// memory is one second of a memory: what each process holds, and what stands in no list.
type memory struct {
	members map[int]float64
	rest    float64
	broken  bool // the list cannot be read
}

// play gives a memory to a domain, every so many seconds, and returns for each frame what is
// unreleased, in GiB: "1:6" is 6 GiB of process 1.
func play(t *testing.T, d *Domain[int], from, to, step int, at func(s int) memory) (all []string) {
	t.Helper()
	for s := from; s < to; s += step {
		m := at(s)
		var members []Member[int]
		for key := range 100 {
			if used, ok := m.members[key]; ok {
				members = append(members, proc(key, used))
			}
		}
		f := frame(s, m.rest, members...)
		f.Used.V, f.Complete = max(0, f.Used.V), !m.broken
		for i := range members {
			f.Members[i].Used.OK = !m.broken
		}
		j := show(t, d, f)
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

// all is a memory of a process of 8 GiB that ends, and stays in use, and of one that goes on.
func all(s int) memory {
	if s < gone {
		return memory{members: map[int]float64{1: 8 * gib, 2: 20 * gib}, rest: 512 * mib}
	}
	return memory{members: map[int]float64{2: 20 * gib}, rest: 512*mib + 8*gib}
}

// swap has a process of 8 GiB end and a new one of as much begin at once, which stands in the list after
// so many seconds.
func swap(listed int) func(s int) memory {
	return func(s int) memory {
		m := all(s)
		if s >= gone+listed {
			m.members[3] = 8 * gib
			m.rest -= 8 * gib
		}
		return m
	}
}

func TestUnreleased(t *testing.T) {
	with := func(at func(s int) memory, change func(m *memory, s int)) func(s int) memory {
		return func(s int) memory {
			m := at(s)
			change(&m, s)
			return m
		}
	}
	for name, c := range map[string]struct {
		at   func(s int) memory
		want string
	}{
		"all of it stays": {all, "660-3000 1:8"},
		"another grows by as much": {func(s int) memory {
			return memory{members: map[int]float64{1 + btoi(s >= gone): 8 * gib}, rest: 512 * mib}
		}, ""},
		"memory that nobody owns yet":         {swap(3), ""},
		"and that takes a while":              {swap(40), ""},
		"the list cannot be read at the exit": {with(all, func(m *memory, s int) { m.broken = s >= gone-300 && s < gone+300 }), ""},
		"the list is never whole":             {with(all, func(m *memory, _ int) { m.broken = true }), ""},
		"missing from one list": {func(s int) memory {
			m := all(0)
			if s%50 == 49 {
				delete(m.members, 1)
				m.rest += 8 * gib
			}
			return m
		}, ""},
	} {
		for _, step := range []int{1, 5, 15, 60} {
			got := spans(play(t, newDomain(t), 0, 3000, step, c.at), step)
			if step == 1 && got != c.want || step > 1 && c.want == "" && got != "" {
				t.Errorf("%s, every %d s: unreleased: %q, want %q", name, step, got, c.want)
			}
		}
	}
}

// What grows beside the processes is not what one of them left, whether it is known to leak or not; and
// what they leave behind is told all the same.
func TestUnreleasedBesideGrowth(t *testing.T) {
	for _, c := range []struct {
		step         int
		rate, leaves float64 // MiB/s and GiB
	}{{15, 1, 0}, {30, 2, 0}, {30, 2, 1}} {
		const end = quiet + 2*3600
		at := func(s int) memory {
			m := memory{members: map[int]float64{2: gib}, rest: gib + c.rate*leaked(s)}
			if s < end {
				m.members[1] = 8 * gib
			} else {
				m.rest += c.leaves * gib
			}
			return m
		}
		all := play(t, newDomain(t), 0, end+900, c.step, at)
		for i := (end + 150) / c.step; i < len(all); i++ {
			told, left := 0, 0.0
			if all[i] != "" {
				if _, err := fmt.Sscanf(all[i], "%d:%g", &told, &left); err != nil {
					t.Fatal(err)
				}
			}
			if math.Abs(left-c.leaves) > 0.1 || (told == 1) != (c.leaves > 0) {
				t.Fatalf("%+v: %d s after the end: %q", c, i*c.step-end, all[i])
			}
		}
	}
}

// Workers that come and go many times a second, each of which is still in the memory for a moment after
// it has left the list: nothing stays.
func TestUnreleasedChurn(t *testing.T) {
	d, next := newDomain(t), 0
	rng := rand.New(rand.NewPCG(31, 32))
	for s := range 3000 {
		f := frame(s, gib)
		next += 14
		for k := range 20 {
			f.Members = append(f.Members, Member[int]{Key: next + k, Used: Of(300 * mib)})
			f.Used.V += 300 * mib
		}
		f.Used.V += 600 * mib * float64(btoi(rng.IntN(10) < 5)) // of two that have just ended
		if j := show(t, d, f); len(j.Unreleased) > 0 {
			t.Fatalf("second %d: %s", s, stays(j))
		}
	}
}

func TestUnreleasedGoesWithAReset(t *testing.T) {
	for _, reason := range []Reason{ReasonDeviceReset, ReasonRepartition} {
		d := newDomain(t)
		if got := play(t, d, 0, 1000, 1, all); got[999] != "1:8" {
			t.Fatalf("unreleased %q", got[999])
		}
		d.Reset(reason)
		if got := spans(play(t, d, 1000, 1500, 1, all), 1); got != "" || d.Knows(1) {
			t.Errorf("%s: %q stays", reason, got)
		}
	}
}

// A list that fails for a while after memory has stayed leaves the verdict.
func TestUnreleasedWithoutList(t *testing.T) {
	d := newDomain(t)
	got := play(t, d, 0, 3500, 1, func(s int) memory {
		m := all(s)
		m.broken = s >= 1000 && s < 1300 || s >= 2000 && s < 2900
		return m
	})
	for s, want := range map[int]string{999: "1:8", 1299: "1:8", 1300: "1:8", 2500: "1:8", 2800: "", 2900: "1:8"} {
		if got[s] != want {
			t.Errorf("second %d: %q, want %q", s, got[s], want)
		}
	}
	if !d.Knows(1) || d.Knows(3) {
		t.Errorf("knows 1: %t, 3: %t", d.Knows(1), d.Knows(3))
	}
}

// A leak of memory that nobody owns is a leak, though some of it is known to be a dead process's.
func TestUnreleasedIsNoLeak(t *testing.T) {
	d := newDomain(t)
	var j *Judgement[int]
	for s := range quiet + 3000 {
		m := all(s)
		j = observe(t, d, s, round(m.rest+leaked(s)), m.members)
	}
	if !j.Residual.Leak || !j.Residual.Pattern.Leaks() || !j.Device.Pattern.Leaks() || len(j.Unreleased) != 1 {
		t.Fatalf("residual %q, device %q, %+v", j.Residual.Pattern, j.Device.Pattern, j.Unreleased)
	}
	if u := j.Unreleased[0]; math.Abs(u.Used-8*gib) > 64*mib || u.Since != second(gone) {
		t.Errorf("%+v", u)
	}
}
