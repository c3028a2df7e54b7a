// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math/rand/v2"
	"testing"
	"time"
)

// teeth is a healthy demand: from low on it rises by 2 to 3 GiB in fast to slow seconds, and
// falls, again and again.
type teeth struct {
	r          *rand.Rand
	fast, slow int
	low        float64
	from, to   int     // of the present one
	high       float64 // its top
}

// at returns the demand at second s, which must not be before the last one, in bytes.
func (d *teeth) at(s int) float64 {
	for s >= d.to {
		d.from, d.to = d.to, d.to+d.fast+d.r.IntN(d.slow-d.fast)
		d.high = d.low + 2*gib + d.r.Float64()*gib
	}
	return round(d.low + (d.high-d.low)*float64(s-d.from)/float64(d.to-d.from))
}

// Who gives back at the top of the memory what he gained there, again and again, has cycles as
// anywhere else: in a memory that is full all the time, as engines hold it that reserve nine
// tenths, and where the tops of the cycles fill it. The first cycle is like a leak everywhere.
func TestTeethInAFullMemory(t *testing.T) {
	for _, held := range []float64{20, 67, 68, 69, 70, 73} {
		for _, listed := range []bool{true, false} {
			for seed := range uint64(4) {
				if begins := alarmsOfTeeth(t, seed, held*gib, listed); begins > 0 {
					t.Errorf("%g GiB held, processes listed: %t, seed %d: %d alarms after the first cycles", held, listed, seed, begins)
				}
			}
		}
	}
}

// alarmsOfTeeth returns how many alarms begin in the last 3 of 3½ hours of teeth, above what
// others hold in bytes.
func alarmsOfTeeth(t *testing.T, seed uint64, held float64, listed bool) (begins int) {
	d := newDomain(t)
	demand := teeth{r: rand.New(rand.NewPCG(seed, 1)), low: 2 * gib, fast: 360, slow: 840}
	f := Frame[int]{Capacity: Of(80 * gib), Complete: listed}
	leak := false
	for s := range 4 * 3600 {
		used := 2.0 * gib
		if s > 1800 {
			used = demand.at(s - 1800)
		}
		f.T, f.Used = seconds2026(s), Of(held+used)
		if listed {
			f.Members = append(f.Members[:0], Member[int]{Key: 1, Used: Of(held), Started: start}, Member[int]{Key: 2, Used: Of(used), Started: start})
		}
		if err := d.Observe(&f); err != nil {
			t.Fatal(err)
		}
		was := leak
		if leak = d.Judgement().Device.Leak; leak && !was && s > 3600 {
			begins++
		}
	}
	return begins
}

// An allocator that empties its cache because the memory runs out has given nothing back,
// also where others hold most of the memory: the leak goes on until that is full again.
func TestFlushOnASharedGPU(t *testing.T) {
	for _, others := range []float64{0, 50} { // GiB
		d, f := newDomain(t), Frame[int]{Capacity: Of(80 * gib), Complete: true}
		base, flushed, found := 70*gib-others*gib, 0.0, false
		for s := 0; ; s++ {
			used := round(base + 4*mib*float64(max(0, s-1800)) - flushed)
			if free := 80*gib - used - others*gib; free < 2*gib && flushed == 0 {
				flushed = 0.4 * (used - base)
			} else if free <= 0 {
				break
			}
			f.T, f.Used = seconds2026(s), Of(used+others*gib)
			f.Members = append(f.Members[:0], Member[int]{Key: 1, Used: Of(used), Started: start}, Member[int]{Key: 2, Used: Of(others * gib), Started: start})
			if err := d.Observe(&f); err != nil {
				t.Fatal(err)
			}
			leak := d.Judgement().Device.Leak
			if found && !leak {
				t.Errorf("beside %g GiB the leak ends at %d s, %g GiB flushed", others, s, flushed/gib)
				break
			}
			found = leak
		}
		if !found || flushed == 0 {
			t.Errorf("beside %g GiB: found %t, %g GiB flushed", others, found, flushed/gib)
		}
	}
}

// After a flush that frees much the leak is told again long before the memory is full again: at
// no scale has the flush given back what a leak gains.
func TestLeakAfterAFlush(t *testing.T) {
	d, f := newDomain(t), Frame[int]{Capacity: Of(80 * gib), Complete: true}
	const others, rate, flush = 30 * gib, 6 * gib / 3600., 12 * gib
	flushed := 0
	for s := 0; flushed == 0 || s < flushed+45*60; s++ {
		used := round(10*gib + rate*float64(max(0, s-3600)))
		if flushed > 0 {
			used -= flush
		} else if used+others >= 78*gib {
			flushed = s
		}
		f.T, f.Used = seconds2026(s), Of(used+others)
		f.Members = append(f.Members[:0], Member[int]{Key: 1, Used: Of(used), Started: start}, Member[int]{Key: 2, Used: Of(others), Started: start})
		if err := d.Observe(&f); err != nil {
			t.Fatal(err)
		}
	}
	if j := d.Judgement(); !j.Device.Leak || !j.Members[0].Leak {
		t.Errorf("45 min after the flush at %d s no leak: %+v", flushed, j.Members[0].Verdict)
	}
	for i := range d.members[1].ladder {
		if given := d.members[1].ladder[i].given; given > 0 {
			t.Errorf("scale %d: %g GiB given back", i, given*unit/gib)
		}
	}
}

// For how long a memory has been full is counted anew where it was not for an hour, and where
// who held much of it has ended.
func TestFullLately(t *testing.T) {
	var f fullness
	minutes := func(n int) int64 { return int64(n) * int64(time.Minute) }
	for _, c := range []struct {
		at, used     int // min, GiB
		left         bool
		since, until int // of what was full lately, min
	}{
		{1, 50, false, 0, 0},
		{2, 75, false, 2, 2},
		{3, 76, false, 2, 3},
		{10, 50, false, 2, 3},
		{61, 75, false, 2, 61},
		{122, 75, false, 122, 122},
		{123, 50, true, 122, 122},
		{130, 75, false, 130, 130},
		{131, 75, false, 130, 131},
	} {
		f.left = f.left || c.left
		f.note(minutes(c.at), int64(c.used)*gib, 80*gib)
		if f.lately != minutes(c.since) || f.until != minutes(c.until) {
			t.Errorf("minute %d: full from %d to %d, want %+v", c.at, f.lately/minutes(1), f.until/minutes(1), c)
		}
	}
}
