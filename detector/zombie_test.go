// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"slices"
	"testing"
	"time"
)

// patternsOf returns the patterns of a process by second, for an hour.
func patternsOf(t *testing.T, at func(s int) Member[int]) []Pattern {
	t.Helper()
	d, patterns := newDomain(t), make([]Pattern, 3600)
	for s := range patterns {
		patterns[s] = show(t, d, frame(s, 512*mib, at(s))).Members[0].Pattern
	}
	return patterns
}

// idle is a process that holds 20 GiB and does nothing, as nobody's child, but for a change.
func idle(t *testing.T, change func(m *Member[int], s int)) []Pattern {
	t.Helper()
	return patternsOf(t, func(s int) Member[int] {
		m := Member[int]{Used: Of(20 * gib), Started: start - time.Hour, SM: Of(0), CPU: Of(100), State: StateOrphaned}
		change(&m, s)
		return m
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
		if at := slices.Index(patterns, PatternZombie); at != c.at || patterns[3599] != c.end {
			t.Errorf("%s: zombie from second %d on, want %d; at the end %q, want %q", name, at, c.at, patterns[3599], c.end)
		}
	}
}
