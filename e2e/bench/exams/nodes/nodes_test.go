// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
)

// seeds are how many the properties are tested with.
const seeds = 2

// each runs a test on all stories of some seeds.
func each(t *testing.T, do func(t *testing.T, seed uint64, index int)) {
	t.Helper()
	for index := range Stories {
		t.Run(fmt.Sprintf("%d-%s", index, Kind(index)), func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= seeds; seed++ {
				do(t, seed, index)
			}
		})
	}
}

func TestCounts(t *testing.T) {
	sum := 0
	seen := map[string]bool{}
	for _, one := range families {
		sum += one.Count
		if seen[one.Kind] {
			t.Errorf("two families are called %s", one.Kind)
		}
		seen[one.Kind] = true
	}
	if sum != Stories {
		t.Fatalf("the families have %d stories, want %d", sum, Stories)
	}
}

// life is when a process was seen, and with what.
type life struct {
	first, last time.Duration
	cpu         float64
	started     time.Duration
}

func TestFrames(t *testing.T) {
	each(t, func(t *testing.T, seed uint64, index int) {
		s := New(seed, index)
		lives := map[int]*life{}
		next := time.Duration(0)
		var f Frame
		for s.Next(&f) {
			if f.T != next {
				t.Fatalf("seed %d: frame at %v, want %v", seed, f.T, next)
			}
			next += s.Interval
			checkFrame(t, s, &f, lives)
			if t.Failed() {
				t.Fatalf("seed %d at %v", seed, f.T)
			}
		}
		if next != s.Length+s.Interval {
			t.Errorf("seed %d: the last frame is at %v, want %v", seed, next-s.Interval, s.Length)
		}
		if s.Length < 3*time.Hour-time.Minute || s.Length > 24*time.Hour {
			t.Errorf("seed %d: the story takes %v", seed, s.Length)
		}
		checkLabels(t, s, lives)
	})
}

func checkFrame(t *testing.T, s *Story, f *Frame, lives map[int]*life) {
	t.Helper()
	sum := int64(0)
	for _, p := range f.Processes {
		sum += p.Used
		if p.Used <= 0 || p.Used%exams.Quantum != 0 {
			t.Errorf("process %d has %d bytes", p.ID, p.Used)
		}
		if p.SM != -1 && (p.SM < 0 || p.SM > 1) {
			t.Errorf("process %d has an SM of %v", p.ID, p.SM)
		}
		l := lives[p.ID]
		if l == nil {
			l = &life{first: f.T, started: p.Started}
			lives[p.ID] = l
		}
		if l.started != p.Started || p.Started > f.T {
			t.Errorf("process %d was started at %v and at %v", p.ID, l.started, p.Started)
		}
		// At most a frame or two, or a time without a list, is a process not seen.
		if p.CPU < l.cpu {
			t.Errorf("process %d had used %v s, now %v s", p.ID, l.cpu, p.CPU)
		}
		l.cpu, l.last = p.CPU, f.T
	}
	if f.Used < sum || f.Used > s.Capacity || f.Used%exams.Quantum != 0 {
		t.Errorf("%d bytes in use, %d by processes, of %d", f.Used, sum, s.Capacity)
	}
	if !f.Listed && len(f.Processes) > 0 {
		t.Error("processes in a frame without a list")
	}
}

func checkLabels(t *testing.T, s *Story, lives map[int]*life) {
	t.Helper()
	checkSpans(t, s, lives)
	isLeak := place(s.Kind) < place(stuck[0].Kind)
	if isLeak != (len(s.Leaks) > 0) {
		t.Errorf("%d leaks", len(s.Leaks))
	}
	isHealthy := place(s.Kind) >= place(healthy[0].Kind)
	wrong := len(s.Leaks) + len(s.Zombies) + len(s.Unreleased) + len(s.OOMs)
	if isHealthy && wrong > 0 || !isHealthy && wrong == 0 {
		t.Errorf("%d labels", wrong)
	}
}

// checkSpans checks that labels lie within the story and name processes that can be seen.
func checkSpans(t *testing.T, s *Story, lives map[int]*life) {
	t.Helper()
	// In that time before or after what is seen a process can have been there,
	// not listed.
	const unseen = 15 * time.Minute
	check := func(what string, id int, from, to time.Duration, inside bool) {
		if from < 0 || from >= to || to > s.Length {
			t.Errorf("%s from %v to %v in a story of %v", what, from, to, s.Length)
		}
		if id == 0 {
			return
		}
		l := lives[id]
		if l == nil {
			t.Errorf("%s of process %d, which is not seen", what, id)
			return
		}
		if inside && (l.first > from+unseen || l.last < to-unseen) {
			t.Errorf("%s of process %d from %v to %v, which is seen from %v to %v", what, id, from, to, l.first, l.last)
		}
	}
	for _, l := range s.Leaks {
		check("leak", l.ID, l.From, l.To, true)
		if l.Rate <= 0 {
			t.Errorf("leak with a rate of %v", l.Rate)
		}
	}
	for _, z := range s.Zombies {
		check("zombie", z.ID, z.From, z.To, true)
	}
	for _, u := range s.Unreleased {
		check("memory", u.ID, u.From, u.To, false)
	}
	if !slices.IsSorted(s.OOMs) {
		t.Errorf("OOMs at %v", s.OOMs)
	}
}

func place(kind string) int {
	return slices.IndexFunc(families, func(one exams.Family[*node]) bool { return one.Kind == kind })
}

