// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// What the later incidents are, in the order of their list: the first fill the
// memory, the next only leak, then come those where memory is held, and the last
// are healthy.
const (
	laterFull = 15
	laterLeak = laterFull + 6
	laterHeld = laterLeak + 8
)

func TestLaterTable(t *testing.T) {
	kinds, threads, projects := map[string]int{}, map[string]int{}, map[string]int{}
	for _, one := range incidents {
		kinds[one.Kind]++
		threads[one.Thread]++
	}
	for _, one := range later {
		if one.Kind == "" || kinds[one.Kind] != 1 || strings.ToLower(one.Kind) != one.Kind {
			t.Errorf("kind %q", one.Kind)
		}
		if one.Told == "" || one.Assumed == "" || one.build == nil {
			t.Errorf("%s is not complete", one.Kind)
		}
		parts := strings.Split(one.Thread, "/")
		if !strings.HasPrefix(one.Thread, "https://") || len(parts) < 5 || threads[one.Thread] != 1 {
			t.Errorf("%s has the address %q", one.Kind, one.Thread)
			continue
		}
		project := strings.Join(parts[2:5], "/")
		if projects[project]++; projects[project] > 3 {
			t.Errorf("more than 3 incidents of %s", project)
		}
	}
}

// laterStory is the story of one of later, whatever comes before it in the list of
// all incidents.
func laterStory(seed uint64, i int) *Story {
	all := slices.IndexFunc(incidents, func(one Incident) bool { return one.Kind == later[i].Kind })
	return NewIncident(seed, all)
}

func TestLater(t *testing.T) {
	for i, one := range later {
		t.Run(one.Kind, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= seeds; seed++ {
				liveLater(t, seed, i)
			}
		})
	}
}

// liveLater runs an incident to its end and checks that it has what its report says.
func liveLater(t *testing.T, seed uint64, i int) {
	t.Helper()
	s := laterStory(seed, i)
	lives := map[int]*life{}
	next := time.Duration(0)
	var before, after int64
	var f Frame
	for s.Next(&f) {
		if f.T != next {
			t.Fatalf("seed %d: frame at %v, want %v", seed, f.T, next)
		}
		next += s.Interval
		if checkFrame(t, s, &f, lives); t.Failed() {
			t.Fatalf("seed %d at %v", seed, f.T)
		}
		if f.T < s.Length*3/4 {
			before = max(before, f.Used)
		} else {
			after = max(after, f.Used)
		}
	}
	if s.Length < 3*time.Hour-time.Minute || s.Length > 72*time.Hour || next != s.Length+s.Interval {
		t.Errorf("seed %d: the story takes %v and ends at %v", seed, s.Length, next-s.Interval)
	}
	if s.Length > 24*time.Hour && s.Interval < 10*time.Second {
		t.Errorf("seed %d: %v sampled each %v", seed, s.Length, s.Interval)
	}
	full, leaks, held := i < laterFull, i < laterLeak, i >= laterLeak && i < laterHeld
	if leaks {
		checkLabels(t, s, lives)
	}
	if full && len(s.OOMs) == 0 || !leaks && len(s.OOMs) > 0 {
		t.Errorf("seed %d: out of memory at %v", seed, s.OOMs)
	}
	if leaks != (len(s.Leaks) > 0) {
		t.Errorf("seed %d: %d leaks", seed, len(s.Leaks))
	}
	if held != (len(s.Zombies)+len(s.Unreleased) > 0) {
		t.Errorf("seed %d: zombies %v, unreleased %v", seed, s.Zombies, s.Unreleased)
	}
	for _, z := range s.Zombies {
		l := lives[z.ID]
		if l == nil || z.From >= z.To || z.To > s.Length || l.first > z.From {
			t.Errorf("seed %d: zombie %v seen as %v", seed, z, l)
		}
	}
	// What a healthy one has in its last quarter it had before, but for what the
	// driver has for itself.
	if i >= laterHeld && after > before+s.Capacity/30+64*mib {
		t.Errorf("seed %d: %d MiB at most, then %d MiB", seed, before/mib, after/mib)
	}
}

func TestLaterSame(t *testing.T) {
	for i, one := range later {
		t.Run(one.Kind, func(t *testing.T) {
			t.Parallel()
			a, b := laterStory(1, i), laterStory(1, i)
			var f, g Frame
			for a.Next(&f) {
				if !b.Next(&g) || f.T != g.T || f.Used != g.Used || !slices.Equal(f.Processes, g.Processes) {
					t.Fatalf("frames %v and %v", f, g)
				}
			}
		})
	}
}
