// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// program is a workload of one process at a time. The n-th life, from 0 on, lasts for some seconds, in
// which memory tells what it holds; then nothing holds any for pause seconds.
type program struct {
	capacity float64
	step     int // seconds between frames; 1 if 0
	lasts    func(n int) int
	memory   func(n, s int) float64
	pause    func(n int) int
	sm       func(s int) Value // not known if nil
	other    float64           // memory of a process of another pod
	// company is another process of the pod, or of the program: its key, 0 for none, and its memory.
	company func(n, s int) (key int, used float64)
	lives   int
	pods    bool                // each life is in a pod of its own
	runs    func(n int) Program // what the n-th life runs; not known if nil
	bare    bool                // its processes are in no pod: they are known by what they run
	turned  bool                // lists are in the other order
}

// told is what was said of a program.
type told struct {
	changes toggles // seconds at which the device's verdict on leaks changed
	lives   []int   // the lives in which it did
	// While the program had a process last: the verdicts on its pod, and on the device.
	pod, device Verdict
}

func constant(n int) func(int) int { return func(int) int { return n } }

// filling returns a program that loads for 20 s up to base, and then grows until it dies of out-of-memory
// after life seconds.
func filling(capacity, base float64, life int) program {
	return program{
		capacity: capacity, lasts: constant(life), pause: constant(10), lives: 12,
		memory: func(_, s int) float64 {
			return base*min(float64(s+1)/20, 1) + (0.99*capacity-base)*share(float64(s-20)/float64(life-20))
		},
	}
}

// run feeds a program to a domain; look, if any, sees each frame.
func (p *program) run(t *testing.T, d *Domain[int], look func(s int, j *Judgement[int])) (all told) {
	t.Helper()
	at, step := 0, max(p.step, 1)
	for n := range p.lives {
		lasts := p.lasts(n)
		for s := 0; s < lasts+p.pause(n); s += step {
			f := frame(at, 0)
			f.Capacity = Of(p.capacity)
			join := func(m Member[int], group, program string) {
				m.Group, m.Program = group, program
				f.Members = append(f.Members, m)
				f.Used.V += m.Used.V
			}
			group, name := "ml/loop", ""
			if p.bare {
				group, name = "", "loop.py"
			}
			if p.pods {
				group = fmt.Sprintf("ml/loop-%d", n)
			}
			join(proc(1, p.other), "ml/other", "")
			if s < lasts {
				m := Member[int]{Key: 100 + n, Used: Of(round(min(p.memory(n, s), p.capacity-p.other))), Started: second(at - s)}
				if p.runs != nil {
					m.Runs = p.runs(n)
				}
				if p.sm != nil {
					m.SM = p.sm(s)
				}
				join(m, group, name)
			}
			if p.company != nil {
				if key, used := p.company(n, s); key != 0 {
					join(Member[int]{Key: key, Used: Of(round(used))}, group, name)
				}
			}
			if p.turned {
				slices.Reverse(f.Members)
			}
			j := show(t, d, f)
			if all.changes.on() != j.Device.Leak {
				all.lives = append(all.lives, n)
			}
			all.changes.note(at, j.Device.Leak)
			if s%4 < step {
				checkLoop(t, at, j)
			}
			if s < lasts {
				all.pod, all.device = loopVerdict(j), j.Device
			}
			if look != nil {
				look(at, j)
			}
			at += step
		}
	}
	return all
}

// loopVerdict returns the verdict on the program's pod, the zero Verdict if there is none.
func loopVerdict(j *Judgement[int]) Verdict {
	for i := range j.Groups {
		if j.Groups[i].Group == "ml/loop" {
			return j.Groups[i].Verdict
		}
	}
	return Verdict{}
}

// checkLoop checks that all parts of a verdict agree.
func checkLoop(t *testing.T, s int, j *Judgement[int]) {
	t.Helper()
	for _, g := range append(j.Groups, GroupVerdict{Group: "the device", Verdict: j.Device}) {
		checkVerdict(t, &g.Verdict)
		finite := g.SecondsToOOM.OK && !math.IsInf(g.SecondsToOOM.V, 1)
		if g.Leak != g.Rate.OK || g.Leak != g.Leaked.OK || g.Leak && !finite || g.Leak != g.Pattern.Leaks() {
			t.Fatalf("second %d: the parts of the verdict on %s disagree: %+v", s, g.Group, g.Verdict)
		}
		if g.Leak && g.Group != "the device" && (!j.Device.Leak || g.SecondsToOOM != j.Device.SecondsToOOM) {
			t.Fatalf("second %d: the device does not die with %s", s, g.Group)
		}
	}
}

// loopOf is what a domain knows of the pod.
func loopOf(d *Domain[int]) *crashLoop { return &d.groups[groupName{Name: "ml/loop"}].Loop }