func TestSame(t *testing.T) {
	each(t, func(t *testing.T, seed uint64, index int) {
		if seed > 1 {
			return
		}
		one, other := New(seed, index), New(seed, index)
		if a, b := fmt.Sprint(one.Labels), fmt.Sprint(other.Labels); a != b {
			t.Fatalf("labels %s and %s", a, b)
		}
		var f, g Frame
		for one.Next(&f) {
			if !other.Next(&g) || f.T != g.T || f.Used != g.Used || f.Listed != g.Listed ||
				!slices.Equal(f.Processes, g.Processes) {
				t.Fatalf("frames %v and %v", f, g)
			}
		}
	})
}

// TestLost looks inside: what a process or the GPU has more when a leak ends is
// what was lost, but for what it needs besides.
func TestLost(t *testing.T) {
	each(t, func(t *testing.T, seed uint64, index int) {
		s, n := New(seed, index), create(seed, 0x6e6f646573<<16+uint64(index), at(index))
		var f Frame
		type gain struct{ at, end, room float64 }
		gains := map[int]*gain{}
		rest := []float64{}
		for n.next(&f) {
			known := n.driver
			for _, p := range n.processes {
				known += float64(p.hidden) / mib
				g := gains[p.ID]
				if g == nil {
					g = &gain{at: -1}
					gains[p.ID] = g
				}
				g.end = float64(p.Used) / mib
				for _, l := range s.Leaks {
					if l.ID == p.ID && n.now >= l.From && g.at < 0 {
						g.at = g.end
						g.room = p.size + p.chunk + 2
					}
				}
				known += float64(p.Used) / mib
			}
			for _, r := range n.remains {
				known += float64(r.bytes) / mib
			}
			rest = append(rest, float64(n.used)/mib-known)
		}
		for _, l := range s.Leaks {
			lost := l.Rate * (l.To - l.From).Seconds() / mib
			if l.ID != 0 {
				g := gains[l.ID]
				// What is lost before the first frame and after the last is not seen.
				g.room += 3 * l.Rate / mib * s.Interval.Seconds()
				if l.Steady && lost > 500 && g.end-g.at < lost/2 {
					t.Errorf("seed %d: process %d gained %.0f MiB, but lost %.0f MiB steadily", seed, l.ID, g.end-g.at, lost)
				}
				if gained := g.end - g.at; math.Abs(gained-lost) > g.room {
					t.Errorf("seed %d: process %d gained %.0f MiB, lost %.0f MiB and needs at most %.0f MiB",
						seed, l.ID, gained, lost, g.room)
				}
			} else if l.Group == "" {
				from, to := int(l.From/s.Interval), int((l.To-1)/s.Interval)
				if gained := rest[to] - rest[from]; math.Abs(gained-lost) > 140+0.02*lost {
					t.Errorf("seed %d: %.0f MiB more of no process, but %.0f MiB lost", seed, gained, lost)
				}
			}
		}
	})
}

func TestOOM(t *testing.T) {
	each(t, func(t *testing.T, seed uint64, index int) {
		s, n := New(seed, index), create(seed, 0x6e6f646573<<16+uint64(index), at(index))
		if len(s.OOMs) == 0 {
			return
		}
		if !slices.IsSorted(s.OOMs) {
			t.Errorf("seed %d: OOMs at %v", seed, s.OOMs)
		}
		var f Frame
		before := map[int]bool{}
		for n.next(&f) {
			now := map[int]bool{}
			for _, p := range n.processes {
				now[p.ID] = true
			}
			if slices.Contains(s.OOMs, n.now) {
				died := false
				for id := range before {
					died = died || !now[id]
				}
				if !died {
					t.Errorf("seed %d: out of memory at %v, and all live on", seed, n.now)
				}
			}
			before = now
		}
	})
}

func TestStuck(t *testing.T) {
	each(t, func(t *testing.T, seed uint64, index int) {
		s := New(seed, index)
		if len(s.Zombies)+len(s.Unreleased) == 0 {
			return
		}
		memory := map[int]int64{}
		var f Frame
		for s.Next(&f) {
			sum := int64(0)
			for _, p := range f.Processes {
				sum += p.Used
				for _, z := range s.Zombies {
					if p.ID != z.ID || f.T < z.From {
						continue
					}
					if p.SM > 0 || f.T > z.To || memory[p.ID] != 0 && memory[p.ID] != p.Used {
						t.Fatalf("seed %d: zombie %v at %v is %v", seed, z, f.T, p)
					}
					memory[p.ID] = p.Used
				}
			}
			stays := int64(0)
			for _, u := range s.Unreleased {
				if u.From <= f.T && f.T < u.To {
					stays += u.Bytes
				}
			}
			if f.Used-sum < stays {
				t.Fatalf("seed %d: %d bytes should stay at %v, but %d are of no process", seed, stays, f.T, f.Used-sum)
			}
		}
	})
}

func BenchmarkStory(b *testing.B) {
	frames, processes := 0, 0
	var f Frame
	i := 0
	for b.Loop() {
		s := New(uint64(1+i/Stories), i%Stories)
		i++
		for s.Next(&f) {
			frames++
			processes += len(f.Processes)
		}
	}
	b.ReportMetric(float64(frames)/float64(i), "frames/op")
	b.ReportMetric(float64(processes)/float64(frames), "processes/frame")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(processes), "ns/process")
}
