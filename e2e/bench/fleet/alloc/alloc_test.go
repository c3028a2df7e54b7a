// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"math/rand/v2"
	"testing"
)

// op is a call: a size above 0 allocates, one below frees block number −size
// (counted from 1), and 0 empties the cache.
type op struct {
	kib          int // of the request
	free         int
	stream, pool int
	reserved     int // afterwards, in KiB
	allocated    int
	fails        bool
}

func TestSequences(t *testing.T) {
	const m = 1024
	for name, c := range map[string]struct {
		capacity int // MiB
		o        Options
		pools    int
		ops      []op
	}{
		"a small request takes a segment of 2 MiB": {1000, Options{}, 0, []op{
			{kib: 1, reserved: 2 * m, allocated: 1},
			{kib: 1024, reserved: 2 * m, allocated: 1025},
			{kib: 1024, reserved: 4 * m, allocated: 2049},
			{free: 2, reserved: 4 * m, allocated: 1025},
		}},
		"a middle one takes 20 MiB, a large one what it needs": {1000, Options{}, 0, []op{
			{kib: 1025, reserved: 20 * m, allocated: 1025},
			{kib: 9 * m, reserved: 20 * m, allocated: 1025 + 9*m},
			{kib: 15*m + 1, reserved: 36 * m, allocated: 25*m + 1025},
		}},
		"a rest of 1 MiB or less is not split off": {1000, Options{}, 0, []op{
			{kib: 11 * m, reserved: 12 * m, allocated: 12 * m},
			{kib: 1025, reserved: 32 * m, allocated: 12*m + 1025},
		}},
		"what is freed serves its own stream alone": {1000, Options{}, 0, []op{
			{kib: 30 * m, reserved: 30 * m, allocated: 30 * m},
			{free: 1, reserved: 30 * m},
			{kib: 30 * m, stream: 1, reserved: 60 * m, allocated: 30 * m},
			{kib: 30 * m, reserved: 60 * m, allocated: 60 * m},
		}},
		"neighbours are joined": {1000, Options{}, 0, []op{
			{kib: 6 * m, reserved: 20 * m, allocated: 6 * m},
			{kib: 6 * m, reserved: 20 * m, allocated: 12 * m},
			{kib: 6 * m, reserved: 20 * m, allocated: 18 * m},
			{free: 1, reserved: 20 * m, allocated: 12 * m},
			{free: 2, reserved: 20 * m, allocated: 6 * m},
			{kib: 9 * m, reserved: 20 * m, allocated: 15 * m},
		}},
		"one block holds a segment": {1000, Options{}, 0, []op{
			{kib: 6 * m, reserved: 20 * m, allocated: 6 * m},
			{kib: 6 * m, reserved: 20 * m, allocated: 12 * m},
			{kib: 40 * m, reserved: 60 * m, allocated: 52 * m},
			{free: 1, reserved: 60 * m, allocated: 46 * m},
			{free: 3, reserved: 60 * m, allocated: 6 * m},
			{reserved: 20 * m, allocated: 6 * m},
			{free: 2, reserved: 20 * m},
			{},
		}},
		"a full device flushes the cache and tries again": {100, Options{}, 0, []op{
			{kib: 60 * m, reserved: 60 * m, allocated: 60 * m},
			{free: 1, reserved: 60 * m},
			{kib: 70 * m, reserved: 70 * m, allocated: 70 * m},
			{kib: 40 * m, reserved: 70 * m, allocated: 70 * m, fails: true},
		}},
		"a graph keeps its pool until it is released": {100, Options{}, 1, []op{
			{kib: 40 * m, pool: 1, reserved: 40 * m, allocated: 40 * m},
			{free: 1, reserved: 40 * m},
			{kib: 40 * m, reserved: 80 * m, allocated: 40 * m},
			{reserved: 80 * m, allocated: 40 * m},
		}},
		"max_split_size keeps large blocks whole": {1000, Options{MaxSplit: 50 * MiB}, 0, []op{
			{kib: 60 * m, reserved: 60 * m, allocated: 60 * m},
			{free: 1, reserved: 60 * m},
			{kib: 30 * m, reserved: 90 * m, allocated: 30 * m},
			{kib: 50 * m, reserved: 90 * m, allocated: 90 * m},
		}},
		"max_split_size gives large blocks back first": {100, Options{MaxSplit: 50 * MiB}, 0, []op{
			{kib: 60 * m, reserved: 60 * m, allocated: 60 * m},
			{kib: 20 * m, reserved: 80 * m, allocated: 80 * m},
			{free: 1, reserved: 80 * m, allocated: 20 * m},
			{free: 2, reserved: 80 * m},
			{kib: 30 * m, reserved: 50 * m, allocated: 30 * m},
		}},
		"the oldest blocks go above the threshold": {1000, Options{Limit: 100 * MiB, GCThreshold: 0.5}, 0, []op{
			{kib: 30 * m, reserved: 30 * m, allocated: 30 * m},
			{kib: 28 * m, reserved: 58 * m, allocated: 58 * m},
			{free: 1, reserved: 58 * m, allocated: 28 * m},
			{free: 2, reserved: 58 * m},
			{kib: 32 * m, reserved: 62 * m, allocated: 32 * m},
		}},
		"a limit of the process": {1000, Options{Limit: 50 * MiB}, 0, []op{
			{kib: 40 * m, reserved: 40 * m, allocated: 40 * m},
			{kib: 20 * m, reserved: 40 * m, allocated: 40 * m, fails: true},
		}},
		"an expandable segment grows by pages of 20 MiB": {1000, Options{Expandable: true}, 0, []op{
			{kib: 30 * m, reserved: 40 * m, allocated: 30 * m},
			{kib: 30 * m, reserved: 60 * m, allocated: 60 * m},
			{free: 1, reserved: 60 * m, allocated: 30 * m},
			{free: 2, reserved: 60 * m},
			{kib: 60 * m, reserved: 60 * m, allocated: 60 * m},
		}},
		"an expandable segment gives whole pages back": {100, Options{Expandable: true}, 0, []op{
			{kib: 50 * m, reserved: 60 * m, allocated: 50 * m},
			{kib: 10 * m, reserved: 60 * m, allocated: 60 * m},
			{free: 1, reserved: 60 * m, allocated: 10 * m},
			{reserved: 20 * m, allocated: 10 * m},
			{kib: 70 * m, reserved: 100 * m, allocated: 80 * m},
		}},
		"BFC doubles its regions and keeps them": {1000, Options{Kind: BFC}, 0, []op{
			{kib: 1, reserved: 2 * m, allocated: 1},
			{kib: 3 * m, reserved: 6 * m, allocated: 3*m + 1 + 1024},
			{kib: 3 * m, reserved: 14 * m, allocated: 6*m + 1025},
			{free: 2, reserved: 14 * m, allocated: 3*m + 1},
			{reserved: 14 * m, allocated: 3*m + 1},
		}},
		"BFC takes less where a region does not fit": {100, Options{Kind: BFC}, 0, []op{
			{kib: 60 * m, reserved: 64 * m, allocated: 64 * m},
			{kib: 20 * m, reserved: 64*m + 34*m, allocated: 64*m + 34*m},
			{kib: 20 * m, reserved: 98 * m, allocated: 98 * m, fails: true},
		}},
		"BFC preallocates": {1000, Options{Kind: BFC, Preallocate: 750 * MiB}, 0, []op{
			{kib: 300 * m, reserved: 750 * m, allocated: 300 * m},
			{kib: 500 * m, reserved: 750 * m, allocated: 300 * m, fails: true},
		}},
		"cudaMalloc packs small requests and gives pages back": {1000, Options{Kind: Plain}, 0, []op{
			{kib: 1, reserved: 2 * m, allocated: 1},
			{kib: 1, reserved: 2 * m, allocated: 2},
			{kib: 3 * m, reserved: 6 * m, allocated: 4*m + 2},
			{free: 3, reserved: 2 * m, allocated: 2},
			{free: 1, reserved: 2 * m, allocated: 1},
			{free: 2},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			d := NewDevice(uint64(c.capacity) * MiB)
			a := New(d, c.o)
			for range c.pools {
				a.NewPool()
			}
			var blocks []*Block
			for i, o := range c.ops {
				switch {
				case o.kib > 0:
					b := a.Alloc(uint64(o.kib)*KiB, o.stream, o.pool)
					if (b == nil) != o.fails {
						t.Fatalf("call %d: failed %t", i+1, b == nil)
					}
					if b != nil {
						blocks = append(blocks, b)
					}
				case o.free > 0:
					a.Free(blocks[o.free-1])
				default:
					a.EmptyCache()
				}
				if r, n := int(a.Reserved()/KiB), int(a.Allocated()/KiB); r != o.reserved || n != o.allocated {
					t.Errorf("call %d: %d KiB reserved and %d allocated, want %d and %d", i+1, r, n, o.reserved, o.allocated)
				}
			}
		})
	}
}

