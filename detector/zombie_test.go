// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"testing"
	"time"
)

// idler is a process that holds 20 GiB and does nothing, as nobody's child.
func idler(int) Member[int] {
	return Member[int]{Used: Of(20 * gib), SM: Of(0), CPU: Of(100), State: StateOrphaned}
}

// watch gives the members of each second to a new domain, each with its key, and
// returns the patterns of the member of key 0 by second; "" while it is not there.
func watch(t *testing.T, seconds int, members func(s int) []Member[int]) []string {
	t.Helper()
	d := newDomain(t)
	patterns := make([]string, seconds)
	for s := range seconds {
		f := Frame[int]{T: start + time.Duration(s)*time.Second, Used: Of(512 * mib), Capacity: Of(80 * gib), Complete: true, Members: members(s)}
		for i := range f.Members {
			f.Used.V += f.Members[i].Used.V
		}
		j, err := look(d, &f)
		if err != nil {
			t.Fatal(err)
		}
		for i := range j.Members {
			if j.Members[i].Key == 0 {
				patterns[s] = j.Members[i].Pattern.String()
			}
		}
	}
	return patterns
}

// first returns the second in which the pattern was first there, -1 if never.
func first(patterns []string, pattern Pattern) int {
	for s := range patterns {
		if patterns[s] == pattern.String() {
			return s
		}
	}
	return -1
}

// alone watches one process for an hour.
func alone(t *testing.T, process func(s int) Member[int]) []string {
	return watch(t, 3600, func(s int) []Member[int] {
		m := process(s)
		m.Started = start - time.Hour
		return []Member[int]{m}
	})
}

func TestZombie(t *testing.T) {
	for name, c := range map[string]struct {
		process func(s int) Member[int]
		at      int // first second as a zombie; -1 never
		end     Pattern
	}{
		"orphan":                {idler, 600, PatternZombie},
		"unkillable throughout": {changed(func(m *Member[int], _ int) { m.State = StateUnkillable }), 600, PatternZombie},
		"orphan that is unkillable at times": {changed(func(m *Member[int], s int) {
			if s%3 == 0 {
				m.State = StateUnkillable
			}
		}), 600, PatternZombie},
		"orphan whose threads look at the clock": {changed(func(m *Member[int], s int) { m.CPU.V += float64(s/20) * 0.01 }), 600, PatternZombie},
		"orphan that has computed until now": {changed(func(m *Member[int], s int) {
			if s < 1000 {
				m.SM = Of(0.9)
			}
		}), 999 + 600, PatternZombie},
		"ended, and listed all the same": {changed(func(m *Member[int], s int) {
			m.State = StateAlive
			if s >= 1000 {
				m.State, m.CPU = StateGone, Value{}
			}
		}), 1600, PatternZombie},
		"its parent went late": {changed(func(m *Member[int], s int) {
			if s < 2000 {
				m.State = StateAlive
			}
		}), 2600, PatternZombie},
		"a reading that failed now and then": {changed(func(m *Member[int], s int) {
			if s%20 == 19 {
				m.SM, m.CPU, m.State = Value{}, Value{}, StateUnknown
			}
		}), 600, PatternZombie},

		"idle server":             {changed(func(m *Member[int], _ int) { m.State = StateAlive }), -1, PatternIdle},
		"waits for a disk, often": {changed(func(m *Member[int], s int) { m.State = ProcState(1 + s%100/99 ^ 1) }), -1, PatternIdle},
		"already exited":          {changed(func(m *Member[int], _ int) { m.State = StateZombieProcess }), -1, PatternIdle},
		"state not known":         {changed(func(m *Member[int], _ int) { m.State = StateUnknown }), -1, PatternIdle},
		"utilisation not known":   {changed(func(m *Member[int], _ int) { m.SM = Value{} }), -1, PatternStable},
		"processor not known":     {changed(func(m *Member[int], _ int) { m.CPU = Value{} }), -1, PatternIdle},
		"uses a processor":        {changed(func(m *Member[int], s int) { m.CPU.V += float64(s) * 0.005 }), -1, PatternIdle},
		"works every 9 minutes": {changed(func(m *Member[int], s int) {
			if s%540 == 0 {
				m.SM = Of(0.01)
			}
		}), -1, PatternStable},
		"small": {changed(func(m *Member[int], _ int) { m.Used = Of(512 * mib) }), -1, PatternIdle}, // under 1 % of 80 GiB
	} {
		t.Run(name, func(t *testing.T) {
			patterns := alone(t, c.process)
			if at := first(patterns, PatternZombie); at != c.at || patterns[3599] != c.end.String() {
				t.Errorf("zombie from second %d on, want %d; at the end %q, want %q", at, c.at, patterns[3599], c.end)
			}
		})
	}
}