// A process that leaks until it is killed is found although it never lives for as long as a leak takes to
// show, and stays found over the pauses between its lives.
func TestCrashLoopIsFound(t *testing.T) {
	with := func(p program, change func(*program)) program { change(&p); return p }
	noise := func(size float64) func(*program) {
		rng := rand.New(rand.NewPCG(31, 32))
		return func(p *program) {
			clean := p.memory
			p.memory = func(n, s int) float64 { return clean(n, s) + size*rng.Float64() }
		}
	}
	cases := map[string]struct {
		program
		found int  // the life in which it is found, or at the end of the one before
		alone bool // or in the first one, as each shows by itself that it is about to fill the memory
	}{
		"6 minutes, 80 GiB":      {filling(80*gib, 10*gib, 360), 4, false},
		"25 minutes, 80 GiB":     {filling(80*gib, 10*gib, 1500), 3, true},
		"3 minutes, 20 together": {filling(80*gib, 40*gib, 170), 9, false},
		"every 15 s":             {with(filling(80*gib, 10*gib, 480), func(p *program) { p.step = 15 }), 4, false},
		"back-off":               {with(filling(80*gib, 10*gib, 360), func(p *program) { p.pause = func(n int) int { return min(10<<n, 300) } }), 4, false},
		"no pause":               {with(filling(80*gib, 10*gib, 360), func(p *program) { p.pause = constant(0) }), 4, false},
		"beside another process": {with(filling(60*gib, 10*gib, 900), func(p *program) { p.capacity, p.other = 80*gib, 20*gib }), 2, false},
		"noise":                  {with(filling(16*gib, 4*gib, 900), noise(200*mib)), 2, false},
		"sawtooth": {with(filling(16*gib, 4*gib, 1500), func(p *program) {
			clean := p.memory
			p.memory = func(n, s int) float64 { return clean(n, s) + float64(s%40)*10*mib }
		}), 3, true},
		"computing": {with(filling(80*gib, 40*gib, 360), func(p *program) { p.sm = func(s int) Value { return Of(float64(min(s/20, 1))) } }), 4, false},
		"a check before each life": {with(filling(80*gib, 10*gib, 600), func(p *program) {
			grows := p.memory
			p.lasts = func(n int) int { return 5 + 595*(n%2) }
			p.memory = func(n, s int) float64 {
				if n%2 == 0 {
					return 400 * mib
				}
				return grows(n, s)
			}
		}), 6, false},
	}
	for name, c := range cases {
		c.lives = c.found + 3
		all := c.run(t, newDomain(t), nil)
		if n := len(all.changes); n == 0 || n%2 == 0 || all.lives[n-1] > c.found || n > 1 && !c.alone {
			t.Errorf("%s: the verdict changed in the lives %v, want it found in life %d", name, all.lives, c.found)
		} else if v := all.pod; !v.Leak || v.Pattern != PatternCrashLoop || v.Confidence < 0.7 {
			t.Errorf("%s: in the end: %+v", name, v)
		}
	}
}

// A Kubernetes Job that is retried has a pod of another name for each life: it is one crash loop where it is known that they
// run the same, and the pods that are gone leak no more.
func TestCrashLoopOverPods(t *testing.T) {
	job := filling(80*gib, 10*gib, 360)
	job.pods, job.lives = true, 7
	for _, c := range []struct {
		name string
		runs func(n int) Program
		want bool
	}{
		{"the same", func(int) Program { return 7 }, true},
		{"not known what it runs", nil, false},
		{"another program each", func(n int) Program { return Program(n + 1) }, false},
	} {
		job.runs = c.runs
		all := job.run(t, newDomain(t), func(s int, j *Judgement[int]) {
			for _, g := range j.Groups {
				if g.Leak && g.Group == "ml/loop-0" {
					t.Fatalf("%s: second %d: the pod that is gone leaks", c.name, s)
				}
			}
		})
		if all.device.Leak != c.want || c.want && (all.device.Pattern != PatternCrashLoop || all.lives[0] > 4) {
			t.Errorf("%s: told in lives %v, in the end %+v", c.name, all.lives, all.device)
		}
	}
}

