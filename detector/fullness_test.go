// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math/rand/v2"
	"testing"
)

// Who gives back at the top of the memory what he gained there, again and again, has cycles as anywhere
// else: in a memory that is full all the time, as engines hold it that reserve nine tenths, and where the
// tops of the cycles fill it. The first cycle is like a leak everywhere.
func TestTeethInAFullMemory(t *testing.T) {
	for _, held := range []float64{20, 67, 68, 69, 70, 73} {
		for _, listed := range []bool{true, false} {
			for seed := range uint64(3) {
				if begins := alarmsOfTeeth(t, seed, held*gib, listed); begins > 0 {
					t.Errorf("%g GiB held, processes listed: %t, seed %d: %d alarms after the first cycles", held, listed, seed, begins)
				}
			}
		}
	}
}

// alarmsOfTeeth returns how many alarms begin in the last 3 of 4 hours in which one process rises by 2 to
// 3 GiB in 6 to 14 minutes, and falls, again and again, above what others hold.
func alarmsOfTeeth(t *testing.T, seed uint64, held float64, listed bool) (begins int) {
	rng := rand.New(rand.NewPCG(seed, 1))
	d, leak, from, to, high := newDomain(t), false, 0, 1800, 0.0
	for s := 0; s < 4*3600; s += 2 {
		if s >= to {
			from, to, high = to, to+360+rng.IntN(480), 2*gib+rng.Float64()*gib
		}
		f := frame(s, 0, proc(1, held), proc(2, 2*gib+high*float64(s-from)/float64(to-from)))
		if !listed {
			f.Members, f.Complete = nil, false
		}
		j := show(t, d, f)
		begins += btoi(j.Device.Leak && !leak && s > 3600)
		leak = j.Device.Leak
	}
	return begins
}

// An allocator that empties its cache because the memory runs out has given nothing back, also where
// others hold most of the memory: the leak goes on until that is full again.
func TestFlushOnASharedGPU(t *testing.T) {
	for _, others := range []float64{0, 50 * gib} {
		d, base, flushed, found := newDomain(t), 70*gib-others, 0.0, false
		for s := 0; ; s++ {
			used := base + 4*mib*float64(max(0, s-1800)) - flushed
			if free := 80*gib - used - others; free < 2*gib && flushed == 0 {
				flushed = 0.4 * (used - base)
			} else if free <= 0 {
				break
			}
			leak := show(t, d, frame(s, 0, proc(1, used), proc(2, others))).Device.Leak
			if found && !leak {
				t.Fatalf("beside %g GiB the leak ends at %d s, %g GiB flushed", others/gib, s, flushed/gib)
			}
			found = leak
		}
		if !found || flushed == 0 {
			t.Errorf("beside %g GiB: found %t, %g GiB flushed", others/gib, found, flushed/gib)
		}
	}
}

// After a flush that frees much the leak is told again long before the memory is full again: the flush
// has not given back what a leak gains.
func TestLeakAfterAFlush(t *testing.T) {
	const others, rate, flush = 30 * gib, 6 * gib / 3600., 12 * gib
	d, flushed := newDomain(t), 0
	for s := 0; flushed == 0 || s < flushed+45*60; s += 2 {
		used := 10*gib + rate*float64(max(0, s-3600))
		if flushed > 0 {
			used -= flush
		} else if used+others >= 78*gib {
			flushed = s
		}
		show(t, d, frame(s, 0, proc(1, used), proc(2, others)))
	}
	if j := d.Judgement(); !j.Device.Leak || !j.Members[0].Leak {
		t.Errorf("45 min after the flush at %d s no leak: %+v", flushed, j.Members[0].Verdict)
	}
}