// changed is idler with a change.
func changed(change func(m *Member[int], s int)) func(int) Member[int] {
	return func(s int) Member[int] {
		m := idler(s)
		change(&m, s)
		return m
	}
}

// Two that end in a frame, of which one is a rank: the same frames tell the same each time.
func TestEndsOfOneFrameTellTheSame(t *testing.T) {
	told := map[Pattern]int{}
	for range 30 {
		d, f := newDomain(t), Frame[int]{Capacity: Of(80 * gib), Complete: true, Used: Of(20 * gib)}
		for s := 0; s < 3000; s += 5 {
			busy := Of(float64(btoi(s < 1200)))
			in := func(key int, started time.Duration) Member[int] {
				return Member[int]{Key: key, Group: "ml/job", Used: Of(4 * gib), Started: started, SM: busy, CPU: Of(100), State: StateAlive}
			}
			f.T, f.Members = seconds2026(s), append(f.Members[:0], in(1, start-time.Hour))
			if s < 1205 {
				f.Members = append(f.Members, in(2, start-time.Hour), in(3, start-30*time.Minute))
			}
			if err := d.Observe(&f); err != nil {
				t.Fatal(err)
			}
		}
		told[d.Judgement().Members[0].Pattern]++
	}
	if len(told) != 1 {
		t.Errorf("the same frames: %v", told)
	}
}

func TestZombieThatComputesIsNone(t *testing.T) {
	patterns := alone(t, changed(func(m *Member[int], s int) {
		if s == 2000 {
			m.SM = Of(0.01)
		}
	}))
	if patterns[1999] != "zombie" || patterns[2000] == "zombie" || patterns[2599] == "zombie" || patterns[2600] != "zombie" {
		t.Errorf("before %q, at once %q, for ten minutes %q, then %q", patterns[1999], patterns[2000], patterns[2599], patterns[2600])
	}
}

// A process that leaks is a leak, whoever will use it again.
func TestLeakIsNoZombie(t *testing.T) {
	for name, c := range map[string]struct {
		rate float64
		want string
	}{"leaks": {mib, "leak_linear"}, "stays": {0, "zombie"}} {
		patterns := alone(t, changed(func(m *Member[int], s int) {
			m.Used = Of(round(10*gib + float64(max(0, s-quiet))*c.rate))
			if s < quiet+1200 {
				m.SM = Of(0.9) // or its growth would be a load
			}
		}))
		if p := patterns[3599]; p != c.want {
			t.Errorf("%s: pattern %q, want %q", name, p, c.want)
		}
	}
}

// rank is one of the processes of a job that computes until it ends; the one of
// key 0 stays, and does nothing from then on.
func rank(key, s, ends int) Member[int] {
	m := Member[int]{Key: key, Group: "slurm/7", Used: Of(8 * gib), Started: start - time.Hour, SM: Of(0.9), CPU: Of(1000), State: StateAlive}
	if s >= ends {
		m.SM = Of(0)
	}
	return m
}

