// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
	"unsafe"
)

// busyFrame is a frame of n members of which some grow, some breathe and some stay.
func busyFrame(f *Frame[int], n, s int, rng *rand.Rand) {
	f.T, f.Complete, f.Capacity, f.Used, f.Members = second(s), true, Of(80*gib), Of(gib), f.Members[:0]
	for k := range n {
		used := float64(gib)
		switch k % 4 {
		case 1:
			used += float64(s) * mib / 4
		case 2:
			used += float64(s%60) * 10 * mib
		case 3:
			used += float64(rng.IntN(64)) * 2 * mib
		}
		f.Members = append(f.Members, Member[int]{Key: k, Used: Of(round(used)), Started: start - time.Hour, SM: Of(0.5), CPU: Of(float64(s)), State: StateAlive})
		f.Used.V += used
	}
}

// BenchmarkObserve tells what a frame costs a member, all windows and scales included.
func BenchmarkObserve(b *testing.B) {
	benchmarkFrames(b, func(b *testing.B, d *Domain[int], f *Frame[int]) {
		if err := d.Observe(f); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkJudgement is the same with fits, verdicts and forecasts.
func BenchmarkJudgement(b *testing.B) {
	benchmarkFrames(b, func(b *testing.B, d *Domain[int], f *Frame[int]) { show(b, d, f) })
}

func benchmarkFrames(b *testing.B, observe func(*testing.B, *Domain[int], *Frame[int])) {
	for _, n := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			d, rng, s := newDomain(b), rand.New(rand.NewPCG(13, 14)), 0
			var f Frame[int]
			step := func() {
				s++
				busyFrame(&f, n, s, rng)
				observe(b, d, &f)
			}
			for range 700 { // every ring of the short window is full
				step()
			}
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/member")
		})
	}
}

// No frame costs an allocation but for those who are new in it: not that of a pod, nor a crash loop, of which a process
// begins every 120 frames.
func TestObserveAllocatesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 16))
	var busy Frame[int]
	loop := Frame[int]{Capacity: Of(80 * gib), Complete: true, Members: make([]Member[int], 0, 1)}
	for _, c := range []struct {
		name   string
		frame  func(s int) *Frame[int]
		frames int // before it counts
		most   float64
	}{
		{"a pod of 64", func(s int) *Frame[int] {
			busyFrame(&busy, 64, s, rng)
			for i := range busy.Members {
				busy.Members[i].Group = "pod"
			}
			return &busy
		}, 700, 0},
		{"a crash loop", func(s int) *Frame[int] {
			n, age := s/120, s%120
			loop.T, loop.Members, loop.Used = second(s), loop.Members[:0], Of(0)
			if age < 100 {
				loop.Used = Of(round(10*gib + float64(age)*600*mib))
				loop.Members = append(loop.Members, Member[int]{Key: n, Group: "ml/loop", Used: loop.Used})
			}
			return &loop
		}, 7200, 0.05},
	} {
		d, s := newDomain(t), 0
		step := func() {
			must(t, d.Observe(c.frame(s)))
			d.Judgement()
			s++
		}
		for range c.frames {
			step()
		}
		if n := testing.AllocsPerRun(3000, step); n > c.most {
			t.Errorf("%s: %g allocations a frame", c.name, n)
		}
	}
}

// TestSizes holds what a process costs against bounds: it is little while it is young, and grows to a limit.
func TestSizes(t *testing.T) {
	const members = 64
	rng, d := rand.New(rand.NewPCG(17, 18)), newDomain(t)
	var f Frame[int]
	before, s := heap(), 0
	for _, c := range []struct {
		after time.Duration
		most  int // KiB a process
	}{{20 * time.Second, 6}, {10 * time.Minute, 10}, {time.Hour, 14}, {12 * time.Hour, 16}} {
		for ; s < int(c.after/time.Second); s++ {
			busyFrame(&f, members, s, rng)
			f.T += time.Duration(rng.Int64N(3e6)) // as real times are
			must(t, d.Observe(&f))
		}
		size := (heap() - before) / members
		t.Logf("after %s: %d bytes a process", c.after, size)
		if size > c.most<<10 {
			t.Errorf("after %s a process takes %d bytes, more than %d KiB", c.after, size, c.most)
		}
	}
	runtime.KeepAlive(d)
	if size := unsafe.Sizeof(group[int]{}); size > 1664 {
		t.Errorf("a group takes %d bytes beside its series", size)
	}
}

// Processes that have ended leave next to nothing behind: their exits, and the room of a map.
func TestChurnLeavesNothing(t *testing.T) {
	rng, d := rand.New(rand.NewPCG(19, 20)), newDomain(t)
	var f Frame[int]
	before := heap()
	for s := range 600 {
		busyFrame(&f, 256, s, rng)
		for k := range f.Members {
			f.Members[k].Key += s / 20 * 1000
		}
		must(t, d.Observe(&f))
	}
	f.T, f.Members = f.T+time.Minute, f.Members[:1]
	for range 3 {
		f.T += time.Minute
		must(t, d.Observe(&f))
	}
	if left := heap() - before; left > 2<<20 {
		t.Errorf("%d KiB are left of 7,680 processes", left>>10)
	}
	runtime.KeepAlive(d)
}

// heap returns how many bytes are allocated and reachable.
func heap() int {
	runtime.GC()
	runtime.GC() // what the first one's finalizers held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
