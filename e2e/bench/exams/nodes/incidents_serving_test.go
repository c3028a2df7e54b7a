// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// What the incidents of serving are, in the order of their list: the first fill
// the memory, the next only leak, then come those where memory is held, and the
// last are healthy.
const (
	servingFull = 16
	servingLeak = servingFull + 8
	servingHeld = servingLeak + 6
)

func TestServingTable(t *testing.T) {
	kinds, sources := map[string]bool{}, map[string]int{}
	for _, one := range serving {
		if kinds[one.Kind] || one.Kind == "" || strings.ToLower(one.Kind) != one.Kind {
			t.Errorf("kind %q", one.Kind)
		}
		kinds[one.Kind] = true
		if !strings.HasPrefix(one.Thread, "https://") || one.Told == "" || one.Assumed == "" {
			t.Errorf("%s: thread %q, told %q, assumed %q", one.Kind, one.Thread, one.Told, one.Assumed)
		}
		project := strings.Join(strings.Split(one.Thread, "/")[:5], "/")
		if sources[project]++; sources[project] > 3 {
			t.Errorf("more than 3 incidents of %s", project)
		}
	}
}

func TestServing(t *testing.T) {
	for i, one := range serving {
		t.Run(one.Kind, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= seeds; seed++ {
				live(t, seed, i)
			}
		})
	}
}

// incident is the story of one of serving, whatever comes before it in the list of
// all incidents.
func incident(seed uint64, i int) *Story {
	all := slices.IndexFunc(incidents, func(one Incident) bool { return one.Kind == serving[i].Kind })
	return NewIncident(seed, all)
}

// live runs an incident to its end and checks that it has what its report says.
func live(t *testing.T, seed uint64, i int) {
	t.Helper()
	s := incident(seed, i)
	lives := map[int]*life{}
	next := time.Duration(0)
	var f Frame
	for s.Next(&f) {
		if f.T != next {
			t.Fatalf("seed %d: frame at %v, want %v", seed, f.T, next)
		}
		next += s.Interval
		if checkFrame(t, s, &f, lives); t.Failed() {
			t.Fatalf("seed %d at %v", seed, f.T)
		}
	}
	if s.Length < 3*time.Hour-time.Minute || s.Length > 72*time.Hour || next != s.Length+s.Interval {
		t.Errorf("seed %d: the story takes %v and ends at %v", seed, s.Length, next-s.Interval)
	}
	if s.Length > 24*time.Hour && s.Interval < 10*time.Second {
		t.Errorf("seed %d: %v sampled each %v", seed, s.Length, s.Interval)
	}
	full, leaks, held := i < servingFull, i < servingLeak, i >= servingLeak && i < servingHeld
	if leaks {
		checkLabels(t, s, lives)
	}
	if full != (len(s.OOMs) > 0) {
		t.Errorf("seed %d: out of memory at %v", seed, s.OOMs)
	}
	if leaks != (len(s.Leaks) > 0) {
		t.Errorf("seed %d: %d leaks", seed, len(s.Leaks))
	}
	if held != (len(s.Zombies) > 0) || len(s.Unreleased) > 0 {
		t.Errorf("seed %d: zombies %v, unreleased %v", seed, s.Zombies, s.Unreleased)
	}
	for _, z := range s.Zombies {
		l := lives[z.ID]
		if l == nil || z.From >= z.To || z.To > s.Length || l.first > z.From {
			t.Errorf("seed %d: zombie %v seen as %v", seed, z, l)
		}
	}
}

// TestServingPlateau looks at the healthy ones: what is used in their last
// quarter was used before, but for what the driver has for itself.
func TestServingPlateau(t *testing.T) {
	for i, one := range serving[servingHeld:] {
		t.Run(one.Kind, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= seeds; seed++ {
				s := incident(seed, servingHeld+i)
				var before, after int64
				var f Frame
				for s.Next(&f) {
					if f.T < s.Length*3/4 {
						before = max(before, f.Used)
					} else {
						after = max(after, f.Used)
					}
				}
				// Rare large work may come late.
				if after > before+s.Capacity/10 && one.Kind != "paddleocr-vl-documents" {
					t.Errorf("seed %d: %d MiB at most, then %d MiB", seed, before/mib, after/mib)
				}
			}
		})
	}
}

func TestServingSame(t *testing.T) {
	for i, one := range serving {
		t.Run(one.Kind, func(t *testing.T) {
			t.Parallel()
			a, b := incident(1, i), incident(1, i)
			var f, g Frame
			for a.Next(&f) {
				if !b.Next(&g) || f.T != g.T || f.Used != g.Used || !slices.Equal(f.Processes, g.Processes) {
					t.Fatalf("frames %v and %v", f, g)
				}
			}
		})
	}
}