func TestZombieIsWhatIsLeftOfAJob(t *testing.T) {
	const ends = 1200
	for name, c := range map[string]struct {
		members func(s int) []Member[int]
		at      int
	}{
		"all others died while it computed": {func(s int) []Member[int] {
			return ranks(s, ends, [4]int{3600, ends, ends + 2, ends + 5})
		}, ends + 5 - 1 + 600},
		"one of two died": {func(s int) []Member[int] { return ranks(s, ends, [4]int{3600, ends, 0, 0}) }, ends - 1 + 600},

		"a pool shrinks, for want of work": {func(s int) []Member[int] {
			return ranks(s, ends, [4]int{3600, ends + 300, ends + 300, ends + 300})
		}, -1},
		"of a pool one works on for a while": {func(s int) []Member[int] {
			return ranks(s, ends+400, [4]int{3600, ends, ends, ends})
		}, -1},
		"a pool is taken down one by one": {func(s int) []Member[int] {
			return ranks(s, ends, [4]int{3600, ends - 90, ends - 45, ends})
		}, -1},
		"two are left":       {func(s int) []Member[int] { return ranks(s, ends, [4]int{3600, ends, ends, 3600}) }, -1},
		"all of them idle":   {func(s int) []Member[int] { return ranks(s, ends, [4]int{3600, 3600, 3600, 3600}) }, -1},
		"others of its time": {func(s int) []Member[int] { return ungrouped(ranks(s, ends, [4]int{3600, ends, ends, ends})) }, -1},
		"its workers ended, it had waited for them": {func(s int) []Member[int] {
			all := ranks(s, ends, [4]int{3600, ends, ends, ends})
			if s > 300 {
				all[0].SM = Of(0)
			}
			return all
		}, -1},
		"a worker was made anew": {func(s int) []Member[int] {
			all := ranks(s, ends, [4]int{3600, ends, ends, ends})
			if s > ends {
				fresh := rank(9, s, 0)
				fresh.Started = start + ends*time.Second
				all = append(all, fresh)
			}
			return all
		}, -1},
		"helpers that never computed": {func(s int) []Member[int] {
			all := ranks(s, ends, [4]int{3600, ends, ends, ends})
			for i := range all[1:] {
				all[1+i].SM = Of(0)
			}
			return all
		}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			if at := first(watch(t, 3600, c.members), PatternZombie); at != c.at {
				t.Errorf("zombie from second %d on, want %d", at, c.at)
			}
		})
	}
}

// ranks returns the ranks that are alive at second s: each computes until stops
// and lives until its own end.
func ranks(s, stops int, ends [4]int) (all []Member[int]) {
	for key, end := range ends {
		if s < end {
			all = append(all, rank(key, s, stops))
		}
	}
	return all
}

func ungrouped(all []Member[int]) []Member[int] {
	for i := range all {
		all[i].Group = ""
	}
	return all
}

// Who is unkillable or gone computes nothing, also where utilisation is not known; who is an
// orphan may.
func TestZombieWithoutUtilisation(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *Member[int], s int)
		at     int
	}{
		"unkillable":               {func(m *Member[int], _ int) { m.State = StateUnkillable }, 600},
		"unkillable from a moment": {func(m *Member[int], s int) { m.State = ProcState(1 + btoi(s >= 900)) }, 1500},
		"gone":                     {func(m *Member[int], _ int) { m.State, m.CPU = StateGone, Value{} }, 600},
		"state not known at times": {func(m *Member[int], s int) { m.State = ProcState(2 * btoi(s%20 < 19)) }, 600},
		"unkillable, then gone": {func(m *Member[int], s int) {
			if m.State = StateUnkillable; s >= 300 {
				m.State, m.CPU = StateGone, Value{}
			}
		}, 600},
		"orphan":                             {func(m *Member[int], _ int) { m.State = StateOrphaned }, -1},
		"alive":                              {func(m *Member[int], _ int) { m.State = StateAlive }, -1},
		"orphan that is unkillable at times": {func(m *Member[int], s int) { m.State = ProcState(3 - btoi(s%50 == 0)) }, -1},
		"utilisation known at times": {func(m *Member[int], s int) {
			if m.State = StateUnkillable; s%30 > 0 {
				m.SM = Of(0)
			}
		}, 600},
		"unkillable but for seconds": {func(m *Member[int], s int) { m.State = ProcState(2 - btoi(s%300 == 299)) }, -1},
		"uses a processor": {func(m *Member[int], s int) {
			m.State = StateUnkillable
			m.CPU.V += float64(s) * 0.005
		}, -1},
		"processor not known": {func(m *Member[int], _ int) { m.State, m.CPU = StateUnkillable, Value{} }, -1},
		"computes at times": {func(m *Member[int], s int) {
			if m.State = StateUnkillable; s%300 == 0 {
				m.SM = Of(0.5)
			}
		}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			patterns := alone(t, changed(func(m *Member[int], s int) {
				m.SM = Value{}
				c.change(m, s)
			}))
			if at := first(patterns, PatternZombie); at != c.at {
				t.Errorf("zombie from second %d on, want %d", at, c.at)
			}
		})
	}
}

