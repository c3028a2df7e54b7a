// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"testing"
	"time"
)

// patternsOf gives the members of each second to a new domain and returns the patterns of the one of
// key 0 by second; PatternUnknown while it is not there.
func patternsOf(t *testing.T, seconds int, members func(s int) []Member[int]) []Pattern {
	t.Helper()
	d, patterns := newDomain(t), make([]Pattern, seconds)
	for s := range seconds {
		j := show(t, d, frame(s, 512*mib, members(s)...))
		for i := range j.Members {
			if j.Members[i].Key == 0 {
				patterns[s] = j.Members[i].Pattern
			}
		}
	}
	return patterns
}

// first returns the second in which the pattern was first there, -1 if never.
func first(patterns []Pattern, pattern Pattern) int {
	for s := range patterns {
		if patterns[s] == pattern {
			return s
		}
	}
	return -1
}

// idle watches for an hour a process that holds 20 GiB and does nothing, as nobody's child, but for a
// change.
func idle(t *testing.T, change func(m *Member[int], s int)) []Pattern {
	t.Helper()
	return patternsOf(t, 3600, func(s int) []Member[int] {
		m := Member[int]{Used: Of(20 * gib), Started: start - time.Hour, SM: Of(0), CPU: Of(100), State: StateOrphaned}
		change(&m, s)
		return []Member[int]{m}
	})
}

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
		patterns := idle(t, c.change)
		if at := first(patterns, PatternZombie); at != c.at || patterns[3599] != c.end {
			t.Errorf("%s: zombie from second %d on, want %d; at the end %q, want %q", name, at, c.at, patterns[3599], c.end)
		}
	}
}

// A process that leaks is a leak, whoever will use it again.
func TestLeakIsNoZombie(t *testing.T) {
	for rate, want := range map[float64]Pattern{mib: PatternLeakLinear, 0: PatternZombie} {
		patterns := idle(t, func(m *Member[int], s int) {
			m.Used = Of(round(10*gib + float64(max(0, s-quiet))*rate))
			if s < quiet+1200 {
				m.SM = Of(0.9) // or its growth would be a load
			}
		})
		if p := patterns[3599]; p != want {
			t.Errorf("%g bytes a second: %q, want %q", rate, p, want)
		}
	}
}

// ranks returns the four ranks of a job that are alive at second s: each computes until stops and lives
// until its own end.
func ranks(s, stops int, ends ...int) (all []Member[int]) {
	for key, end := range ends {
		if s < end {
			all = append(all, Member[int]{
				Key: key, Group: "slurm/7", Used: Of(8 * gib), Started: start - time.Hour, SM: Of(0.9 * float64(btoi(s < stops))), CPU: Of(1000), State: StateAlive,
			})
		}
	}
	return all
}

// ungrouped are processes that are in no pod or job, by what they run.
func ungrouped(all []Member[int], program func(key int) string) []Member[int] {
	for i := range all {
		all[i].Group, all[i].Program = "", program(all[i].Key)
	}
	return all
}

func TestZombieIsWhatIsLeftOfAJob(t *testing.T) {
	const ends, ever = 1200, 3600
	job := func(s int) []Member[int] { return ranks(s, ends, ever, ends, ends, ends) }
	for name, c := range map[string]struct {
		members func(s int) []Member[int]
		at      int
	}{
		"all others died while it computed": {func(s int) []Member[int] { return ranks(s, ends, ever, ends, ends+2, ends+5) }, ends + 5 - 1 + 600},
		"one of two died":                   {func(s int) []Member[int] { return ranks(s, ends, ever, ends) }, ends - 1 + 600},
		"a program in no pod":               {func(s int) []Member[int] { return ungrouped(job(s), func(int) string { return "train.py" }) }, ends - 1 + 600},

		"others of its time": {func(s int) []Member[int] { return ungrouped(job(s), func(int) string { return "" }) }, -1},
		"others run another each": {func(s int) []Member[int] {
			return ungrouped(job(s), func(key int) string { return string(rune('a' + key)) })
		}, -1},
		"two are left":     {func(s int) []Member[int] { return ranks(s, ends, ever, ends, ends, ever) }, -1},
		"all of them idle": {func(s int) []Member[int] { return ranks(s, ends, ever, ever, ever, ever) }, -1},
		"a worker was made anew": {func(s int) []Member[int] {
			all := job(s)
			if s > ends {
				fresh := ranks(s, 0, ever)[0]
				fresh.Key, fresh.Started = 9, second(ends)
				all = append(all, fresh)
			}
			return all
		}, -1},
	} {
		if at := first(patternsOf(t, 3600, c.members), PatternZombie); at != c.at {
			t.Errorf("%s: zombie from second %d on, want %d", name, at, c.at)
		}
	}
}

// Two that end in a frame, of which one is a rank: the same frames tell the same each time.
func TestEndsOfOneFrameTellTheSame(t *testing.T) {
	told := map[Pattern]int{}
	for range 20 {
		d := newDomain(t)
		for s := 0; s < 3000; s += 5 {
			in := func(key int, started time.Duration) Member[int] {
				return Member[int]{Key: key, Group: "ml/job", Used: Of(4 * gib), Started: started, SM: Of(float64(btoi(s < 1200))), CPU: Of(100), State: StateAlive}
			}
			f := frame(s, 0, in(1, start-time.Hour))
			if s < 1205 {
				f = frame(s, 0, in(1, start-time.Hour), in(2, start-time.Hour), in(3, start-30*time.Minute))
			}
			if err := d.Observe(f); err != nil {
				t.Fatal(err)
			}
		}
		told[d.Judgement().Members[0].Pattern]++
	}
	if len(told) != 1 {
		t.Errorf("the same frames: %v", told)
	}
}

// A pool of workers of a pod. A worker computes until it ends, 5 minutes after its start, and the next
// one begins; the one of key 0 computes for 2 minutes and stays.
type crew struct {
	again int // second in which the one of key 0 computes again
}

func (c *crew) members(s int) (all []Member[int]) {
	worker := func(key, from int) Member[int] {
		return Member[int]{Key: key, Group: "ml/pool", Used: Of(4 * gib), Started: second(from), SM: Of(0.5), CPU: Of(100), State: StateAlive}
	}
	const begins = 310 // of the one of key 0: after the first worker
	if n := s / 300; s%300 < 290 {
		all = append(all, worker(1+n, 300*n))
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
		"forgotten":      {crew{}, fifth},
		"computes again": {crew{again: 1600}, 3300 - 10},
	} {
		if at := first(patternsOf(t, 3600, c.members), PatternZombie); at != c.at {
			t.Errorf("%s: zombie from second %d on, want %d", name, at, c.at)
		}
	}
	bare := func(s int) []Member[int] {
		return ungrouped((&crew{}).members(s), func(int) string { return "worker.py" })
	}
	if at := first(patternsOf(t, 3600, bare), PatternZombie); at >= 0 {
		t.Errorf("processes of one program that are in no pod: a zombie from second %d on", at)
	}
	// It is none in the very frame in which it computes.
	c := crew{again: 2600}
	patterns := patternsOf(t, 3600, c.members)
	if patterns[2599] != PatternZombie || patterns[2600] == PatternZombie || patterns[2601] == PatternZombie {
		t.Errorf("before %q, at once %q, then %q", patterns[2599], patterns[2600], patterns[2601])
	}
}