// What a workload does one process after another, and which is no leak, is none: not of the pod, not of
// the GPU.
func TestLivesThatAreNoCrashLoop(t *testing.T) {
	with := func(p program, change func(*program)) program { change(&p); return p }
	lives := func(lasts int, memory func(n, s int) float64) program {
		return program{capacity: 80 * gib, lasts: constant(lasts), pause: constant(10), memory: memory, lives: max(5, 9000/max(lasts, 1))}
	}
	ramp := func(s int, rate, most float64) float64 { return min(gib/2+rate*float64(s), most) }
	rng := rand.New(rand.NewPCG(33, 34))
	for name, p := range map[string]program{
		"load, end, do not fit":         lives(150, func(_, s int) float64 { return ramp(s, 600*mib, 80*gib) }),
		"a slow load that does not fit": lives(800, func(_, s int) float64 { return ramp(s, 102*mib, 80*gib) }),
		"a load in two paces without compute": with(lives(400, func(_, s int) float64 {
			return min(ramp(s, gib, 20*gib)+ramp(max(0, s-20), 155*mib, 60*gib), 79.5*gib)
		}), func(p *program) { p.sm = func(int) Value { return Of(0) } }),
		"a fast last load of 100 s": lives(140, func(_, s int) float64 {
			return min(ramp(s, gib, 30*gib)+ramp(max(0, s-40), 0.5*gib, 80*gib), 79.5*gib)
		}),
		"warm up and stay":           lives(1200, func(_, s int) float64 { return 10*gib + exp(s, 20, 150) }),
		"a cache that fills the GPU": lives(1500, func(_, s int) float64 { return min(10*gib+float64(s)*60*mib, 78*gib) }),
		"workers of 1 to 40 s": with(lives(0, func(_, s int) float64 { return gib + float64(s)*500*mib }), func(p *program) {
			p.lasts, p.lives, p.pause = func(n int) int { return 1 + 7*n%40 }, 200, constant(1)
		}),
		"one that grows for each that does not": with(filling(80*gib, 10*gib, 540), func(p *program) {
			fill := p.memory
			p.memory = func(n, s int) float64 {
				if n%3 == 2 {
					return 10 * gib
				}
				return fill(n, s)
			}
		}),
		"runs that end far from full":       lives(1500, func(_, s int) float64 { return 10*gib + float64(s)*2*mib }),
		"a last phase that does not fit":    lives(2400, func(_, s int) float64 { return 10*gib + float64(max(0, s-2300))*0.7*gib }),
		"a request that does not fit":       lives(2400, func(_, s int) float64 { return 10*gib + float64(btoi(s%500 < 50)*(s/500+1))*14*gib }),
		"another pace each time":            lives(1500, func(n, s int) float64 { return 10*gib + float64(s)*float64(1+2*(n%2))*5*mib }),
		"less than the least growth":        lives(1500, func(_, s int) float64 { return 10*gib + float64(s)*10*1024 }),
		"each holds more than the last one": with(lives(300, func(n, _ int) float64 { return 10*gib + float64(n)*300*mib }), func(p *program) { p.pause, p.capacity = constant(0), 24*gib }),
		"noise":                             lives(900, func(int, int) float64 { return 10*gib + rng.Float64()*4*gib }),
		"sawtooth":                          lives(900, func(_, s int) float64 { return 10*gib + float64(s%300)*30*mib }),
	} {
		for _, bare := range []bool{false, true} {
			p.bare = bare
			if all := p.run(t, newDomain(t), nil); len(all.changes) > 0 {
				t.Errorf("%s, bare %t: the verdict changed at %v, in the lives %v", name, bare, all.changes, all.lives)
			}
		}
	}
}

// The GPU's verdict stays over the pauses, the pod's is there while it has a process, and the forecast is
// that of the present life.
func TestCrashLoopIsForecast(t *testing.T) {
	p, d := filling(80*gib, 10*gib, 900), newDomain(t)
	p.lives, p.pause = 4, constant(240)
	rate := (0.99*p.capacity - 10*gib) / 880
	p.run(t, d, func(at int, j *Judgement[int]) {
		n, s := at/1140, at%1140
		if n < 3 {
			return
		}
		v, dev := loopVerdict(j), j.Device
		if !dev.Leak || dev.Pattern != PatternCrashLoop || dev.Since != second(0) || dev.Confidence < 0.7 {
			t.Fatalf("second %d of life %d: the device %+v", s, n, dev)
		}
		near(t, "rate", dev.Rate.V, rate, 0.02)
		switch {
		case s >= 900:
			if v.Judged || dev.Leaked.V != 0 {
				t.Fatalf("second %d, without a process: pod %+v, device %+v", s, v, dev)
			}
		case s >= 60 && s < 800: // troughs lag by a block or two, which is much in the end
			if off := v.Leaked.V - float64(s-30)*rate; math.Abs(off) > 20*rate {
				t.Fatalf("second %d: %g bytes have leaked, %g more than they should", s, v.Leaked.V, off)
			}
			near(t, "time to out-of-memory", v.SecondsToOOM.V, (p.capacity-p.memory(n, s))/rate, 0.05)
			if v.Lower.V > v.SecondsToOOM.V || v.Upper.V < v.SecondsToOOM.V {
				t.Fatalf("second %d: %g to %g around %g", s, v.Lower.V, v.Upper.V, v.SecondsToOOM.V)
			}
		}
	})
}

// A life that stays flat ends it all, and so does one that takes at its start what it needs.
func TestCrashLoopEnds(t *testing.T) {
	const cured = 4
	for name, c := range map[string]struct {
		lasts  int // of the lives that are mended
		memory func(s int) float64
	}{
		"a life that stays flat":           {3000, func(s int) float64 { return min(float64(s+1)*gib/2, 13*gib) }},
		"one that takes most at its start": {900, func(s int) float64 { return min(float64(s)*2*gib, 0.85*80*gib) }},
		"one that takes all there is":      {900, func(s int) float64 { return min(float64(s)*2*gib, 0.97*80*gib) }},
	} {
		for _, bare := range []bool{false, true} {
			p := filling(80*gib, 10*gib, 900)
			fill := p.memory
			p.bare, p.lives, p.step = bare, cured+3, 2
			p.lasts = func(n int) int { return 900 + (c.lasts-900)*btoi(n >= cured) }
			p.memory = func(n, s int) float64 {
				if n >= cured {
					return c.memory(s)
				}
				return fill(n, s)
			}
			d := newDomain(t)
			all := p.run(t, d, nil)
			if !slices.Equal(all.lives, []int{1, cured}) || all.device.Leak || all.pod.Leak || all.device.Confidence > 0.35 {
				t.Errorf("%s, bare %t: the verdict changed in the lives %v; in the end %+v", name, bare, all.lives, all.device)
			}
			f := frame(int((d.past.Last+process.Absence-start)/time.Second), 0)
			if show(t, d, f); len(d.groups) > 0 {
				t.Errorf("%s, bare %t: %d groups after ten minutes without a process", name, bare, len(d.groups))
			}
		}
	}
}

