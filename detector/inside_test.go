// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"cmp"
	"math"
	"testing"
	"time"
)

// parts is what a process with a probe holds, in MiB.
type parts struct{ used, reserved, allocated float64 }

// probed observes second s of a process that has a probe, unless it says nothing.
func probed(t *testing.T, d *Domain[int], s int, p parts) *Judgement[int] {
	t.Helper()
	m := Member[int]{Key: 1, Group: "ml/train", Program: "train.py", Used: Of(p.used * mib), SM: Of(0.8), CPU: Of(float64(s)), State: StateAlive, Started: start - time.Hour}
	if p.reserved > 0 {
		m.Reserved, m.Allocated = Of(p.reserved*mib), Of(p.allocated*mib)
	}
	return show(t, d, frame(s, 0, m))
}

// What grows in a process with a probe.
var (
	tensors  = func(g float64) parts { return parts{20_600 + g, 20_100 + g, 20_000 + g} } // and with them the memory
	reserved = func(g float64) parts { return parts{30_500, 30_000, 20_000 + g} }         // tensors, inside what is reserved
	pool     = func(g float64) parts { return parts{20_600 + g, 20_100 + g, 20_000} }
	library  = func(g float64) parts { return parts{20_600 + g, 20_100, 20_000} }
)

// TestInside runs a process for two hours, of which after 20 minutes something grows by 60 MiB a minute.
func TestInside(t *testing.T) {
	const silent = 4 * 3600 // the probe says nothing from then on
	for name, c := range map[string]struct {
		at     func(grown float64) parts
		silent int
		leak   bool
		grows  Inside
	}{
		"tensors, inside what is reserved":   {at: reserved, leak: true, grows: InsideTensors},
		"tensors, and with them the memory":  {at: tensors, leak: true, grows: InsideTensors},
		"a pool":                             {at: pool, grows: InsidePool},
		"a library":                          {at: library, leak: true, grows: InsideUntracked},
		"nothing":                            {at: func(float64) parts { return parts{20_600, 20_100, 20_000} }},
		"what nobody tells, in a process":    {at: pool, silent: 600, leak: true},
		"a process that says it has it all":  {at: func(g float64) parts { return parts{20_600, 1e6, 20_000 + 1000*g} }},
		"the memory, of which it tells less": {at: func(g float64) parts { return parts{20_600 + g, 1, 1} }, leak: true, grows: InsideUntracked},
	} {
		d := newDomain(t)
		leaked, grew := false, InsideUnknown
		for s := 1; s < 7200; s += 5 {
			p := c.at(float64(max(0, s-1200)))
			if s >= cmp.Or(c.silent, silent) {
				p.reserved = 0
			}
			j := probed(t, d, s, p)
			m := &j.Members[0].Verdict
			if m.Leak != j.Device.Leak {
				t.Fatalf("%s, second %d: the process leaks: %t; the GPU: %t", name, s, m.Leak, j.Device.Leak)
			}
			if m.Leak && m.Pattern == PatternPlateau || !m.Leak && m.Pattern.Leaks() {
				t.Fatalf("%s, second %d: it leaks: %t; its pattern is %v", name, s, m.Leak, m.Pattern)
			}
			leaked, grew = leaked || m.Leak, max(grew, j.Members[0].Grows)
			if !m.Leak {
				continue
			}
			if math.Abs(m.Rate.V/mib-1) > 0.1 {
				t.Errorf("%s, second %d: %g MiB/s", name, s, m.Rate.V/mib)
			}
			if eta := j.Headroom.V / m.Rate.V; math.Abs(m.SecondsToOOM.V/eta-1) > 1e-9 {
				t.Errorf("%s, second %d: out of memory in %g s, want %g", name, s, m.SecondsToOOM.V, eta)
			}
		}
		if leaked != c.leak || grew != c.grows {
			t.Errorf("%s: it leaks: %t; what grows: %q", name, leaked, grew)
		}
	}
}

