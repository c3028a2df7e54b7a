// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// TestRegression learns what separates two clouds, and nothing of what does not.
func TestRegression(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func() (list []program) {
		for i := range 400 {
			leaks := i%2 == 0
			x := []float64{r.NormFloat64(), 1000 + 50*r.NormFloat64(), 7}
			if leaks {
				x[1] += 200
			}
			list = append(list, program{leaks: leaks, x: x})
		}
		return list
	}
	var learnt regression
	learnt.learn(draw())
	wrong := 0
	for _, p := range draw() {
		if learnt.score(p.x) > 0 != p.leaks {
			wrong++
		}
	}
	// Four deviations apart, halfway is two: 2.3 % are on the wrong side.
	if wrong > 20 {
		t.Errorf("%d of 400 are wrong", wrong)
	}
}

// TestFound counts the leaks above all healthy GPUs but a share.
func TestFound(t *testing.T) {
	var all []scored
	for i := range 200 { // every other one is a leak, the first is healthy
		all = append(all, scored{leaks: i%2 == 1})
	}
	if got, want := found(all, 100), []int{1, 3, 5, 10, 20}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := found([]scored{{leaks: true}}, 0); got[0] != 1 {
		t.Errorf("without a healthy one: %v", got)
	}
}

// TestBeginning wants ten whole minutes, and sees what is straight.
func TestBeginning(t *testing.T) {
	b := &beginning{first: time.Hour}
	for i := range 21 {
		if b.complete() {
			t.Fatalf("complete after %d blocks", i)
		}
		b.add(time.Hour+time.Duration(i)*limitBlock, float64(100+25*i), float64(200+25*i))
	}
	if !b.complete() {
		t.Error("ten minutes are not enough")
	}
	if slope, r2 := straightness([]float64{3, 5, 7}); slope != 2 || r2 != 1 {
		t.Errorf("slope %g, R² %g", slope, r2)
	}
	if slope, r2 := straightness([]float64{3, 3}); slope != 0 || r2 != 0 {
		t.Errorf("flat: slope %g, R² %g", slope, r2)
	}
}

// TestLimit learns from programs of which all that leak grow, and none else.
func TestLimit(t *testing.T) {
	family := func(name string, class fleet.Class, held bool, perSecond uint64) fleet.Family {
		return fleet.Family{Name: name, Class: class, Held: held, Draw: func(uint64) *fleet.Scenario { return begins(class, perSecond) }}
	}
	list := []fleet.Family{
		family("flat", fleet.Healthy, false, 0), family("leaks", fleet.Leak, false, 1<<20),
		family("slow", fleet.Leak, false, 1<<10), // no answer is asked for
		family("flat, held", fleet.Healthy, true, 0), family("leaks, held", fleet.Leak, true, 1<<20),
	}
	got := printed(t, options{limit: true, list: list, seeds: seedRange{1, 8}, marked: true})
	for _, want := range []string{"with other seeds | 8 | 8 | 8/8 100.0 %", "held out | 8 | 8 | 8/8 100.0 %"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if err := bench(&strings.Builder{}, options{limit: true, list: list[:1], seeds: seedRange{1, 8}}); err == nil {
		t.Error("no leak to learn from, and no error")
	}
}

// begins returns a GPU on which a program begins after a minute and lives for a quarter of an hour.
func begins(class fleet.Class, perSecond uint64) *fleet.Scenario {
	const start = 1000 * time.Second
	id := gpu.ProcessID{PID: 7, Start: 1}
	sc := &fleet.Scenario{Interval: 5 * time.Second, Truth: fleet.Truth{Start: start, Length: 16 * time.Minute}}
	if class == fleet.Leak {
		sc.Truth.Leaks = []fleet.LeakTruth{{Processes: []gpu.ProcessID{id}, From: start + time.Minute, Rate: float64(perSecond)}}
	}
	n := 0
	sc.Next = func(s *gpu.Sample) bool {
		at := time.Duration(n) * sc.Interval
		n++
		*s = gpu.Sample{T: start + at}
		if at >= time.Minute {
			used := gpu.Some(uint64(1<<30) + perSecond*uint64((at-time.Minute)/time.Second))
			s.Processes = []gpu.Process{{ID: id, Used: used, Allocator: &gpu.Allocator{Allocated: used}}}
		}
		return at < sc.Truth.Length
	}
	return sc
}