// The verdict is that of the rules for the pod, and for a program in none those for its processes.
func TestCrashLoopIsJudgedByItsRules(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config, Kind)
		bare   bool
		want   []int // the lives in which the verdict changes
	}{
		"leak threshold 0.9":       {func(c *Config, _ Kind) { c.LeakThreshold = 0.9 }, false, []int{4}},
		"minimum span 72 m":        {func(c *Config, _ Kind) { c.MinSpan, c.SettleTime = 72*time.Minute, 3*time.Hour }, false, []int{5}},
		"minimum growth":           {func(c *Config, _ Kind) { c.MinGrowth = 75 * gib }, false, nil},
		"mute":                     {func(c *Config, _ Kind) { c.Mute = true }, false, nil},
		"mute the processes alone": {func(c *Config, k Kind) { c.Mute = k == KindMember }, false, nil},
		"mute a program":           {func(c *Config, k Kind) { c.Mute = k == KindMember }, true, nil},
	} {
		p := filling(80*gib, 10*gib, 900)
		p.step, p.bare = 2, c.bare
		all := p.run(t, newDomainOf(t, func(s Subject[int]) Config {
			cfg := DefaultConfig()
			if s.Group == "ml/loop" || s.Kind == KindMember && s.Key >= 100 {
				c.change(&cfg, s.Kind)
			}
			return cfg
		}), nil)
		testkit.Equal(t, all.lives, c.want, "%s: the lives in which the verdict changed", name)
	}
}

// A program between two of its processes keeps its rules: those of nobody else hold for it. While it has one it takes new ones.
func TestCrashLoopIsReconfigured(t *testing.T) {
	p := filling(80*gib, 10*gib, 900)
	p.bare, p.lives, p.step, p.pause = true, 5, 4, func(n int) int { return 100 * btoi(n < 4) }
	threshold := 0.95 // of who is known by its name
	var named *Domain[int]
	named = newDomainOf(t, func(s Subject[int]) Config {
		cfg := DefaultConfig()
		if s.Kind == KindMember && named != nil && named.Knows(s.Key) {
			cfg.LeakThreshold = threshold
		}
		return cfg
	})
	all := p.run(t, named, func(s int, _ *Judgement[int]) {
		if s%1000 == 960 {
			named.Reconfigure()
		}
	})
	if len(all.lives) > 0 {
		t.Errorf("the verdict changed in the lives %v", all.lives)
	}
	threshold = 0.5
	if named.Reconfigure(); !named.Judgement().Device.Leak {
		t.Error("the new threshold does not hold")
	}
}

// The list of a frame may lack a process: one that is seen again did not end, however full the memory was.
func TestProcessThatIsSeenAgainIsNoRestart(t *testing.T) {
	d := newDomain(t)
	for s := range 3000 {
		f := frame(s, 0)
		if s%600 != 599 {
			m := proc(1, 10*gib+float64(s%600)*118*mib)
			m.Group = "ml/loop"
			f = frame(s, 0, m)
		}
		if j := show(t, d, f); j.Device.Leak {
			t.Fatalf("second %d: device %+v", s, j.Device)
		}
	}
	if n := loopOf(d).N; n > 1 {
		t.Errorf("a process that was away for a moment has had %d lives", n)
	}
}

// Of ends that a list tells of together, nobody knows which came first.
func TestEndsOfOneFrameAreNoChain(t *testing.T) {
	p, d := filling(80*gib, 10*gib, 900), newDomain(t)
	for s := range 1261 { // the list is not complete: the first may still be there
		m := Member[int]{Key: s / 900, Group: "ml/loop", Used: Of(round(p.memory(0, s%900)))}
		f := frame(s, 0, m)
		if f.Complete = s == 1260; f.Complete {
			f.Members = nil
		} else if s >= 1259 && (len(d.members) != 2 || loopOf(d).N != 0) {
			t.Fatalf("%d processes, %d lives", len(d.members), loopOf(d).N)
		}
		show(t, d, f)
	}
	if len(d.members) != 0 || loopOf(d).N != 0 {
		t.Errorf("%d processes, %d lives", len(d.members), loopOf(d).N)
	}
}