// A pool of workers of a pod. A worker computes until it ends, 5 minutes after its start, and
// the next one begins; the one of key 0 computes for 2 minutes and stays.
type crew struct {
	parent bool              // the one of key 0 is the first of all
	group  string            // "ml/pool" if ""
	held   func(n int) Value // of the n-th worker; that of key 0 if nil
	idle   func(n int) bool  // the n-th worker never computes
	most   int               // workers after the one of key 0; any number if 0
	again  int               // second in which the one of key 0 computes again
}

func (c *crew) members(s int) (all []Member[int]) {
	worker := func(key, from int) Member[int] {
		m := Member[int]{Key: key, Group: c.group, Used: Of(4 * gib), Started: seconds2026(from), SM: Of(0.5), CPU: Of(100), State: StateAlive}
		if c.group == "" {
			m.Group = "ml/pool"
		}
		return m
	}
	begins := 310 * btoi(!c.parent) // of the one of key 0: after the first worker
	if n := s / 300; s%300 < 290 && (c.most == 0 || n <= c.most) {
		m := worker(1+n, 300*n)
		if c.held != nil {
			m.Used = c.held(n)
		}
		if c.idle != nil && c.idle(n) {
			m.SM = Of(0)
		}
		all = append(all, m)
	}
	if s >= begins {
		m := worker(0, begins)
		if s >= begins+120 && s != c.again {
			m.SM = Of(0)
		}
		all = append(all, m)
	}
	return all
}

// A worker that its pool has passed over is a zombie, and nobody else who waits.
func TestWorkerThatIsForgotten(t *testing.T) {
	const fifth = 7*300 - 10 // the fifth worker that began after second 430 has ended
	for name, c := range map[string]struct {
		crew
		at int
	}{
		"forgotten":               {crew{}, fifth},
		"of nearly their size":    {crew{held: func(int) Value { return Of(4.3 * gib) }}, fifth},
		"computes again":          {crew{again: 1600}, 3300 - 10},
		"five others":             {crew{most: 6}, fifth},
		"four others":             {crew{most: 5}, -1},
		"the parent of all":       {crew{parent: true}, -1},
		"others are smaller":      {crew{held: func(int) Value { return Of(3.5 * gib) }}, -1},
		"others are larger":       {crew{held: func(int) Value { return Of(4.5 * gib) }}, -1},
		"others do not compute":   {crew{idle: func(n int) bool { return n > 1 }}, -1},
		"each second one is like": {crew{held: func(n int) Value { return Of(float64(1+n%2) * 4 * gib) }}, -1},
	} {
		t.Run(name, func(t *testing.T) {
			patterns := watch(t, 3600, c.members)
			if at := first(patterns, PatternZombie); at != c.at {
				t.Errorf("zombie from second %d on, want %d", at, c.at)
			}
		})
	}
	none := func(s int) (all []Member[int]) {
		c := crew{}
		all = ungrouped(c.members(s))
		for i := range all {
			all[i].Program = "worker.py"
		}
		return all
	}
	if at := first(watch(t, 3600, none), PatternZombie); at >= 0 {
		t.Errorf("processes of one program that are in no pod: a zombie from second %d on", at)
	}
}

// A worker that was forgotten is none in the very frame in which it computes.
func TestForgottenWorkerThatComputes(t *testing.T) {
	c := crew{again: 2600}
	patterns := watch(t, 3600, c.members)
	if patterns[2599] != "zombie" || patterns[2600] == "zombie" || patterns[2601] == "zombie" {
		t.Errorf("before %q, at once %q, then %q", patterns[2599], patterns[2600], patterns[2601])
	}
}

