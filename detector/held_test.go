// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// gone is the second in which a process is gone in these tests.
const gone = 600

// memory is one second of a memory: what each process holds, and what stands in no list.
type memory struct {
	members map[int]float64
	rest    float64
	broken  bool // the list cannot be read
}

// play gives a memory to a domain, every so many seconds; each sees what is unreleased, in GiB: "1:6" is 6 GiB of process 1.
func play(t *testing.T, d *Domain[int], from, to, step int, at func(s int) memory, each func(s int, stays string)) {
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
		f.Complete = !m.broken
		for i := range members {
			f.Members[i].Used.OK = !m.broken
		}
		j := show(t, d, f)
		each(s, stays(j))
		for _, v := range []Verdict{j.Device, j.Residual} {
			if v.Judged && !v.Leak && (v.Pattern == PatternUnreleased) != (len(j.Unreleased) > 0) {
				t.Fatalf("second %d: pattern %q with %+v", s, v.Pattern, j.Unreleased)
			}
		}
	}
}

func stays(j *Judgement[int]) string {
	var b strings.Builder
	for _, u := range j.Unreleased {
		fmt.Fprintf(&b, " %d:%.0f", u.Key, u.Used/gib)
	}
	return strings.TrimPrefix(b.String(), " ")
}

// all is a memory of a process of 8 GiB that ends, and stays in use, and of one that goes on.
func all(s int) memory {
	if s < gone {
		return memory{members: map[int]float64{1: 8 * gib, 2: 20 * gib}, rest: 512 * mib}
	}
	return memory{members: map[int]float64{2: 20 * gib}, rest: 512*mib + 8*gib}
}

func TestUnreleased(t *testing.T) {
	with := func(change func(m *memory, s int)) func(s int) memory {
		return func(s int) memory {
			m := all(s)
			change(&m, s)
			return m
		}
	}
	for name, c := range map[string]struct {
		at    func(s int) memory
		stays bool
	}{
		"all of it stays": {all, true},
		"another has it, and is listed late": {with(func(m *memory, s int) {
			if s >= gone+40 {
				m.members[3], m.rest = 8*gib, m.rest-8*gib
			}
		}), false},
		"the list cannot be read at the exit": {with(func(m *memory, s int) { m.broken = s >= gone-300 && s < gone+300 }), false},
		"the list is never whole":             {with(func(m *memory, _ int) { m.broken = true }), false},
		"missing from one list": {func(s int) memory {
			m := all(0)
			if s%60 == 45 {
				delete(m.members, 1)
				m.rest += 8 * gib
			}
			return m
		}, false},
	} {
		for _, step := range []int{1, 5, 15} {
			play(t, newDomain(t), 0, 3000, step, c.at, func(s int, got string) {
				want := ""
				if c.stays && s >= gone+60 {
					want = "1:8"
				}
				if got != want {
					t.Fatalf("%s, every %d s: second %d: unreleased: %q", name, step, s, got)
				}
			})
		}
	}
}