// Helpers do not hide a crash loop, whenever they come and go; lives that overlap are no loop, and one
// half as large between two lives, that does not grow, ends it.
func TestCrashLoopInCompany(t *testing.T) {
	const lasts, pause = 900, 20
	byLife := func(n, _ int) int { return 1000 + n }
	when := func(is func(n, s int) bool, key func(n, s int) int, used float64) func(n, s int) (int, float64) {
		return func(n, s int) (int, float64) { return key(n, s) * btoi(is(n, s)), used * float64(btoi(is(n, s))) }
	}
	keep := func(used float64) func(n, s int) (int, float64) {
		return func(int, int) (int, float64) { return 1000, used }
	}
	between := func(from, to int) func(n, s int) bool { return func(_, s int) bool { return s >= from && s < to } }
	for name, c := range map[string]struct {
		company func(n, s int) (int, float64)
		found   bool
	}{
		"a large parent":                 {keep(12 * gib), true},
		"a parent that dies with it":     {when(between(0, lasts), byLife, 2*gib), true},
		"a parent that dies just before": {when(between(0, lasts-8), byLife, 2*gib), true},
		"a parent that starts it": {when(func(n, s int) bool { return n > 0 && s < 300 || s >= lasts+8 }, func(n, s int) int {
			return 1000 + n + s/lasts
		}, 2*gib), true},
		"a probe":                         {when(func(_, s int) bool { return s%60 < 4 }, func(n, s int) int { return 10000 + n*100 + s/60 }, 500*mib), true},
		"a small job in between":          {when(between(lasts+4, lasts+16), byLife, 2*gib), true},
		"one that grows and dies with it": {func(n, s int) (int, float64) { return (1000 + n) * btoi(s < lasts), 4*gib + 30*mib*float64(s) }, true},
		"one as large, that dies with it": {when(between(0, lasts), byLife, 25*gib), true},
		"one as large, always":            {keep(25 * gib), true},
		"the next life, before its end":   {when(between(lasts-100, lasts+pause), func(n, _ int) int { return 101 + n }, 300*mib), false},
		"one half as large, in between":   {when(between(lasts+4, lasts+pause), byLife, 40*gib), false},
	} {
		for _, bare := range []bool{false, true} {
			used := 0.0
			for s := range lasts + pause {
				_, held := c.company(1, s)
				used = max(used, held)
			}
			p := filling(80*gib-used, 10*gib, lasts)
			p.capacity, p.bare, p.company, p.lives, p.step, p.pause = 80*gib, bare, c.company, 4, 4, constant(pause)
			all := p.run(t, newDomain(t), func(s int, j *Judgement[int]) {
				if slices.ContainsFunc(j.Members, func(m MemberVerdict[int]) bool { return m.Leak && m.Key >= 1000 }) {
					t.Fatalf("%s, bare %t: second %d: %+v", name, bare, s, j.Members)
				}
			})
			if c.found && !slices.Equal(all.lives, []int{1}) || !c.found && len(all.lives) > 0 {
				t.Errorf("%s, bare %t: the verdict changed in the lives %v", name, bare, all.lives)
			}
		}
	}
}

// A crash loop of a program in no pod is found as that of a pod is. The process that runs now bears the
// verdict once it is judged, the GPU does throughout, and no group is told.
func TestCrashLoopOfAProgram(t *testing.T) {
	p := filling(80*gib, 10*gib, 900)
	p.bare, p.other, p.lives, p.step, p.pause = true, 300*mib, 5, 4, constant(100)
	for _, turned := range []bool{false, true} {
		named := 0
		p.turned = turned
		all := p.run(t, newDomain(t), func(s int, j *Judgement[int]) {
			if len(j.Groups) > 0 || j.Device.Leak && j.Device.Confidence < 0.7 {
				t.Fatalf("second %d: groups %+v, the GPU %+v", s, j.Groups, j.Device)
			}
			for i := range j.Members {
				m := &j.Members[i]
				if m.Leak && (m.Key == 1 || m.Pattern != PatternCrashLoop || m.SecondsToOOM != j.Device.SecondsToOOM || !m.Rate.OK || m.Share.V != 1) {
					t.Fatalf("second %d: %+v, the GPU %+v", s, m, j.Device)
				}
				if m.Key == 103 && m.Judged {
					named++
					near(t, "rate", m.Rate.V, (0.99*p.capacity-10*gib)/880, 0.05)
				}
			}
		})
		if !slices.Equal(all.lives, []int{1}) || named < 100 || all.device.Pattern != PatternCrashLoop {
			t.Errorf("turned %t: the verdict changed in the lives %v, was on the process in %d frames", turned, all.lives, named)
		}
	}
}