// TestInsideAfterALongPause goes on from a state after a quarter of an hour. The pages of probes are found some seconds
// later: until then what is inside is as it was. A process that had told nothing for long is judged by its memory at once.
func TestInsideAfterALongPause(t *testing.T) {
	const saved, back = 5000, 5900
	for name, c := range map[string]struct {
		at           func(grown float64) parts
		silent, told int // from when on the probe says nothing, and until when
		leak         bool
		grows        Inside
	}{
		"a pool":                           {at: pool, silent: saved, told: back + 15, grows: InsidePool},
		"tensors, inside what is reserved": {at: reserved, silent: saved, told: back + 15, leak: true, grows: InsideTensors},
		"a probe that is gone":             {at: pool, silent: 3000, told: 2 * back, leak: true},
	} {
		before, d := newDomain(t), newDomain(t)
		at := func(s int) parts {
			p := c.at(float64(max(0, s-1200)))
			if s >= c.silent && s < c.told {
				p.reserved = 0
			}
			return p
		}
		for s := 1; s < saved; s += 5 {
			probed(t, before, s, at(s))
		}
		must(t, d.Restore(before.Save(nil), anyone))
		for s := back; s < back+300; s += 5 {
			m := probed(t, d, s, at(s)).Members[0]
			if m.Leak != c.leak || m.Grows != c.grows {
				t.Errorf("%s, %d s after the restart: it leaks: %t; what grows: %q", name, s-back, m.Leak, m.Grows)
			}
		}
	}
}

// TestInsideWithoutList leaves the list out of a frame: what leaks goes on as before, and the pool that fills beside it is
// no part of it.
func TestInsideWithoutList(t *testing.T) {
	d := newDomain(t)
	var before float64
	for s := 1; s < 5000; s += 5 {
		grown := float64(max(0, s-1200)) * mib
		leaks, fills := proc(1, 2*gib+grown/10), proc(2, 4*gib+grown)
		fills.Reserved, fills.Allocated = Of(fills.Used.V-gib), Of(2*gib)
		f := frame(s, gib, leaks, fills)
		missing := s > 4000 && s%500 == 1
		if missing {
			f.Members, f.Complete = f.Members[:1], false
		}
		v := &show(t, d, f).Device
		if missing && (!v.Leak || math.Abs(v.SecondsToOOM.V/before-1) > 0.1) {
			t.Errorf("second %d: it leaks: %t; out of memory in %g s, %g s in the frame before", s, v.Leak, v.SecondsToOOM.V, before)
		}
		before = v.SecondsToOOM.V
	}
}

// TestPoolsOfAGroup runs the two ranks of a job whose pools fill for an hour and a half: no leak of either, of
// the job or of the GPU.
func TestPoolsOfAGroup(t *testing.T) {
	for _, tells := range []bool{true, false} {
		d := newDomain(t)
		leaked := false
		for s := 1; s < 7200; s += 5 {
			rank := proc(1, (20_600+float64(max(0, s-1200)))*mib)
			rank.Group, rank.SM = "ml/ddp", Of(0.8)
			if tells {
				rank.Reserved, rank.Allocated = Of(rank.Used.V-500*mib), Of(20_000*mib)
			}
			other := rank
			other.Key = 2
			j := show(t, d, frame(s, 0, rank, other))
			leaked = leaked || j.Device.Leak || j.Groups[0].Leak || j.Members[0].Leak || j.Members[1].Leak
			if v := &j.Groups[0].Verdict; tells && (v.Pattern.Leaks() || v.Confidence >= 0.7 || j.Device.Confidence >= 0.7) {
				t.Fatalf("second %d: %+v", s, v)
			}
		}
		if leaked == tells {
			t.Errorf("it leaks: %t; it tells: %t", leaked, tells)
		}
	}
}

