// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestIncidentTable(t *testing.T) {
	kinds := map[string]bool{}
	for _, one := range incidents {
		if kinds[one.Kind] || one.Kind == "" || strings.ToLower(one.Kind) != one.Kind {
			t.Errorf("kind %q", one.Kind)
		}
		kinds[one.Kind] = true
		if one.Told == "" || one.Assumed == "" || one.build == nil {
			t.Errorf("%s is not complete", one.Kind)
		}
		if !strings.HasPrefix(one.Thread, "https://") || strings.Count(one.Thread, "/") < 6 {
			t.Errorf("%s has the address %q", one.Kind, one.Thread)
		}
	}
}

// TestIncidents lives each incident to its end: it has what its report says, and the same seed gives
// the same story.
func TestIncidents(t *testing.T) {
	for index, one := range incidents {
		t.Run(one.Kind, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= seeds; seed++ {
				s, again := NewIncident(seed, index), NewIncident(seed, index)
				lives := watchIncident(t, s, again)
				checkSpans(t, s, lives)
				checkEnding(t, s, one.Ending)
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

// watchIncident reads two tellings of a story to their end.
func watchIncident(t *testing.T, s, again *Story) map[int]*life {
	t.Helper()
	lives := map[int]*life{}
	next := time.Duration(0)
	var f, g Frame
	for s.Next(&f) {
		if f.T != next {
			t.Fatalf("frame at %v, want %v", f.T, next)
		}
		next += s.Interval
		if checkFrame(t, s, &f, lives); t.Failed() {
			t.Fatalf("at %v", f.T)
		}
		if !again.Next(&g) || f.T != g.T || f.Used != g.Used || !slices.Equal(f.Processes, g.Processes) {
			t.Fatalf("frames %v and %v", f, g)
		}
	}
	if next != s.Length+s.Interval {
		t.Errorf("the last frame is at %v, want %v", next-s.Interval, s.Length)
	}
	if s.Length < 3*time.Hour-time.Minute || s.Length > 72*time.Hour || s.Length > 24*time.Hour && s.Interval < 10*time.Second {
		t.Errorf("%v, sampled every %v", s.Length, s.Interval)
	}
	return lives
}

// TestPlateau looks at those that were no leak: what is used in their last quarter was used before, but
// for what the driver has for itself.
func TestPlateau(t *testing.T) {
	for index, one := range incidents {
		// Rare large work may come late.
		if one.Ending != WasNone || one.Kind == "paddleocr-vl-documents" {
			continue
		}
		t.Run(one.Kind, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= seeds; seed++ {
				s := NewIncident(seed, index)
				var before, after int64
				var f Frame
				for s.Next(&f) {
					if f.T < s.Length*3/4 {
						before = max(before, f.Used)
					} else {
						after = max(after, f.Used)
					}
				}
				if after > before+s.Capacity/10 {
					t.Errorf("seed %d: %d MiB at most, then %d MiB", seed, before/mib, after/mib)
				}
			}
		})
	}
}

// checkEnding checks that a story is of the sort that its report tells.
func checkEnding(t *testing.T, s *Story, as Ending) {
	t.Helper()
	if (len(s.Leaks) > 0) != (as == GoesOn || as == Fills) {
		t.Errorf("%d leaks", len(s.Leaks))
	}
	if as == Fills && len(s.OOMs) == 0 || (as == Holds || as == WasNone) && len(s.OOMs) > 0 {
		t.Errorf("out of memory at %v", s.OOMs)
	}
	if stuck := len(s.Zombies) + len(s.Unreleased); (stuck > 0) != (as == Holds) {
		t.Errorf("%d labels of what is held", stuck)
	}
}