// Of two processes of a program at once nobody knows which is started in place of which, nor which of two
// is the next life.
func TestTwoProcessesOfAProgram(t *testing.T) {
	p, d := filling(80*gib, 10*gib, 900), newDomain(t)
	for s := 0; s < 12*910; s += 2 {
		var members []Member[int]
		for of, at := range []int{s, s + 400} {
			if n, at := at/910, at%910; at < 900 {
				members = append(members, Member[int]{Key: 2*n + of, Program: "loop.py", Used: Of(round(p.memory(n, at))), Started: second(s - at)})
			}
		}
		f := frame(s, 0, members...)
		f.Capacity = Of(160 * gib)
		if j := show(t, d, f); j.Device.Leak || len(j.Groups) > 0 {
			t.Fatalf("second %d: groups %+v, the GPU %+v", s, j.Groups, j.Device)
		}
	}

	const lasts, pause = 900, 20
	p = filling(50*gib, 10*gib, lasts)
	p.capacity, p.bare, p.lives, p.step, p.pause = 80*gib, true, 4, 4, constant(pause)
	p.company = func(n, s int) (int, float64) { // the second one begins just before the fourth life
		return 1000 + btoi(n*(lasts+pause)+s >= 3*(lasts+pause)-10), 30 * gib
	}
	all := p.run(t, newDomain(t), func(s int, j *Judgement[int]) {
		if slices.ContainsFunc(j.Members, func(m MemberVerdict[int]) bool { return m.Leak && m.Key >= 1000 }) {
			t.Fatalf("second %d: the leak is told on who does not grow", s)
		}
	})
	if len(all.lives) == 0 {
		t.Error("no crash loop: the test shows nothing")
	}
}

// The processes of a program are not summed up, and are judged by the rules for a process. Who is in a pod
// is known by that, whatever it runs.
func TestProgramHasNoSum(t *testing.T) {
	d := newDomainOf(t, func(s Subject[int]) Config {
		if s.Kind == KindGroup {
			t.Errorf("asked for the group %q", s.Group)
		}
		return DefaultConfig()
	})
	for s := range 1200 {
		f := frame(s, 18*gib)
		for n := range 1 + s/300%2 {
			f.Members = append(f.Members, Member[int]{Key: s/300 + n, Program: "a.py", Used: Of(gib)})
			f.Used.V += gib
		}
		if j := show(t, d, f); len(j.Groups) > 0 {
			t.Fatalf("second %d: groups %+v", s, j.Groups)
		}
	}
	d.Reconfigure()
	testkit.Equal(t, groupOf(&Member[int]{Group: "ml/loop", Program: "loop.py"}), groupName{Name: "ml/loop"}, "as what a program in a pod is known")
}

// A process of a loop that leaks by itself is the same leak of the GPU, from its beginning to its end, and
// counts once. Between two lives nothing is leaked: the memory of the last one is given back.
func TestCrashLoopIsOneLeakOfTheGPU(t *testing.T) {
	const life = 1800
	for _, bare := range []bool{false, true} {
		p := filling(40*gib, 4*gib, life)
		p.bare, p.lives, p.step = bare, 5, 5
		itself, since := 0, time.Duration(0)
		all := p.run(t, newDomain(t), func(s int, j *Judgement[int]) {
			if s < 2*(life+10) {
				return
			}
			if since == 0 {
				since = j.Device.Since
			}
			v := &j.Device
			if !v.Leak || v.Since != since || v.Pattern != PatternCrashLoop || len(j.Members) == 1 && v.Leaked.V > 0 {
				t.Fatalf("second %d: %+v, before since %s", s, v, since)
			}
			near(t, "rate", v.Rate.V, 0.99*40*gib/life, 0.15)
			if len(j.Members) > 1 && j.Members[1].Leak {
				itself++
			}
		})
		if itself == 0 || len(all.changes) == 0 {
			t.Errorf("bare %t: told by itself in %d frames, the GPU's verdict changed at %v", bare, itself, all.changes)
		}
	}
}

// A list that cannot be read leaves its processes in the frame, with their memory not known. It does not end a crash loop, nor
// does it count twice, however long the present life goes on.
func TestCrashLoopOutlivesABadList(t *testing.T) {
	const life = 1200
	for _, at := range []int{200, 700, 800, 1100} {
		d, p := newDomain(t), filling(40*gib, 4*gib, life)
		for s := 0; s < 6*(life+10); s += 5 {
			n, age := s/(life+10), s%(life+10)
			f := frame(s, gib, Member[int]{Key: 1, Group: "ml/loop", Used: Of(256 * mib), Started: start})
			f.Capacity = Of(42 * gib)
			if age < life {
				m := Member[int]{Key: 100 + n, Group: "ml/loop", Used: Of(round(p.memory(n, age))), Started: second(s - age)}
				f.Members = append(f.Members, m)
				f.Used.V += m.Used.V
			}
			if n == 4 && age == at {
				f.Complete, f.Members[0].Used, f.Members[1].Used = false, Value{}, Value{}
			}
			j := show(t, d, f)
			if n >= 4 && !j.Device.Leak {
				t.Fatalf("in second %d of a life: no leak at second %d of life %d", at, age, n)
			}
			if n >= 4 {
				near(t, "rate", j.Device.Rate.V, 36*gib/life, 0.15)
			}
		}
	}
}

// lifeOf is the n-th of a loop: a minute to load 10 GiB, and then growth for so long, at so many MiB/s.
func lifeOf(n int, lasted time.Duration, rate float64) *series.LifeGrowth {
	from := start + time.Duration(n)*time.Hour
	return &series.LifeGrowth{
		From: from, Onset: from + time.Minute, To: from + time.Minute + lasted, Lasted: lasted, Base: 10 * gib,
		Trend: stat.Trend{Rate: rate * mib, Wander: 4, N: 20},
	}
}

