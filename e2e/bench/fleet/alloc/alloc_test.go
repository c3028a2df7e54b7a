// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package alloc

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestSequences gives each allocator requests and compares what it reserves and what it has handed out. A call is a request (30m,
// 1k; 30m@1 on stream 1, 30m#1 in pool 1), the release of what request number N got (-N), or empty; "!" stands before a request
// that fails. Behind the colon are the bytes reserved and allocated then.
func TestSequences(t *testing.T) {
	for name, c := range map[string]struct {
		capacity uint64 // MiB
		o        Options
		calls    string
	}{
		"a small request takes a segment of 2 MiB":             {1000, Options{}, "1k:2m/1k 1m:2m/1025k 1m:4m/2049k -2:4m/1025k"},
		"a middle one takes 20 MiB, a large one what it needs": {1000, Options{}, "1025k:20m/1025k 9m:20m/10241k 12m:32m/22529k 15361k:48m/38913k"},
		"a rest of 1 MiB or less is not split off":             {1000, Options{}, "11m:12m/12m 1025k:32m/13313k"},
		"what is freed serves its own stream alone":            {1000, Options{}, "30m:30m/30m -1:30m/0k 30m@1:60m/30m 30m:60m/60m"},
		"neighbours are joined":                                {1000, Options{}, "6m:20m/6m 6m:20m/12m 6m:20m/18m -1:20m/12m -2:20m/6m 9m:20m/15m"},
		"one block holds a segment":                            {1000, Options{}, "6m:20m/6m 6m:20m/12m 40m:60m/52m -1:60m/46m -3:60m/6m empty:20m/6m -2:20m/0k empty:0k/0k"},
		"a full device flushes the cache and tries again":      {100, Options{}, "60m:60m/60m -1:60m/0k 70m:70m/70m !40m:70m/70m"},
		"a graph keeps its pool":                               {100, Options{}, "40m#1:40m/40m -1:40m/0k 40m:80m/40m empty:80m/40m"},
		"max_split_size keeps large blocks whole":              {1000, Options{MaxSplit: 50 * MiB}, "60m:60m/60m -1:60m/0k 30m:90m/30m 50m:90m/90m"},
		"max_split_size gives large blocks back first":         {100, Options{MaxSplit: 50 * MiB}, "60m:60m/60m 20m:80m/80m -1:80m/20m -2:80m/0k 30m:50m/30m"},
		"the oldest blocks go above the threshold":             {1000, Options{Limit: 100 * MiB, GCThreshold: 0.5}, "30m:30m/30m 28m:58m/58m -1:58m/28m -2:58m/0k 32m:62m/32m"},
		"a limit of the process":                               {1000, Options{Limit: 50 * MiB}, "40m:40m/40m !20m:40m/40m"},
		"an expandable segment grows by pages of 20 MiB":       {1000, Options{Expandable: true}, "30m:40m/30m 30m:60m/60m -1:60m/30m -2:60m/0k 60m:60m/60m"},
		"an expandable segment gives whole pages back":         {100, Options{Expandable: true}, "50m:60m/50m 10m:60m/60m -1:60m/10m empty:20m/10m 70m:100m/80m"},
		"BFC doubles its regions and keeps them":               {1000, Options{Kind: BFC}, "1k:2m/1k 3m:6m/4097k 3m:14m/7169k -2:14m/3073k empty:14m/3073k"},
		"BFC takes less where a region does not fit":           {100, Options{Kind: BFC}, "60m:64m/64m 20m:98m/98m !20m:98m/98m"},
		"BFC preallocates":                                     {1000, Options{Kind: BFC, Preallocate: 750 * MiB}, "300m:750m/300m !500m:750m/300m"},
		"cudaMalloc packs small requests, gives pages back":    {1000, Options{Kind: Plain}, "1k:2m/1k 1k:2m/2k 3m:6m/4098k -3:2m/2k -1:2m/1k -2:0k/0k"},
	} {
		t.Run(name, func(t *testing.T) {
			a := New(NewDevice(c.capacity*MiB), c.o)
			a.NewPool()
			var blocks []*Block
			for call := range strings.FieldsSeq(c.calls) {
				do, want, _ := strings.Cut(call, ":")
				request, fails := strings.CutPrefix(do, "!")
				switch {
				case do == "empty":
					a.EmptyCache()
				case do[0] == '-':
					a.Free(blocks[size(do[1:])-1])
				default:
					request, stream, _ := strings.Cut(request, "@")
					request, pool, _ := strings.Cut(request, "#")
					b := a.Alloc(size(request), int(size(stream)), int(size(pool)))
					if (b == nil) != fails {
						t.Fatalf("%s: failed %t", call, b == nil)
					}
					blocks = append(blocks, b)
				}
				reserved, allocated, _ := strings.Cut(want, "/")
				if a.Reserved() != size(reserved) || a.allocated != size(allocated) {
					t.Errorf("%s: %d KiB reserved and %d allocated", call, a.Reserved()/KiB, a.allocated/KiB)
				}
			}
		})
	}
}

// size reads a number of bytes; "" is 0.
func size(text string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimRight(text, "km"), 10, 64)
	if text != strings.TrimRight(text, "km") {
		n *= map[byte]uint64{'k': KiB, 'm': MiB}[text[len(text)-1]]
	}
	return n
}

// TestInvariants lets every kind live through random requests: the sums fit, and all memory comes back.
func TestInvariants(t *testing.T) {
	for _, o := range []Options{
		{}, {MaxSplit: 64 * MiB}, {Limit: 2 * GiB, GCThreshold: 0.6}, {Expandable: true}, {Kind: BFC}, {Kind: BFC, Preallocate: GiB}, {Kind: Plain},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		d := NewDevice(4 * GiB)
		d.Take(GiB) // of another process
		a := New(d, o)
		a.NewPool()
		var live []*Block
		for range 20000 {
			switch x := r.IntN(1000); {
			case x < 2:
				a.EmptyCache()
			case x < 520-len(live)/4 || len(live) == 0:
				if b := a.Alloc(uint64(1)<<(9+r.IntN(18))+uint64(r.IntN(4096)), r.IntN(2), r.IntN(2)); b != nil {
					live = append(live, b)
				}
			default:
				i := r.IntN(len(live))
				a.Free(live[i])
				live = slices.Delete(live, i, i+1)
			}
			sum := uint64(0)
			for _, b := range live {
				sum += b.Size()
			}
			if d.Used() > d.Capacity() || d.Used() != GiB+a.Reserved() || a.allocated > a.Reserved() || sum != a.allocated {
				t.Fatalf("%+v: %d used, %d reserved, %d allocated, %d in blocks", o, d.Used(), a.Reserved(), a.allocated, sum)
			}
		}
		for _, b := range live {
			a.Free(b)
		}
		for _, l := range a.lists {
			l.pool = 0 // as if no graph would replay
		}
		a.EmptyCache()
		if a.allocated != 0 || o.Kind != BFC && a.Reserved() != 0 {
			t.Errorf("%+v: %d bytes stay allocated, %d reserved", o, a.allocated, a.Reserved())
		}
		if a.Close(); d.Used() != GiB {
			t.Errorf("%+v: %d bytes of the device are used", o, d.Used())
		}
	}
}