// What a pool remembers of its workers is restored.
func TestForgottenWorkerIsRestored(t *testing.T) {
	c, d, at := crew{}, newDomain(t), -1
	for s := range 2400 {
		f := Frame[int]{T: seconds2026(s), Used: Of(0), Capacity: Of(80 * gib), Complete: true, Members: c.members(s)}
		for i := range f.Members {
			f.Used.V += f.Members[i].Used.V
		}
		j, err := look(d, &f)
		if err != nil {
			t.Fatal(err)
		}
		for i := range j.Members {
			if j.Members[i].Pattern == PatternZombie && at < 0 {
				at = s
			}
		}
		if s%100 == 99 {
			pools := map[groupName]pool{}
			for name, g := range d.groups {
				pools[name] = g.pool
			}
			d = restored(t, d)
			for name, g := range d.groups {
				if g.pool != pools[name] || g.busiest == 0 {
					t.Fatalf("second %d: restored %+v, want %+v", s, g.pool, pools[name])
				}
			}
		}
	}
	if at != 7*300-10 {
		t.Errorf("zombie from second %d on", at)
	}
}

// A pool of which more and more work grows; one in which more and more hang, while others come and
// go, leaks. Each minute one comes, of which each fifth stays. Notebooks that rest may be used again, so
// that their pod does not leak: each five minutes there is one more. That they fill the memory is told of
// what rests (TestWhatRests).
func TestPoolOfWorkersThatHang(t *testing.T) {
	for name, c := range map[string]struct {
		every int  // seconds
		lasts int  // such as do not stay, seconds; 0 is all stay
		rests int  // seconds after which one that stays computes no more; 0 never
		want  bool // it leaks
	}{
		"they work": {60, 300, 0, false},
		"they hang": {60, 300, 60, true},
		"notebooks": {300, 0, 180, false},
	} {
		d, leaks := newDomain(t), 0
		for s := 0; s < 4*3600; s += 5 {
			f := Frame[int]{T: seconds2026(s), Used: Of(gib), Capacity: Of(80 * gib), Complete: true}
			for n := range 1 + s/c.every {
				age, stays := s-n*c.every, c.lasts == 0 || n%5 == 1
				if !stays && age >= c.lasts {
					continue
				}
				m := Member[int]{Key: n, Group: "ml/pool", Used: Of(gib), Started: seconds2026(n * c.every), SM: Of(0.5), CPU: Of(100), State: StateAlive}
				if stays && c.rests > 0 && age >= c.rests {
					m.SM = Of(0)
				}
				f.Used.V += m.Used.V
				f.Members = append(f.Members, m)
			}
			j, err := look(d, &f)
			if err != nil {
				t.Fatal(err)
			}
			if len(j.Groups) == 0 {
				continue
			}
			leaks += btoi(j.Groups[0].Leak)
			// What rests of the pool is told of the device sooner than the pool is known to leak.
			if j.Groups[0].Leak && !j.Device.Leak || name == "they work" && j.Device.Leak {
				t.Fatalf("%s: second %d: pool %+v, device %+v", name, s, j.Groups[0].Verdict, j.Device)
			}
		}
		if leaks > 0 != c.want {
			t.Errorf("%s: the pool leaks in %d frames", name, leaks)
		}
	}
}

// Ranks in no pod are known by what they run.
func TestZombieIsWhatIsLeftOfAProgram(t *testing.T) {
	const ends = 1200
	for name, c := range map[string]struct {
		program func(key int) string
		at      int
	}{
		"all run the same": {func(int) string { return "train.py" }, ends - 1 + 600},
		"each another":     {func(key int) string { return string(rune('a' + key)) }, -1},
		"not known":        {func(int) string { return "" }, -1},
	} {
		patterns := watch(t, 2400, func(s int) []Member[int] {
			all := ungrouped(ranks(s, ends, [4]int{3600, ends, ends, ends}))
			for i := range all {
				all[i].Program = c.program(all[i].Key)
			}
			return all
		})
		if at := first(patterns, PatternZombie); at != c.at {
			t.Errorf("%s: zombie from second %d on, want %d", name, at, c.at)
		}
	}
}
