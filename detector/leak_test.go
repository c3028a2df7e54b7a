// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// exp is memory that fills up to high GiB with that time constant, in seconds.
func exp(s int, high, constant float64) float64 {
	return high * gib * (1 - math.Exp(-float64(s)/constant))
}

// A leak that goes on for as long as it takes to fill the memory is told once, however slow it is.
func TestSlowLeakStaysOne(t *testing.T) {
	for _, rate := range []float64{0.1, 0.3, 1} { // MiB/s
		hours := int(min(40, 60*1024/rate/3600))
		told, last := follow(t, 7200+hours*3600, 10, func(s int) Member[int] {
			m := proc(1, 10*gib+rate*mib*float64(max(0, s-7200)))
			m.SM = Of(0.9)
			return m
		}, nil)
		if len(told) != 1 {
			t.Errorf("%g MiB a second: a leak from and to %v", rate, told)
			continue
		}
		near(t, fmt.Sprintf("%g MiB a second: rate", rate), last.Rate.V, rate*mib, 0.05)
	}
}

// What was not seen did not pause: a leak goes on over a time without samples, and one that begins is
// found in spite of it.
func TestGapIsNoPause(t *testing.T) {
	for _, c := range []struct{ from, to, by int }{{4500, 4920, 4400}, {3900, 4200, 5100}, {5000, 5600, 4400}, {5000, 6200, 4400}, {5000, 8000, 4400}} {
		d := newDomain(t)
		var told toggles
		for s := range 12000 {
			if s > c.from && s < c.to {
				continue
			}
			told.note(s, show(t, d, frame(s, 0, proc(1, 10*gib+float64(max(0, s-3600))*mib))).Device.Leak)
		}
		if len(told) != 1 || told[0] > c.by {
			t.Errorf("a gap from %d to %d: a leak from and to %v, want one by %d", c.from, c.to, told, c.by)
		}
	}
}

// Muted in the middle of a leak there is none, and what was seen is not forgotten.
func TestMuteHidesALeak(t *testing.T) {
	mute := false
	d := newDomainOf(t, func(Subject[int]) Config {
		cfg := DefaultConfig()
		cfg.Mute = mute
		return cfg
	})
	var since time.Duration
	for s := range quiet + 1200 {
		if s == quiet+1000 || s == quiet+1060 {
			mute = !mute
			d.Reconfigure()
		}
		j := observe(t, d, s, gib, map[int]float64{1: round(10*gib + leaked(s))})
		v := j.Members[0].Verdict
		if s == quiet+999 {
			since = v.Since
		}
		if mute && (v.Judged || v.Leak || !v.Muted || v.Pattern != PatternUnknown || v.Rate.OK || !v.Windows[0].Slope.OK || j.Device.Leak) {
			t.Fatalf("second %d: muted, and %+v", s, v)
		}
		if !mute && s >= quiet+999 && (!v.Leak || !v.Pattern.Leaks() || v.Since != since || !j.Device.Leak) {
			t.Fatalf("second %d: %+v, since %s", s, v, since)
		}
	}
}

// A new configuration in the middle of a leak leaves it, as long as its confidence is above the clear
// threshold.
func TestReconfigureInTheMiddleOfALeak(t *testing.T) {
	cfg := DefaultConfig()
	d, at := newDomainOf(t, func(Subject[int]) Config { return cfg }), 0
	see := func(seconds int) (j *Judgement[int]) {
		for range seconds {
			j = observe(t, d, at, 512*mib, map[int]float64{1: round(10*gib + leaked(at))})
			at++
		}
		return j
	}
	before := see(quiet + 1500).Members[0].Verdict
	if !before.Leak {
		t.Fatal("no leak")
	}
	for _, c := range []struct {
		name   string
		change func()
	}{
		{"higher threshold", func() { cfg.LeakThreshold = 1 }},
		{"other windows", func() { cfg.Windows = []time.Duration{5 * time.Minute, time.Hour} }},
		{"settle time", func() { cfg.SettleTime = 12 * time.Hour }},
		{"least growth", func() { cfg.MinGrowth = 256 * mib }},
		{"defaults", func() { cfg = DefaultConfig() }},
	} {
		c.change()
		d.Reconfigure()
		j := see(60)
		if v := j.Members[0].Verdict; !v.Leak || v.Since != before.Since || !j.Device.Leak || v.Rate.V < 0.9*mib || v.Windows[1].N < 1000 {
			t.Fatalf("%s: %+v, before %+v", c.name, v, before)
		}
	}
	cfg.MinGrowth = 100 * gib // that is no leak any more
	d.Reconfigure()
	if j := see(1200); j.Members[0].Leak || j.Device.Leak {
		t.Errorf("less than the least growth: %+v", j.Members[0])
	}
}