// TestFoundInside tells when growth in a process is found, and after nine minutes why not yet: the reason is that of the part that
// decides, the time that it says is what it takes, and the GPU says the same. The process may wait for less than others do, by a rule
// of --detector.config.
func TestFoundInside(t *testing.T) {
	const nine, fast = 9 * 60, 1800 // seconds; the fast ones are quiet until then
	for name, c := range map[string]struct {
		at     func(grown float64) parts
		begins int
		rate   float64 // MiB/s
		settle time.Duration
		why    Withheld
		found  int // the minute in which it is a leak; 0 never
	}{
		"tensors":                          {tensors, 0, 1, time.Hour, WithheldProgramBegin, 21},
		"tensors, inside what is reserved": {reserved, 0, 1, time.Hour, WithheldProgramBegin, 21},
		"a library":                        {library, 0, 1, time.Hour, WithheldProgramBegin, 21},
		"a pool, which will not be a leak": {pool, 0, 1, time.Hour, WithheldNone, 0},
		"tensors that wait for less":       {tensors, 0, 1, 10 * time.Minute, WithheldProgramBegin, 11},
		"for as long as any growth":        {tensors, 0, 1, 6 * time.Minute, WithheldProgramBegin, 7},
		"fast tensors":                     {tensors, fast, 10, time.Hour, WithheldNone, 37},
		"a fast pool":                      {pool, fast, 10, time.Hour, WithheldNone, 0},
		"nobody knows":                     {func(g float64) parts { return parts{used: 20_600 + g} }, fast, 10, time.Hour, WithheldNone, 37},
	} {
		d := newDomainOf(t, func(of Subject[int]) Config {
			cfg := defaults(of)
			if of.Kind == KindMember {
				cfg.SettleTime = c.settle
			}
			return cfg
		})
		seen, at, found := Verdict{}, 0, 0
		for s := 1; s < 70*60 && found == 0; s += 5 {
			j := probed(t, d, s, c.at(c.rate*float64(max(0, s-c.begins))))
			v := j.Members[0].Verdict
			if v.Leak {
				found = s
			} else if s <= nine {
				seen, at = v, s
			}
			if of := &j.Device; !v.Leak && (of.Withheld != v.Withheld || of.WithheldFor != v.WithheldFor || of.Lasted != v.Lasted) {
				t.Fatalf("%s, second %d: the GPU waits with %+v, its process with %+v", name, s, of, v)
			}
		}
		if minute := found/60 + btoi(found > 0); seen.Withheld != c.why || minute != c.found {
			t.Errorf("%s: withheld because of %q, found in minute %d, want %q and %d", name, seen.Withheld, minute, c.why, c.found)
		}
		if told := time.Duration(found-at) * time.Second; c.why == WithheldProgramBegin && (seen.WithheldFor-told).Abs() > 2*time.Minute {
			t.Errorf("%s: it said that it takes %s; it took %s", name, seen.WithheldFor, told)
		}
	}
}

// Memory is in pieces where the allocator says so, and no longer. What leaks is a leak.
func TestFragmentation(t *testing.T) {
	for name, c := range map[string]struct {
		reserved, split, grows float64 // MiB, MiB, MiB/s
		want                   Pattern
	}{
		"a third":             {30_000, 10_000, 0, PatternFragmentation},
		"a quarter":           {30_000, 7_500, 0, PatternStable},
		"next to nothing":     {100, 40, 0, PatternStable},
		"a third, and a leak": {10_000, 4_000, 1, PatternLeakLinear},
	} {
		patterns := patternsOf(t, func(s int) Member[int] {
			grown := c.grows * float64(max(0, s-1200))
			m := proc(0, (40_000+grown)*mib)
			if s < 3500 {
				m.Reserved, m.Allocated, m.Split = Of((c.reserved+grown)*mib), Of((c.reserved-c.split+grown)*mib), Of(c.split*mib)
			}
			return m
		})
		if patterns[3000] != c.want || patterns[3599] == PatternFragmentation {
			t.Errorf("%s: %s, and %s without a probe", name, patterns[3000], patterns[3599])
		}
	}
}
