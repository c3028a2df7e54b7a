// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// exp is memory that fills up to high GiB with that time constant, in seconds.
func exp(s int, high, constant float64) float64 {
	return high * gib * (1 - math.Exp(-float64(s)/constant))
}

// A leak of a MiB a second for 40 minutes after a quiet hour, and what comes then. It is told within 12
// minutes.
func TestLeakIsHeld(t *testing.T) {
	const begins, then = 3600, 6000
	const top = 10*gib + (then-begins)*mib
	for _, c := range []struct {
		name  string
		then  func(s int) float64 // seconds since
		ends  [2]int              // when it ends after that, from and to; 0 not within an hour
		turns bool                // it may come and go until then
	}{
		{"goes on", func(s int) float64 { return top + float64(s)*mib }, [2]int{}, false},
		{"stops", func(int) float64 { return top }, [2]int{60, 2400}, false},
		{"gives a tenth back, and stops", func(int) float64 { return top - 240*mib }, [2]int{10, 2400}, false},
		{"gives all back", func(int) float64 { return 10 * gib }, [2]int{0, 20}, false},
		{"gives half back", func(int) float64 { return top - 1200*mib }, [2]int{0, 20}, false},
		{"slows down for good", func(s int) float64 { return top + exp(s, 0.6, 600) }, [2]int{60, 3600}, true},
	} {
		told, _ := follow(t, then+3600, 1, memoryOf(func(s int) float64 {
			if s < then {
				return 10*gib + float64(max(0, s-begins))*mib
			}
			return c.then(s - then)
		}), nil)
		if len(told) == 0 || told[0] < begins || told[0] > begins+720 {
			t.Errorf("%s: no leak in time: %v", c.name, told)
			continue
		}
		last := told[len(told)-1]
		held := c.ends[1] == 0 && len(told) == 1
		ends := c.ends[1] > 0 && !told.on() && told[1] >= then+c.ends[0] && last <= then+c.ends[1]
		if !held && !(ends && (len(told) == 2 || c.turns)) {
			t.Errorf("%s: a leak from and to %v, want its end %v s after %d", c.name, told, c.ends, then)
		}
	}
}

// A leak that goes on for as long as it takes to fill the memory is told once, however slow it is.
func TestSlowLeakStaysOne(t *testing.T) {
	for _, rate := range []float64{0.1, 0.3, 1} { // MiB/s
		hours := int(min(40, 60*1024/rate/3600))
		told, last := follow(t, 7200+hours*3600, 10, computing(func(s int) float64 { return 10*gib + rate*mib*float64(max(0, s-7200)) }), nil)
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