// noises hide growth: from second to second, and such as forgets itself in half a minute (Ornstein and
// Uhlenbeck). They must be asked second by second.
var noises = map[string]func(memory func(s int) float64, seed uint64) func(s int) float64{
	"white": func(memory func(s int) float64, seed uint64) func(s int) float64 {
		rng := rand.New(rand.NewPCG(seed, 71))
		return func(s int) float64 { return memory(s) + 100*mib*rng.NormFloat64() }
	},
	"wandering": func(memory func(s int) float64, seed uint64) func(s int) float64 {
		rng, x, keep := rand.New(rand.NewPCG(seed, 92)), 0.0, math.Exp(-1.0/30)
		return func(s int) float64 {
			x = keep*x + 200*mib*math.Sqrt(1-keep*keep)*rng.NormFloat64()
			return memory(s) + x
		}
	},
}

// A leak that would fill the memory within hours and begins after 40 quiet minutes, under noise which gives
// back more than it gains in a minute or more, is told within the hour, but for a minute of all that follows, and its rate
// is right in the end.
func TestLeakIsToldUnderNoise(t *testing.T) {
	const begins = 2400
	for noise, add := range noises {
		for _, rate := range []float64{4.5, 6} { // MiB/s
			for seed := range uint64(4) {
				memory := add(func(s int) float64 { return 20*gib + rate*mib*float64(max(0, s-begins)) }, seed)
				silent := 0
				told, last := follow(t, begins+2*3600, 1, memoryOf(memory), func(s int, v *Verdict) { silent += btoi(s > begins+3600 && !v.Leak) })
				if len(told) > 3 || !told.on() || told[0] < begins || silent > 60 {
					t.Errorf("%s, %g MiB/s, seed %d: a leak from and to %v", noise, rate, seed, told)
					continue
				}
				near(t, "rate", last.Rate.V, rate*mib, 0.2)
			}
		}
	}
}

// What is under noise and no leak, is none: nothing, jobs that come, a load, traffic and epochs.
func TestNoLeakUnderNoise(t *testing.T) {
	for name, memory := range map[string]func(s int) float64{
		"nothing":        func(int) float64 { return 20 * gib },
		"one step":       func(s int) float64 { return 20*gib + gib*float64(btoi(s > 9000)) },
		"one small step": func(s int) float64 { return 20*gib + 0.4*gib*float64(btoi(s > 9000)) },
		"three steps":    func(s int) float64 { return 20*gib + gib*float64(min(3, max(0, s-3600)/3600)) },
		"a ramp":         func(s int) float64 { return 20*gib + 4*gib*share(float64(s-9000)/180) },
		"low traffic":    func(s int) float64 { return 20*gib + 0.5*gib*math.Sin(2*math.Pi*float64(s)/7200) },
		"high traffic":   func(s int) float64 { return 20*gib + 4*gib*math.Cos(2*math.Pi*float64(s)/7200) },
		"epochs":         func(s int) float64 { return 10*gib + 4*gib*float64(s%600)/600 },
	} {
		for noise, add := range noises {
			for seed := range uint64(2) {
				if told, _ := follow(t, 6*3600, 1, memoryOf(add(memory, seed)), nil); len(told) > 0 {
					t.Errorf("%s, %s noise, seed %d: a leak from and to %v", name, noise, seed, told)
				}
			}
		}
	}
}