// looping returns a proven loop of three lives of ten minutes that gained 6 GiB each.
func looping() *crashLoop {
	var r crashLoop
	for n := range leastDeaths {
		r.add(lifeOf(n, 10*time.Minute, 10.24), 0)
	}
	return &r
}

// running returns a process that was first seen so long after the last life of r ended, lived for so long
// and holds that much, and so much more with each second.
func running(r *crashLoop, after, lived time.Duration, used, rate stat.Bytes) *series.Series {
	cfg := DefaultConfig()
	s := series.New(&cfg)
	first := r.last().To + after
	for t := first; t <= first+lived; t += 5 * time.Second {
		s.Observe(&series.Sample{T: t, Used: used + rate*stat.Bytes((t-first)/time.Second), Interval: 5 * time.Second, SM: Of(1), Full: &series.Fullness{}})
	}
	return s
}

// How many deaths make a loop: fewer where lives are alike, and only those that lasted for a while together.
func TestDeathsThatProveALoop(t *testing.T) {
	type grew struct {
		lasted time.Duration
		rate   float64
	}
	for _, c := range []struct {
		name  string
		lives []grew
		span  time.Duration // as long as any growth must last
		want  bool
	}{
		{"one", []grew{{time.Hour, 10}}, 0, false},
		{"two alike", []grew{{loopLasts / 2, 10}, {loopLasts / 2, 10 * alikeFactor}}, 0, true},
		{"two alike, the slower one later", []grew{{loopLasts / 2, 10 * alikeFactor}, {loopLasts / 2, 10}}, 0, true},
		{"too short", []grew{{loopLasts / 2, 10}, {loopLasts/2 - 1, 10}}, 0, false},
		{"unlike: faster", []grew{{loopLasts, 10}, {loopLasts, 10.1 * alikeFactor}}, 0, false},
		{"unlike: slower", []grew{{loopLasts, 10.1 * alikeFactor}, {loopLasts, 10}}, 0, false},
		{"three, however unlike", []grew{{loopLasts, 10}, {loopLasts, 20}, {loopLasts, 40}}, 0, true},
		{"three that are short", []grew{{time.Minute, 10}, {time.Minute, 20}, {time.Minute, 40}}, 0, false},
		{"as long as any must last", []grew{{loopLasts, 10}, {loopLasts, 10}}, 2 * loopLasts, true},
		{"not as long", []grew{{loopLasts, 10}, {loopLasts, 10}}, 2*loopLasts + 1, false},
		{"alike later", []grew{{loopLasts, 10}, {loopLasts, 20}, {loopLasts, 21}}, 0, true},
	} {
		var r crashLoop
		for n, g := range c.lives {
			r.add(lifeOf(n, g.lasted, g.rate), c.span)
		}
		if r.Proven != c.want || r.confidence() > 0 != c.want {
			t.Errorf("%s: %t, confidence %g", c.name, r.Proven, r.confidence())
		}
	}
}

// What follows from the lives: the median of rates and bases, what it is off by, and what the last one held.
func TestWhatALoopTells(t *testing.T) {
	var r crashLoop
	if r.held() != 0 || r.ended() != 0 || r.confidence() != 0 || !r.follows(start) {
		t.Error("an empty loop tells of lives")
	}
	r.add(lifeOf(0, time.Hour, 10), 0)
	if r.Trend.Variance != 0 || r.Trend.N != 1 {
		t.Errorf("one life: %+v", r.Trend)
	}
	r.reset()
	for n, rate := range []float64{10, 12, 20} {
		l := lifeOf(n, 10*time.Minute, rate)
		l.Base = stat.Bytes(n+1) * gib
		l.From -= time.Duration(2-n) * time.Minute // the first one took longest
		r.add(l, 0)
	}
	near(t, "rate", r.Trend.Rate, 12*mib, 1e-9)
	near(t, "variance: 2² and 8² of 2", r.Trend.Variance, 34*mib*mib, 1e-9)
	near(t, "wander", r.Trend.Wander, 4, 1e-9)
	if r.Base != 2*gib || r.Trend.N != 3 || r.Since != start-2*time.Minute || r.Lasted != 30*time.Minute || r.Longest != 13*time.Minute {
		t.Errorf("%+v", r)
	}
	near(t, "held: 3 GiB and 20 MiB/s for ten minutes", float64(r.held()), float64(3*gib+12000*mib), 1e-9)
	if end := r.ended(); end != r.last().To || r.follows(end) || !r.follows(end+1) {
		t.Error("who came before the end of the last one follows")
	}
	for n := 3; n < 100; n++ {
		r.add(lifeOf(n, 10*time.Minute, 40), 0)
	}
	near(t, "rate of the last ones", r.Trend.Rate, 40*mib, 1e-9)
	if r.Trend.N != keptLives || r.N != 100 || r.Since != start-2*time.Minute {
		t.Errorf("after a hundred: %d of %d lives, since %s", r.Trend.N, r.N, r.Since-start)
	}
}

