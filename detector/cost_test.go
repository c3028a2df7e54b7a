// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"
)

// busyFrame is a frame of n members of which some grow, some breathe and some
// stay.
func busyFrame(f *Frame[int], n, second int, rng *rand.Rand) {
	f.T = start + time.Duration(second)*time.Second
	f.Complete, f.Capacity, f.Used = true, Of(80*gib), Of(gib)
	f.Members = f.Members[:0]
	for k := range n {
		used := float64(gib)
		switch k % 4 {
		case 1:
			used += float64(second) * mib / 4
		case 2:
			used += float64(second%60) * 10 * mib
		case 3:
			used += float64(rng.IntN(64)) * 2 * mib
		}
		f.Members = append(f.Members, Member[int]{Key: k, Used: Of(round(used)), Started: start - time.Hour, SM: Of(0.5), CPU: Of(float64(second)), State: StateAlive})
		f.Used.V += used
	}
}

// BenchmarkObserve tells what a frame costs a member, all windows and scales
// included.
func BenchmarkObserve(b *testing.B) {
	benchmarkFrames(b, func(d *Domain[int], f *Frame[int]) error { return d.Observe(f) })
}

// BenchmarkJudgement is the same with fits, verdicts and forecasts.
func BenchmarkJudgement(b *testing.B) {
	benchmarkFrames(b, func(d *Domain[int], f *Frame[int]) error {
		_, err := look(d, f)
		return err
	})
}

func benchmarkFrames(b *testing.B, observe func(*Domain[int], *Frame[int]) error) {
	for _, n := range []int{1, 64, 1024} {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			d := newDomain(b)
			rng := rand.New(rand.NewPCG(13, 14))
			var f Frame[int]
			second := 0
			step := func() {
				second++
				busyFrame(&f, n, second, rng)
				if err := observe(d, &f); err != nil {
					b.Fatal(err)
				}
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

func TestObserveAllocatesNothing(t *testing.T) {
	d := newDomain(t)
	rng := rand.New(rand.NewPCG(15, 16))
	var f Frame[int]
	second := 0
	step := func() {
		second++
		busyFrame(&f, 64, second, rng)
		for i := range f.Members {
			f.Members[i].Group = "pod"
		}
		if err := d.Observe(&f); err != nil {
			t.Fatal(err)
		}
		d.Judgement()
	}
	for range 700 {
		step()
	}
	if n := testing.AllocsPerRun(2000, step); n != 0 {
		t.Errorf("%g allocations a frame", n)
	}
}

func TestSeriesIsSmall(t *testing.T) {
	s := newSeries(DefaultConfig())
	size := unsafe.Sizeof(*s) + uintptr(len(s.windows))*unsafe.Sizeof(s.windows[0])
	if size > 24<<10 {
		t.Errorf("a series takes %d bytes, more than 24 KiB", size)
	}
}