// Growth that slows down, and ends at 73 % of the memory, is no leak and wakes nobody, whether it begins with
// its program or an hour after it; the straight line that it begins as is a leak.
func TestSlowing(t *testing.T) {
	const (
		interval = 15 // seconds
		hour     = 3600
		// waits is for how long an alert of a page waits before it fires, and briefly how long a ticket may stand.
		waits, briefly = 180, 1200
	)
	type growth struct {
		tau      float64 // minutes
		lead     int     // seconds until the growth begins
		straight bool
	}
	var all []growth
	for _, tau := range []float64{20, 40, 60, 100} {
		all = append(all, growth{tau, 0, false}, growth{tau, hour, false}, growth{tau, hour, true})
	}
	for _, c := range all {
		d := newDomain(t)
		var leaks, pages, longest, unbounded, withheld int // seconds
		for s := 0; s < 10*hour; s += interval {
			x := float64(max(0, s-c.lead)) / 60 / c.tau
			grown := 1 - math.Exp(-x)
			if c.straight {
				grown = x
			}
			used := (19.5 + 39*grown) * gib
			if used > 79*gib {
				break
			}
			m := Member[int]{Key: 1, Used: Of(used), Started: start, SM: Of(0.5)}
			j := show(t, d, frame(s, gib/2, m))
			v := &j.Device
			withheld += interval * btoi(v.Withheld == WithheldSlowing)
			leaks += interval * btoi(v.Leak)
			unbounded += interval * btoi(v.Leak && math.IsInf(v.Upper.V, 1))
			pages = (pages + interval) * btoi(j.Page)
			longest = max(longest, pages)
		}
		switch {
		case c.straight && (leaks < 600 || longest < 600 || unbounded > 0):
			t.Errorf("39 GiB in %v min: a leak for %d s, without an upper end for %d, pages for up to %d", c.tau, leaks, unbounded, longest)
		case !c.straight && (leaks > briefly || longest >= waits || c.lead > 0 && withheld == 0):
			t.Errorf("τ = %v min, begun after %d s: a leak for %d s, pages for up to %d, slowing for %d", c.tau, c.lead, leaks, longest, withheld)
		}
	}
}

// A straight leak is told beside a program whose growth slows down, by its own name and with an upper end.
func TestLeakBesideSlowing(t *testing.T) {
	const hour = 3600
	d := newDomain(t)
	var told, wrong, unbounded int // frames
	for s := 0; s < 6*hour; s += 15 {
		grown := 20 * (1 - math.Exp(-float64(max(0, s-hour))/hour)) * gib
		slow := Member[int]{Key: 1, Used: Of(10*gib + grown), Started: start, SM: Of(0.5)}
		leak := Member[int]{Key: 2, Used: Of(10*gib + leaked(s)), Started: start, SM: Of(0.5)}
		if slow.Used.V+leak.Used.V > 79*gib {
			break
		}
		j := show(t, d, frame(s, gib/2, slow, leak))
		told += btoi(j.Members[1].Leak)
		wrong += btoi(j.Members[0].Leak)
		unbounded += btoi(j.Members[1].Leak && math.IsInf(j.Members[1].Upper.V, 1))
	}
	if told < 4*hour/15 || wrong > 20*60/15 || unbounded > 0 {
		t.Errorf("the leak is told in %d frames, %d of them without an upper end, and the other one in %d", told, unbounded, wrong)
	}
}

// Who gives back at the top of the memory what he gained there, again and again, has cycles as anywhere
// else: in a memory that is full all the time, as engines hold it that reserve nine tenths, and where the
// tops of the cycles fill it. The first cycle is like a leak everywhere.
func TestTeethInAFullMemory(t *testing.T) {
	for _, held := range []float64{20, 67, 68, 69, 70, 73} {
		for _, listed := range []bool{true, false} {
			for seed := range uint64(3) {
				rng := rand.New(rand.NewPCG(seed, 1))
				d, leak, from, to, high := newDomain(t), false, 0, 1800, 0.0
				for s := 0; s < 4*3600; s += 2 {
					if s >= to { // it rises by 2 to 3 GiB in 6 to 14 minutes
						from, to, high = to, to+360+rng.IntN(480), 2*gib+rng.Float64()*gib
					}
					f := frame(s, 0, proc(1, held*gib), proc(2, 2*gib+high*float64(s-from)/float64(to-from)))
					if !listed {
						f.Members, f.Complete = nil, false
					}
					was := leak
					if leak = show(t, d, f).Device.Leak; leak && !was && s > 3600 {
						t.Errorf("%g GiB held, processes listed: %t, seed %d: an alarm after the first cycles, at %d s", held, listed, seed, s)
					}
				}
			}
		}
	}
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