func TestReleasedPoolGoesWithTheCache(t *testing.T) {
	a := New(NewDevice(GiB), Options{})
	p := a.NewPool()
	a.Free(a.Alloc(40*MiB, 0, p))
	a.EmptyCache()
	if a.Reserved() != 40*MiB {
		t.Errorf("a pool in use gave %d back", 40*MiB-a.Reserved())
	}
	a.ReleasePool(p)
	a.EmptyCache()
	if a.Reserved() != 0 {
		t.Errorf("%d stay reserved", a.Reserved())
	}
}

// TestInvariants lets every kind live through random requests.
func TestInvariants(t *testing.T) {
	for name, o := range map[string]Options{
		"caching": {}, "split": {MaxSplit: 64 * MiB}, "gc": {Limit: 2 * GiB, GCThreshold: 0.6},
		"expandable": {Expandable: true}, "bfc": {Kind: BFC}, "prealloc": {Kind: BFC, Preallocate: GiB}, "plain": {Kind: Plain},
	} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			d := NewDevice(4 * GiB)
			if !d.Take(GiB) { // of another process
				t.Fatal("the device is not empty")
			}
			a := New(d, o)
			a.NewPool()
			var live []*Block
			failed := 0
			for range 20000 {
				switch x := r.IntN(1000); {
				case x < 2:
					a.EmptyCache()
				case x < 520-len(live)/4 || len(live) == 0:
					if b := a.Alloc(uint64(1)<<(9+r.IntN(18))+uint64(r.IntN(4096)), r.IntN(2), r.IntN(2)); b != nil {
						live = append(live, b)
					} else {
						failed++
					}
				default:
					i := r.IntN(len(live))
					a.Free(live[i])
					live[i] = live[len(live)-1]
					live = live[:len(live)-1]
				}
				check(t, a, d, live)
			}
			for _, b := range live {
				a.Free(b)
			}
			if a.Allocated() != 0 {
				t.Errorf("%d bytes stay allocated", a.Allocated())
			}
			for i := 1; i < len(a.pools); i++ {
				a.ReleasePool(i)
			}
			a.EmptyCache()
			if o.Kind != BFC && a.Reserved() != 0 {
				t.Errorf("%d bytes stay reserved", a.Reserved())
			}
			a.Close()
			if d.Used() != GiB {
				t.Errorf("%d bytes of the device are used", d.Used())
			}
			t.Logf("%d requests failed", failed)
		})
	}
}

func check(t *testing.T, a *Allocator, d *Device, live []*Block) {
	t.Helper()
	if d.Used() > d.Capacity() || d.Used() != GiB+a.Reserved() || a.Allocated() > a.Reserved() {
		t.Fatalf("%d used, %d reserved, %d allocated", d.Used(), a.Reserved(), a.Allocated())
	}
	sum := uint64(0)
	for _, b := range live {
		sum += b.Size()
	}
	if sum != a.Allocated() {
		t.Fatalf("the blocks have %d bytes, %d are allocated", sum, a.Allocated())
	}
}

func BenchmarkStep(b *testing.B) {
	a := New(NewDevice(80*GiB), Options{})
	r := rand.New(rand.NewPCG(1, 2))
	for b.Loop() {
		var blocks [16]*Block
		for i := range blocks {
			blocks[i] = a.Alloc(uint64(r.IntN(100*MiB)), 0, 0)
		}
		for _, x := range blocks {
			a.Free(x)
		}
	}
}