// What grows beside the processes is not what one of them left, whether it is known to leak or not; and
// what they leave behind is told all the same. It leaks, though some of it is known to be a dead process's.
func TestUnreleasedBesideGrowth(t *testing.T) {
	for _, c := range []struct {
		step   int
		rate   float64 // MiB/s
		leaves string  // in GiB
	}{{15, 1, ""}, {30, 2, ""}, {30, 2, "1:1"}} {
		const end = quiet + 2*3600
		d := newDomain(t)
		play(t, d, 0, end+900, c.step, func(s int) memory {
			m := memory{members: map[int]float64{2: gib}, rest: gib + c.rate*leaked(s)}
			if s < end {
				m.members[1] = 8 * gib
			} else if c.leaves != "" {
				m.rest += gib
			}
			return m
		}, func(s int, got string) {
			if s >= end+150 && got != c.leaves {
				t.Fatalf("%+v: %d s after the end: %q", c, s-end, got)
			}
		})
		if j := d.Judgement(); !j.Residual.Leak || !j.Residual.Pattern.Leaks() || !j.Device.Pattern.Leaks() {
			t.Errorf("%+v: residual %q, device %q", c, j.Residual.Pattern, j.Device.Pattern)
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

// A list that fails for a while after memory has stayed leaves the verdict. A reset of the device does not.
func TestUnreleasedWithoutList(t *testing.T) {
	d := newDomain(t)
	wants := map[int]string{999: "1:8", 1299: "1:8", 1300: "1:8", 2500: "1:8", 2800: "", 2900: "1:8"}
	play(t, d, 0, 3500, 1, func(s int) memory {
		m := all(s)
		m.broken = s >= 1000 && s < 1300 || s >= 2000 && s < 2900
		return m
	}, func(s int, got string) {
		if want, ok := wants[s]; ok && got != want {
			t.Errorf("second %d: %q, want %q", s, got, want)
		}
	})
	if u := d.Judgement().Unreleased[0]; u.Used != 8*gib || u.Since != second(gone) || !d.Knows(1) || d.Knows(3) {
		t.Errorf("%+v; knows 1: %t, 3: %t", u, d.Knows(1), d.Knows(3))
	}
	d.Reset(ReasonDeviceReset)
	play(t, d, 3500, 4000, 1, all, func(s int, got string) {
		if got != "" || d.Knows(1) {
			t.Fatalf("second %d: %q stays", s, got)
		}
	})
}

// patternsOf returns the patterns of a process by second, for an hour.
func patternsOf(t *testing.T, at func(s int) Member[int]) []Pattern {
	t.Helper()
	d, patterns := newDomain(t), make([]Pattern, 3600)
	for s := range patterns {
		patterns[s] = show(t, d, frame(s, 512*mib, at(s))).Members[0].Pattern
	}
	return patterns
}

// A process holds 20 GiB and does nothing, as nobody's child, but for a change.
func TestZombie(t *testing.T) {
	is := func(state ProcState) func(*Member[int], int) {
		return func(m *Member[int], _ int) { m.State = state }
	}
	for name, c := range map[string]struct {
		change func(m *Member[int], s int)
		at     int // first second as a zombie; -1 never
		end    Pattern
	}{
		"orphan":                             {func(*Member[int], int) {}, 600, PatternZombie},
		"unkillable throughout":              {is(StateUnkillable), 600, PatternZombie},
		"orphan that has computed until now": {func(m *Member[int], s int) { m.SM = Of(float64(btoi(s < 1000))) }, 999 + 600, PatternZombie},
		"ended, and listed all the same": {func(m *Member[int], s int) {
			m.State = StateAlive
			if s >= 1000 {
				m.State, m.CPU = StateGone, Value{}
			}
		}, 1600, PatternZombie},

		"idle server":           {is(StateAlive), -1, PatternIdle},
		"already exited":        {is(StateZombieProcess), -1, PatternIdle},
		"utilisation not known": {func(m *Member[int], _ int) { m.SM = Value{} }, -1, PatternStable},
		"works every 9 minutes": {func(m *Member[int], s int) { m.SM = Of(0.01 * float64(btoi(s%540 == 0))) }, -1, PatternStable},
		"small":                 {func(m *Member[int], _ int) { m.Used = Of(512 * mib) }, -1, PatternIdle}, // under 1 % of 80 GiB
	} {
		patterns := patternsOf(t, func(s int) Member[int] {
			m := Member[int]{Used: Of(20 * gib), Started: start - time.Hour, SM: Of(0), CPU: Of(100), State: StateOrphaned}
			c.change(&m, s)
			return m
		})
		if at := slices.Index(patterns, PatternZombie); at != c.at || patterns[3599] != c.end {
			t.Errorf("%s: zombie from second %d on, want %d; at the end %q, want %q", name, at, c.at, patterns[3599], c.end)
		}
	}
}