// Each life more than are needed adds to the confidence, up to no doubt. A paused loop has none.
func TestConfidenceOfALoop(t *testing.T) {
	for n, want := range map[int]float64{2: 0.7, 3: 0.7, sureLives - 2: 0.8, sureLives - 1: 0.9, sureLives: 1, 50: 1} {
		r := crashLoop{N: n, Proven: true}
		near(t, "confidence", r.confidence(), want, 1e-9)
		r.Paused = true
		testkit.Equal(t, r.confidence(), 0, "confidence of a paused loop of %d lives", n)
	}
}

// A death that was none is taken back: what is a loop without it goes on.
func TestRevokedDeath(t *testing.T) {
	r := looping()
	r.Noted = start
	r.add(lifeOf(3, 10*time.Minute, 10), 0)
	if r.removeLast(); r.N != leastDeaths || !r.Proven {
		t.Errorf("of four: %d lives, proven %t", r.N, r.Proven)
	}
	if r.removeLast(); r.N != 0 || r.Proven || r.Noted != start || r.Lasted != 0 {
		t.Errorf("of three: %+v", r)
	}
}

// A loop is paused where nobody goes on with it for a while, goes on with one that grows again, and is
// forgotten after a day.
func TestPauseOfALoop(t *testing.T) {
	r0 := looping()
	const loaded = 5 * gib // half of the base
	more := time.Duration(outlives * float64(r0.Longest))
	grown := 10*gib + stat.Bytes(growsAgain*float64(r0.held()-10*gib))
	for _, c := range []struct {
		name   string
		at     time.Duration // after the last death
		used   stat.Bytes    // of who runs; 0 nobody does
		others stat.Bytes
		was    bool // paused
		paused bool
		n      int
	}{
		{"nobody, for a while", process.Absence - 1, 0, 0, false, false, 3},
		{"nobody, for longer", process.Absence, 0, 0, false, true, 3},
		{"one who holds little", process.Absence, loaded - 1, 0, false, false, 3},
		{"one who holds little, for long", process.Absence + more, loaded - 1, 0, false, true, 3},
		{"one who has loaded", process.Absence + more, loaded, 0, false, false, 3},
		{"one who has loaded after a pause", process.Absence + more, loaded, 0, true, true, 3},
		{"one who grows after a pause, a little", process.Absence, grown, 0, true, true, 3},
		{"one who grows", process.Absence, grown + 1, 0, true, false, 3},
		{"one who was there before may be the next", process.Absence, 0, loaded, false, false, 3},
		{"not one who holds little", process.Absence, 0, loaded - 1, false, true, 3},
		{"nobody for nearly a day", forgotten - 1, 0, 0, false, true, 3},
		{"nobody for a day", forgotten, 0, 0, false, false, 0},
		{"one who holds little for a day", forgotten, loaded - 1, 0, false, false, 0},
	} {
		r := looping()
		r.Paused = c.was
		var s *series.Series
		if c.used > 0 {
			s = running(r, c.at-time.Minute, time.Minute, c.used, 0)
		}
		if r.next(s, c.others, r.last().To+c.at); r.Paused != c.paused || r.N != c.n {
			t.Errorf("%s: paused %t, %d lives", c.name, r.Paused, r.N)
		}
	}
	var none crashLoop
	if none.next(nil, 0, start); none != (crashLoop{}) {
		t.Errorf("an empty one: %+v", none)
	}
}

// Who outlives a loop without growing ends it; who grows does not, and is looked at now and then.
func TestWhoOutlivesALoop(t *testing.T) {
	long := time.Duration(outlives * float64(looping().Longest))
	for _, c := range []struct {
		name  string
		lived time.Duration
		rate  stat.Bytes // per second
		n     int
	}{
		{"not yet", long, 0, 3},
		{"it does not grow", long + 5*time.Second, 0, 0},
		{"it grows", long + 5*time.Second, 10 * mib, 3},
	} {
		r := looping()
		s := running(r, time.Minute, c.lived, 10*gib, c.rate)
		now := s.Last
		r.next(s, 0, now)
		testkit.Equal(t, r.N, c.n, "%s: lives", c.name)
		if look := now + r.Longest/outliveLook; c.rate > 0 && r.Look != look {
			t.Errorf("%s: looked at again at %s", c.name, r.Look-now)
		}
	}
	r := looping()
	s := running(r, time.Minute, long+time.Minute, 10*gib, 0)
	r.Look = s.Last + 1
	if r.next(s, 0, s.Last); r.N != 3 {
		t.Error("it was looked at before its time")
	}
	if r.next(s, 0, r.Look); r.N != 0 {
		t.Error("it was not looked at")
	}
	r = &crashLoop{}
	r.add(lifeOf(0, 10*time.Minute, 10), 0)
	if r.next(running(r, time.Minute, time.Hour, 10*gib, 0), 0, r.last().To+2*time.Hour); r.N != 1 {
		t.Error("a chain that is no loop was ended")
	}
}
