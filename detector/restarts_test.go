// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// program is a workload of one process at a time. The n-th life, from 0 on, lasts for
// some seconds, in which memory tells what it holds; then nothing holds any for pause
// seconds.
type program struct {
	capacity float64
	step     int // seconds between frames; 1 if 0
	lasts    func(n int) int
	memory   func(n, s int) float64
	pause    func(n int) int
	sm       func(n, s int) Value
	other    float64 // memory of a process of another pod
	// company is another process of the pod, or of the program: its key, 0 for none, and
	// its memory.
	company func(n, s int) (key int, used float64)
	lives   int
	bare    bool // its processes are in no pod: they are known by what they run
	turned  bool // lists are in the other order
}

// told is what was said of a program.
type told struct {
	changes []int // seconds at which the device's verdict on leaks changed
	lives   []int // the lives in which it did
	// While the program had a process last: the verdicts on its pod, and on the device.
	pod, device Verdict
}

// loopVerdict returns the verdict on the program's pod, the zero Verdict if there is
// none.
func loopVerdict(j *Judgement[int]) Verdict {
	for i := range j.Groups {
		if j.Groups[i].Group == "ml/loop" {
			return j.Groups[i].Verdict
		}
	}
	return Verdict{}
}

// dying returns a program that loads for 20 s up to base, grows at rate and dies when
// it holds most, or after life seconds.
func dying(capacity, base, rate, most float64, life int) program {
	if full := 20 + int((most-base)/rate); full < life {
		life = full
	}
	return program{
		capacity: capacity, lasts: func(int) int { return life }, pause: func(int) int { return 10 }, lives: 12,
		memory: func(_, s int) float64 { return base*min(float64(s+1)/20, 1) + rate*float64(max(0, s-20)) },
	}
}

// filling returns a program that dies of out-of-memory after life seconds.
func filling(capacity, base float64, life int) program {
	return dying(capacity, base, (0.99*capacity-base)/float64(life-20), 0.99*capacity, life)
}

func constant(n int) func(int) int { return func(int) int { return n } }

// run feeds a program to a domain; restart, if any, replaces the domain at each second.
func (p *program) run(t *testing.T, d *Domain[int], restart func(second int, d *Domain[int]) *Domain[int]) (all told) {
	t.Helper()
	second := 0
	frame := Frame[int]{Capacity: Of(p.capacity), Complete: true}
	for n := range p.lives {
		lasts := p.lasts(n)
		for s := 0; s < lasts+p.pause(n); s += max(p.step, 1) {
			frame.T, frame.Used = seconds2026(second), Of(p.other)
			frame.Members = append(frame.Members[:0], Member[int]{Key: 1, Group: "ml/other", Used: Of(p.other), Started: start})
			if s < lasts {
				m := Member[int]{Key: 100 + n, Used: Of(round(min(p.memory(n, s), p.capacity-p.other))), Started: seconds2026(second - s)}
				if p.sm != nil {
					m.SM = p.sm(n, s)
				}
				p.join(&frame, m)
			}
			if p.company != nil {
				if key, used := p.company(n, s); key != 0 {
					p.join(&frame, Member[int]{Key: key, Used: Of(round(used))})
				}
			}
			if p.turned {
				slices.Reverse(frame.Members)
			}
			if err := d.Observe(&frame); err != nil {
				t.Fatal(err)
			}
			if s%judgeEach < max(p.step, 1) {
				all.note(t, n, second, s < lasts, d.Judgement())
			}
			second += max(p.step, 1)
			if restart != nil {
				d = restart(second, d)
			}
		}
	}
	return all
}

// join puts a process of the program in a frame.
func (p *program) join(f *Frame[int], m Member[int]) {
	m.Group = "ml/loop"
	if p.bare {
		m.Group, m.Program = "", "loop.py"
	}
	f.Members = append(f.Members, m)
	f.Used.V += m.Used.V
}

// judgeEach is how many seconds of a life are between two looks at the verdict.
const judgeEach = 4

// note takes a judgement of a second in the n-th life, or after it.
func (a *told) note(t *testing.T, n, second int, lives bool, j *Judgement[int]) {
	t.Helper()
	if leak := len(a.changes)%2 == 1; j.Device.Leak != leak {
		a.changes, a.lives = append(a.changes, second), append(a.lives, n)
	}
	checkLoop(t, second, j)
	if lives {
		a.pod, a.device = loopVerdict(j), j.Device
	}
}

// checkLoop checks that all parts of a verdict agree.
func checkLoop(t *testing.T, second int, j *Judgement[int]) {
	t.Helper()
	checkVerdict(t, &j.Device)
	for _, g := range append(j.Groups, GroupVerdict{Group: "the device", Verdict: j.Device}) {
		checkVerdict(t, &g.Verdict)
		finite := g.SecondsToOOM.OK && !math.IsInf(g.SecondsToOOM.V, 1)
		if g.Leak != g.Rate.OK || g.Leak != g.Leaked.OK || g.Leak != finite || g.Leak != g.Pattern.leaks() {
			t.Fatalf("second %d: the parts of the verdict on %s disagree: %+v", second, g.Group, g.Verdict)
		}
		if g.Leak && g.Group != "the device" && (!j.Device.Leak || g.SecondsToOOM != j.Device.SecondsToOOM) {
			t.Fatalf("second %d: the device does not die with %s", second, g.Group)
		}
	}
}

// A process that leaks until it is killed is found although it never lives for as
// long as a leak takes to show, and stays found over the pauses between its lives.
func TestCrashLoopIsFound(t *testing.T) {
	noisy := func(p program, noise, tooth float64, period int) program {
		rng := rand.New(rand.NewPCG(31, 32))
		clean := p.memory
		p.memory = func(n, s int) float64 {
			return clean(n, s) + noise*rng.Float64() + tooth*float64(s%period)/float64(period)
		}
		return p
	}
	with := func(p program, change func(*program)) program { change(&p); return p }
	backOff := func(p *program) { p.pause = func(n int) int { return min(10<<n, 300) } }
	bursts := func(p *program) {
		steady, gaps := p.memory, []int{300, 1000, 1150, 1900, 2399, 1 << 20}
		p.memory = func(n, s int) float64 {
			from := 20
			for _, to := range gaps {
				if s < to {
					break
				}
				from = to
			}
			return steady(n, min(s, from))
		}
	}
	cases := map[string]struct {
		program
		found int // the life in which it is found
		// alone says that each life shows by itself that it is about to fill the memory,
		// and that this ends with it.
		alone bool
	}{
		"6 minutes, 80 GiB":                              {filling(80*gib, 10*gib, 360), 3, false},
		"25 minutes, 80 GiB":                             {filling(80*gib, 10*gib, 1500), 3, true},
		"6 minutes, 16 GiB":                              {filling(16*gib, 4*gib, 360), 3, false},
		"25 minutes, 16 GiB":                             {filling(16*gib, 4*gib, 1500), 3, true},
		"2 minutes, not for long enough until the sixth": {filling(80*gib, 40*gib, 170), 5, false},
		"back-off":                                       {with(filling(80*gib, 10*gib, 360), backOff), 3, false},
		"every 15 s":                                     {with(filling(80*gib, 10*gib, 480), func(p *program) { p.step = 15 }), 3, false},
		"no pause":                                       {with(filling(80*gib, 10*gib, 360), func(p *program) { p.pause = constant(0) }), 3, false},
		"beside another process":                         {with(dying(80*gib, 10*gib, 60*mib, 59*gib, 900), func(p *program) { p.other = 20 * gib }), 2, false},
		"not full, 25 minutes":                           {dying(80*gib, 4*gib, 50*mib, 80*gib, 1500), 3, true},
		"not full, 6 minutes":                            {dying(80*gib, 4*gib, 50*mib, 80*gib, 360), 11, false},
		"slow, not full":                                 {dying(16*gib, 4*gib, mib/5, 16*gib, 1500), 11, false},
		"noise":                                          {noisy(filling(16*gib, 4*gib, 900), 200*mib, 0, 1), 2, false},
		"sawtooth":                                       {noisy(filling(16*gib, 4*gib, 1500), 0, 400*mib, 40), 3, true},
		"by bursts":                                      {with(filling(80*gib, 10*gib, 2400), bursts), 2, false},
		"by bursts, with pauses":                         {with(filling(80*gib, 10*gib, 2400), func(p *program) { bursts(p); backOff(p) }), 2, false},
		"computing":                                      {with(filling(80*gib, 40*gib, 360), func(p *program) { p.sm = func(_, s int) Value { return Of(float64(min(s/20, 1))) } }), 3, false},
		"a check before each life": {with(filling(80*gib, 10*gib, 600), func(p *program) {
			lasts, memory := p.lasts, p.memory
			p.lasts = func(n int) int {
				if n%2 == 0 {
					return 5
				}
				return lasts(n)
			}
			p.memory = func(n, s int) float64 {
				if n%2 == 0 {
					return 400 * mib
				}
				return memory(n, s)
			}
		}), 6, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			c.lives = c.found + 3
			all := c.run(t, newDomain(t), nil)
			if c.alone {
				if want := []int{0, 0, 1}; !slices.Equal(all.lives, want) {
					t.Fatalf("the verdict changed in the lives %v, want %v", all.lives, want)
				}
			} else if len(all.changes) != 1 || all.lives[0] > c.found || all.lives[0] < c.found-1 {
				t.Fatalf("the verdict changed in the lives %v, want it found at the end of life %d or in %d", all.lives, c.found-1, c.found)
			}
			v := all.pod
			if !v.Leak || v.Pattern != PatternLeakCyclic || v.Confidence < gateConfidence {
				t.Errorf("in the end: %+v", v)
			}
		})
	}
}

// One life, and whether it counts as one that grew.
func TestLifeThatGrew(t *testing.T) {
	steady := func(from, to float64) func(s int) float64 {
		return func(s int) float64 { return min(gib+from/20*float64(s), from) + max(0, float64(s-20))*(to-from)/1180 }
	}
	resting := func(until int) func(s int) Value { return func(s int) Value { return Of(float64(btoi(s >= until))) } }
	for name, c := range map[string]struct {
		memory func(s int) float64
		sm     func(s int) Value // not known if nil
		grew   bool
		bursts bool
	}{
		"steady":                             {steady(10*gib, 30*gib), nil, true, false},
		"after a load without compute":       {steady(40*gib, 42*gib), resting(40), true, false},
		"without compute":                    {steady(10*gib, 30*gib), resting(1200), false, false},
		"slowing down":                       {func(s int) float64 { return 10*gib + 20*gib*(1-math.Exp(-float64(s)/1000)) }, nil, false, false},
		"faster and faster":                  {func(s int) float64 { return 10*gib + float64(s)*float64(s)*10*1024 }, nil, true, false},
		"in four jumps":                      {func(s int) float64 { return 10*gib + float64((s+150)/300)*gib }, nil, true, true},
		"in eight jumps":                     {func(s int) float64 { return 10*gib + float64((s+75)/150)*gib }, nil, true, false},
		"at its beginning and its end alone": {func(s int) float64 { return 10*gib + float64(min(s, 260)+max(0, s-940))*10*mib }, nil, false, false},
		"until a sixth before its end":       {func(s int) float64 { return 10*gib + float64(min(s, 1000))*10*mib }, nil, false, false},
		"after half of it":                   {func(s int) float64 { return 10*gib + float64(max(0, s-560))*10*mib }, nil, true, false},
		"less than the least growth":         {steady(10*gib, 10*gib+15*mib), nil, false, false},
		"in two jumps":                       {func(s int) float64 { return 10*gib + float64((s+150)/600)*gib }, nil, false, false},
		"in jumps without compute":           {func(s int) float64 { return 10*gib + float64((s+150)/300)*gib }, resting(1200), false, false},
		"in jumps that it gives back":        {func(s int) float64 { return 10*gib + float64((s+150)/300%2+s/600)*gib }, nil, false, false},
		"its last phase needs more":          {func(s int) float64 { return 10*gib + float64(max(0, s-1000))*100*mib }, nil, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSeries(DefaultConfig())
			for at := range 1200 {
				o := observation{t: int64(seconds2026(at)), used: int64(round(c.memory(at))), interval: int64(time.Second), capacity: 80 * gib}
				if c.sm != nil {
					o.sm = c.sm(at)
				}
				s.observe(&o)
			}
			l, grew := s.lived()
			if grew != c.grew || l.uneven != c.bursts || l.from != int64(seconds2026(0)) || l.to != int64(seconds2026(1199)) {
				t.Fatalf("grew: %t, want %t, by bursts %t; %+v", grew, c.grew, c.bursts, l)
			}
			if name == "steady" {
				near(t, "rate", l.trend.rate, 20*gib/1180, 0.01)
				near(t, "base", float64(l.base), 10*gib, 0.05)
				near(t, "time left", seconds(l.ahead), 50*1180/20, 0.03)
			}
		})
	}
}

// The limits of what counts as uneven growth. Each row lies just within or just beyond one.
func TestLifeThatGrewUnevenly(t *testing.T) {
	steps := func(size float64, at ...int) func(s int) float64 {
		return func(s int) float64 {
			held := 10 * float64(gib)
			for _, from := range at {
				held += size * float64(btoi(s >= from))
			}
			return held
		}
	}
	plus := func(a, b func(s int) float64) func(s int) float64 {
		return func(s int) float64 { return a(s) + b(s) - 10*gib }
	}
	ramps := func(size float64, long int, at ...int) func(s int) float64 {
		return func(s int) float64 {
			held := 10 * float64(gib)
			for _, from := range at {
				held += size * min(max(float64(s-from)/float64(long), 0), 1)
			}
			return held
		}
	}
	from := func(at int) func(s int) Value { return func(s int) Value { return Of(float64(btoi(s >= at))) } }
	for name, c := range map[string]struct {
		lasts  int
		memory func(s int) float64
		sm     func(s int) Value // not known if nil
		want   bool
	}{
		"keeps a ninth":                           {1200, plus(steps(gib, 500, 900), steps(7*gib, 1190)), from(20), true},
		"keeps a fourteenth":                      {1200, plus(steps(gib, 500, 900), steps(12*gib, 1190)), from(20), false},
		"works for 150 s":                         {800, steps(gib, 680, 710, 730, 760, 785), from(650), true},
		"works for 110 s":                         {800, steps(gib, 705, 720, 740, 765, 785), from(690), false},
		"600 s, nobody knows whether it works":    {600, steps(gib, 200, 300, 420, 580), nil, true},
		"520 s, nobody knows whether it works":    {520, steps(gib, 170, 260, 360, 500), nil, false},
		"stands still for most of the time":       {1200, plus(ramps(3*gib, 100, 310, 1095), ramps(4*gib, 100, 560)), nil, true},
		"loads for most of the time":              {1200, plus(ramps(3*gib, 230, 310, 965), ramps(4*gib, 230, 560)), nil, false},
		"one burst of two fifths":                 {1200, plus(steps(3*gib, 400, 1000), steps(4*gib, 700)), nil, true},
		"one burst of three fifths":               {1200, plus(steps(gib, 400, 1000), steps(3*gib, 700)), nil, false},
		"lives on for a quarter of its time":      {1200, steps(2*gib, 200, 330, 450, 560, 640), from(20), false},
		"waits as long for the next as before":    {1300, steps(2*gib, 200, 560, 900), from(20), true},
		"what it needs at once is not kept":       {1200, func(s int) float64 { return 10*gib + float64(btoi(s%400 > 300))*20*gib }, from(20), false},
		"gives back in the end":                   {1200, func(s int) float64 { return 10*gib + float64(s/300%4)*2*gib - float64(btoi(s >= 1195))*7*gib }, from(20), false},
		"it has computed, and not until it loads": {1200, steps(2*gib, 400, 700, 1000, 1150), from(1300), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSeries(DefaultConfig())
			for at := range c.lasts {
				o := observation{t: int64(seconds2026(at)), used: int64(round(c.memory(at))), interval: int64(time.Second), capacity: 80 * gib}
				if c.sm != nil {
					o.sm = c.sm(at)
				}
				s.observe(&o)
			}
			if l, grew := s.lived(); (grew && l.uneven) != c.want {
				t.Errorf("grew: %t, unevenly: %t, want %t; %+v", grew, l.uneven, c.want, l)
			}
		})
	}
}

// Which lives in a row are a leak.
func TestChain(t *testing.T) {
	lives := func(rates ...float64) []float64 { return rates }
	for name, c := range map[string]struct {
		rates  []float64     // MiB a second; negative for a life that did not fill the memory, 100 and more for one by bursts
		lasted time.Duration // each
		ahead  time.Duration // of each that did not
		proof  int
		since  int // the number of its first life
	}{
		"three full ones":                 {lives(1, 5, 25), 10 * time.Minute, 0, 3, 0},
		"two full ones":                   {lives(1, 5), time.Hour, 0, 0, 0},
		"three full ones, shorter":        {lives(1, 5, 25), 3 * time.Minute, 0, 0, 0},
		"four full ones, shorter":         {lives(1, 5, 25, 1), 3 * time.Minute, 0, 4, 0},
		"one in between":                  {lives(1, 5, -25, 1, 5), 10 * time.Minute, 0, 0, 0},
		"after one that was not":          {lives(-25, 1, 5, 25), 10 * time.Minute, 0, 3, 1},
		"like ones":                       {lives(-10, -14, -9), 20 * time.Minute, time.Hour, 3, 0},
		"two like ones":                   {lives(-10, -10), time.Hour, time.Hour, 0, 0},
		"like ones, shorter":              {lives(-10, -14, -9), 19 * time.Minute, time.Hour, 0, 0},
		"like ones, slow":                 {lives(-10, -14, -9), 20 * time.Minute, 5 * time.Hour, 0, 0},
		"like ones, very slow":            {lives(-10, -14, -9), 8 * time.Hour, 900 * time.Hour, 3, 0},
		"unlike ones":                     {lives(-10, -16, -10, -16), time.Hour, time.Hour, 0, 0},
		"unlike ones, the other way":      {lives(-16, -10, -16, -10), time.Hour, time.Hour, 0, 0},
		"like ones after one that is not": {lives(-2, -10, -10, -10), time.Hour, time.Hour, 3, 1},
		"both":                            {lives(10, 10, 10, 10), 20 * time.Minute, time.Hour, 4, 0},
		"unlike ones after the proof":     {lives(1, 5, 25, -95), 10 * time.Minute, time.Hour, 4, 0},
		"full by bursts":                  {lives(100, 500, 200), 7 * time.Minute, time.Hour, 3, 0},
		"full by bursts, shorter":         {lives(100, 500, 200), 6 * time.Minute, time.Hour, 0, 0},
		"two full by bursts":              {lives(100, 500), time.Hour, time.Hour, 0, 0},
		"some of them by bursts":          {lives(1, 100, 5, 200), 5 * time.Minute, time.Hour, 4, 0},
		"one of them by bursts":           {lives(1, 5, 100, 25), 4 * time.Minute, time.Hour, 3, 0},
		"two in a row by bursts":          {lives(1, 5, 100, 500, 25), 210 * time.Second, time.Hour, 0, 0},
		"two by bursts, not in a row":     {lives(1, 100, 5, 500, 25), 210 * time.Second, time.Hour, 3, 0},
		"by bursts after one that is not": {lives(-10, 100, 100, 100), 20 * time.Minute, time.Hour, 3, 1},
		"by bursts, one that is not":      {lives(100, 500, -10, 100), 30 * time.Minute, time.Hour, 0, 0},
		"two like full ones":              {lives(10, 14), 10 * time.Minute, time.Hour, 2, 0},
		"two like full ones, shorter":     {lives(10, 14), 9 * time.Minute, time.Hour, 0, 0},
		"the last two are like":           {lives(1, 10, 14), 7 * time.Minute, time.Hour, 3, 0},
	} {
		var r restarts
		cfg := DefaultConfig()
		for i, rate := range c.rates {
			l := life{from: int64(i + 1), to: int64(i + 2), lasted: int64(c.lasted), trend: trend{rate: math.Abs(rate) * mib, n: 9}, uneven: rate >= 100}
			if rate < 0 {
				l.ahead = int64(c.ahead)
			}
			r.add(l, rate > 0, &cfg)
		}
		if r.proof != c.proof || c.proof > 0 && r.since != int64(c.since+1) {
			t.Errorf("%s: proof of %d since %d, want %d since %d", name, r.proof, r.since-1, c.proof, c.since)
		}
	}
}

// A life has filled the memory if that was nearly full at its end, and not before.
func TestFilled(t *testing.T) {
	minutes := func(n float64) int64 { return int64(n * float64(time.Minute)) }
	for name, c := range map[string]struct {
		since, until float64 // the memory was full, minutes
		want         bool
	}{
		"until its end":                {18, 20, true},
		"until its cache was emptied":  {18, 19.5, true},
		"until long before":            {12, 15, false},
		"from before its growth began": {4, 20, false},
		"never":                        {0, 0, false},
	} {
		f := fullness{since: minutes(c.since), until: minutes(c.until)}
		if got := f.filled(minutes(5), minutes(20)); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Of ends that a list tells of together, nobody knows which came first.
func TestEndsOfOneFrameAreNoChain(t *testing.T) {
	p, d := filling(80*gib, 10*gib, 900), newDomain(t)
	f := Frame[int]{Capacity: Of(80 * gib)}
	for second := range 1260 { // the list is not complete: the first may still be there
		f.T, f.Used = seconds2026(second), Of(round(p.memory(0, second%900)))
		f.Members = append(f.Members[:0], Member[int]{Key: second / 900, Group: "ml/loop", Used: f.Used})
		if err := d.Observe(&f); err != nil {
			t.Fatal(err)
		}
	}
	if g := d.groups[groupName{name: "ml/loop"}]; len(d.members) != 2 || g.restarts.n != 0 {
		t.Fatalf("%d processes, %d lives", len(d.members), g.restarts.n)
	}
	f.T, f.Members, f.Complete = f.T+time.Second, nil, true
	if err := d.Observe(&f); err != nil {
		t.Fatal(err)
	}
	if n := d.groups[groupName{name: "ml/loop"}].restarts.n; len(d.members) != 0 || n != 0 {
		t.Errorf("%d processes, %d lives", len(d.members), n)
	}
}

// What a workload does one process after another, and which is no leak, is none: not
// of the pod, not of the GPU.
func TestLivesThatAreNoCrashLoop(t *testing.T) {
	with := func(p program, change func(*program)) program { change(&p); return p }
	lives := func(lasts int, memory func(n, s int) float64) program {
		return program{capacity: 80 * gib, lasts: constant(lasts), pause: constant(10), memory: memory, lives: max(5, 9000/max(lasts, 1))}
	}
	ramp := func(s int, rate, most float64) float64 { return min(gib/2+rate*float64(s), most) }
	rng := rand.New(rand.NewPCG(33, 34))
	for name, p := range map[string]program{
		"load and hold still":            lives(600, func(_, s int) float64 { return ramp(s, 500*mib, 40*gib) }),
		"load for half of it":            lives(600, func(_, s int) float64 { return ramp(s, 100*mib, 30*gib) }),
		"load, end, do not fit":          lives(150, func(_, s int) float64 { return ramp(s, 600*mib, 80*gib) }),
		"a slow load that does not fit":  lives(800, func(_, s int) float64 { return ramp(s, 102*mib, 80*gib) }),
		"the same, seen every 15 s late": with(lives(800, func(_, s int) float64 { return ramp(s+13, 101*mib, 80*gib) }), func(p *program) { p.step = 15 }),
		"a load in two paces without compute": with(lives(400, func(_, s int) float64 {
			return min(ramp(s, gib, 20*gib)+ramp(max(0, s-20), 155*mib, 60*gib), 79.5*gib)
		}), func(p *program) { p.sm = func(int, int) Value { return Of(0) } }),
		"a fast last load of 100 s": lives(140, func(_, s int) float64 {
			return min(ramp(s, gib, 30*gib)+ramp(max(0, s-40), 0.5*gib, 80*gib), 79.5*gib)
		}),
		"warm up and stay":           lives(1200, func(_, s int) float64 { return 10*gib + 20*gib*(1-math.Exp(-float64(s)/150)) }),
		"warm up all the time":       lives(1200, func(_, s int) float64 { return 10*gib + 20*gib*(1-math.Exp(-float64(s)/600)) }),
		"a cache that fills the GPU": lives(1500, func(_, s int) float64 { return min(10*gib+float64(s)*60*mib, 78*gib) }),
		"a last quarter without":     lives(1000, func(_, s int) float64 { return 10*gib + min(float64(s), 780)*20*mib }),
		"workers of 1 to 40 s":       with(lives(0, func(_, s int) float64 { return gib + float64(s)*500*mib }), func(p *program) { p.lasts, p.lives, p.pause = func(n int) int { return 1 + 7*n%40 }, 200, constant(1) }),
		"restarted once":             with(filling(80*gib, 10*gib, 540), func(p *program) { p.lives = 2 }),
		"restarted once, then still": with(filling(80*gib, 10*gib, 540), func(p *program) {
			fill := p.memory
			p.memory = func(n, s int) float64 {
				if n%3 == 2 {
					return 10 * gib
				}
				return fill(n, s)
			}
		}),
		"a last phase that does not fit":    lives(2400, func(_, s int) float64 { return 10*gib + float64(max(0, s-2300))*0.7*gib }),
		"a request that does not fit":       lives(2400, func(_, s int) float64 { return 10*gib + float64(btoi(s%500 < 50)*(s/500+1))*14*gib }),
		"another pace each time":            lives(1500, func(n, s int) float64 { return 10*gib + float64(s)*float64(1+2*(n%2))*5*mib }),
		"another pace on a full GPU":        with(lives(600, func(n, s int) float64 { return 1.5*gib + float64(s)*float64(1+2*(n%2))*mib }), func(p *program) { p.other = 77 * gib }),
		"less than the least growth":        lives(1500, func(_, s int) float64 { return 10*gib + float64(s)*10*1024 }),
		"each holds more than the last one": with(lives(300, func(n, _ int) float64 { return 10*gib + float64(n)*300*mib }), func(p *program) { p.pause, p.capacity = constant(0), 24*gib }),
		"noise":                             lives(900, func(int, int) float64 { return 10*gib + rng.Float64()*4*gib }),
		"sawtooth":                          lives(900, func(_, s int) float64 { return 10*gib + float64(s%300)*30*mib }),
	} {
		t.Run(name, func(t *testing.T) {
			d := newDomain(t)
			all := p.run(t, d, nil)
			if len(all.changes) > 0 {
				t.Errorf("a leak from second %d on, in life %d: %+v", all.changes[0], all.lives[0], d.groups[groupName{name: "ml/loop"}].restarts)
			}
			if d.groups[groupName{name: "ml/loop"}].series == nil {
				t.Error("the pod has no series: the test shows little")
			}
		})
	}
}

// What grows straight, and too slowly for a load, from the start of a program on is told. Where
// that ended within the hour and did not fill the memory, it is told once on a GPU, however
// its programs come and go.
func TestSlowGrowthFromTheStartIsToldOnce(t *testing.T) {
	const minute = 60
	cache := func(s int) float64 { return min(10*gib+float64(s)*2*mib, 12*gib) }
	alone := func(int) string { return "" }
	named := func(n int) string { return fmt.Sprint("ml/job-", n) }
	pod := func(int) string { return "ml/pod" }
	for name, c := range map[string]struct {
		memory      func(s int) float64
		group       func(n int) string
		life, pause int // of a process and until the next one, seconds
		want        int
		busy        bool // what another program does hides them from the series of the GPU
	}{
		"a pod":                  {cache, pod, 40 * minute, 10, 1, false},
		"a pod that was gone":    {cache, pod, 40 * minute, 700, 1, false},
		"a pod that is relieved": {cache, pod, 40 * minute, -5, 1, false},
		"pods of other names":    {cache, named, 40 * minute, 10, 1, false},
		"no pod":                 {cache, alone, 30 * minute, 10, 1, false},
		"a pool":                 {cache, pod, 40 * minute, -30 * minute, 2, false}, // the second one begins before the first one ends
		"no end":                 {func(s int) float64 { return 2*gib + 2*mib*float64(s) }, alone, 360 * minute, 10, 1, false},
		"a leak that is restarted each two hours": {func(s int) float64 { return 2*gib + 2*mib*float64(s) }, alone, 110 * minute, 600, 3, false},
		"jobs that end as they grow":              {func(s int) float64 { return 2*gib + float64(s)*2*mib }, named, 20 * minute, 10, 1, false},
		"the same beside a busy program":          {func(s int) float64 { return 2*gib + float64(s)*2*mib }, named, 20 * minute, 10, 1, true},
		"a warm-up, and then nothing":             {func(s int) float64 { return 2*gib + 2*mib*float64(min(s, 840)) }, alone, 45 * minute, 60, 1, false},
	} {
		for _, saved := range []bool{false, true} {
			if told := toldOf(t, c.memory, c.group, c.life, c.life+c.pause, saved, c.busy); told != c.want {
				t.Errorf("%s, saved: %t: told %d times, want %d", name, saved, told, c.want)
			}
		}
	}
}

// toldOf returns how often a GPU of 80 GiB leaks in 6 hours, in which a process starts every so
// many seconds and lives for as long as life. saved restores the domain now and then.
func toldOf(t *testing.T, memory func(s int) float64, group func(n int) string, life, every int, saved, busy bool) (told int) {
	t.Helper()
	d, leaks := newDomain(t), false
	f := Frame[int]{Capacity: Of(80 * gib), Complete: true}
	for second := range 6 * 3600 {
		f.T, f.Used, f.Members = seconds2026(second), Of(4*gib*float64(btoi(busy)*(second/90%3))), f.Members[:0]
		if busy {
			f.Members = append(f.Members, Member[int]{Key: -1, Group: "ml/busy", Used: f.Used, Started: start})
		}
		for n := max(0, (second-life)/every); n*every <= second; n++ {
			if s := second - n*every; s < life {
				used := round(memory(s))
				f.Members = append(f.Members, Member[int]{Key: n, Group: group(n), Used: Of(used), Started: seconds2026(n * every)})
				f.Used.V += used
			}
		}
		if err := d.Observe(&f); err != nil {
			t.Fatal(err)
		}
		if second%judgeEach == 0 {
			j := d.Judgement()
			told += btoi(j.Device.Leak && !leaks)
			leaks = j.Device.Leak
		}
		if saved && second%601 == 0 {
			next := newDomain(t)
			if err := next.Restore(d.Save(nil, appendKey), readKey); err != nil {
				t.Fatal(err)
			}
			d = next
		}
	}
	return told
}

// What the last life had left is what others left it, also where the exporter was restarted just
// before it ended.
func TestTimeLeftOfALifeOnASharedGPU(t *testing.T) {
	p := program{
		capacity: 80 * gib, other: 70 * gib, lasts: constant(1200), pause: constant(10), lives: 2,
		memory: func(_, s int) float64 { return 2*gib + mib*float64(s) },
	}
	for _, each := range []int{0, 1210, 1} { // seconds between restarts
		d := newDomain(t)
		p.run(t, d, func(second int, now *Domain[int]) *Domain[int] {
			if d = now; each > 0 && (second+11)%each == 0 {
				d = newDomain(t)
				if err := d.Restore(now.Save(nil, appendKey), readKey); err != nil {
					t.Fatal(err)
				}
			}
			return d
		})
		r := &d.groups[groupName{name: "ml/loop"}].restarts
		if r.n != 2 {
			t.Fatalf("%d lives", r.n)
		}
		near(t, "time left", seconds(r.lives[1].ahead), 8*1024-1200, 0.03)
	}
}

// Lives whose memory wanders are no crash loop but by chance.
func TestWanderingLivesAreNoCrashLoop(t *testing.T) {
	alarmed := 0
	for seed := range uint64(24) {
		rng := rand.New(rand.NewPCG(seed, 35))
		level := 0.0
		p := program{
			capacity: 24 * gib, lasts: func(int) int { return 300 + rng.IntN(900) }, pause: constant(20), lives: 16, step: 4,
			memory: func(_, s int) float64 {
				if s == 0 {
					level = 8 * gib
				}
				if s%20 == 0 {
					level = max(gib, level+rng.NormFloat64()*200*mib)
				}
				return level
			},
		}
		lasts := make([]int, p.lives) // asked for more than once
		for n := range lasts {
			lasts[n] = p.lasts(n)
		}
		p.lasts = func(n int) int { return lasts[n] }
		if all := p.run(t, newDomain(t), nil); len(all.changes) > 0 {
			alarmed++
		}
	}
	if alarmed > 1 {
		t.Errorf("%d of 24 alarmed", alarmed)
	}
}

// The GPU's verdict stays over the pauses, the pod's is there while it has a process;
// the forecast is that of the present life; and a life that stays flat ends it all.
func TestCrashLoopIsForecastAndEnds(t *testing.T) {
	p := filling(80*gib, 10*gib, 900)
	rate := (0.99*p.capacity - 10*gib) / 880
	cured := 8 // the life in which the leak is mended
	lasts, memory := p.lasts, p.memory
	p.pause, p.lives = constant(240), cured+1
	p.lasts = func(n int) int {
		if n == cured {
			return 3000
		}
		return lasts(n)
	}
	p.memory = func(n, s int) float64 {
		if n == cured {
			s = min(s, 60)
		}
		return memory(n, s)
	}
	d := newDomain(t)
	all := p.run(t, d, nil)
	begins := cured * (900 + 240)
	if len(all.changes) != 2 || all.lives[0] != 1 || all.lives[1] != cured || all.changes[1] > begins+900*3/2+10 {
		t.Fatalf("the verdict changed at %v in the lives %v; the mended one begins at %d", all.changes, all.lives, begins)
	}
	if all.pod.Leak || !math.IsInf(all.pod.SecondsToOOM.V, 1) || all.pod.Confidence > 0.35 || all.device.Leak {
		t.Errorf("in the end: the pod %+v, the device %+v", all.pod, all.device)
	}

	p.lasts, p.memory, p.pause, p.lives = lasts, memory, constant(240), 4
	d = newDomain(t)
	p.run(t, d, func(second int, d *Domain[int]) *Domain[int] {
		n, s := second/1140, second%1140-1
		if n < 3 || s < 0 {
			return d
		}
		j := d.Judgement()
		v, dev := loopVerdict(j), j.Device
		if !dev.Leak || dev.Pattern != PatternLeakCyclic || dev.Since != seconds2026(0) || dev.Confidence < 0.7 {
			t.Fatalf("second %d of life %d: the device %+v", s, n, dev)
		}
		near(t, "rate", dev.Rate.V, rate, 0.02)
		if s >= 900 {
			if v.Judged || dev.Leaked.V != 0 {
				t.Fatalf("second %d, without a process: pod %+v, device %+v", s, v, dev)
			}
			return d
		}
		if s >= 60 && s < 800 { // troughs lag by a block or two, which is much in the end
			if off := v.Leaked.V - float64(s-30)*rate; math.Abs(off) > 20*rate {
				t.Fatalf("second %d: %g bytes have leaked, %g more than they should", s, v.Leaked.V, off)
			}
			near(t, "time to out-of-memory", v.SecondsToOOM.V, (p.capacity-memory(n, s))/rate, 0.05)
			if v.Lower.V > v.SecondsToOOM.V || v.Upper.V < v.SecondsToOOM.V || v.Upper.V > 3*v.SecondsToOOM.V {
				t.Fatalf("second %d: %g to %g around %g", s, v.Lower.V, v.Upper.V, v.SecondsToOOM.V)
			}
		}
		return d
	})
}

// A process that leaks by itself counts once.
func TestCrashLoopIsNotCountedTwice(t *testing.T) {
	p := dying(80*gib, 4*gib, 6*mib, 80*gib, 2400)
	lasts := p.lasts
	p.lives, p.pause = 4, constant(0)
	p.lasts = func(n int) int { return lasts(n) + n/3*6000 }
	d, both := newDomain(t), 0
	p.run(t, d, func(_ int, d *Domain[int]) *Domain[int] {
		j := d.Judgement()
		for i := range j.Members {
			if j.Members[i].Leak && d.groups[groupName{name: "ml/loop"}].looping() {
				both++
				near(t, "rate", j.Device.Rate.V, 6*mib, 0.1)
			}
		}
		return d
	})
	if both < 600 {
		t.Errorf("a process of the loop leaks for only %d s", both)
	}
	j, err := look(d, &Frame[int]{T: time.Duration(d.last) + time.Second, Used: Of(40 * gib), Capacity: Of(80 * gib)})
	if err != nil || !j.Device.Leak || len(j.Members) > 0 {
		t.Fatalf("without a list: %+v %v", j, err)
	}
	near(t, "rate without a list", j.Device.Rate.V, 6*mib, 0.1)
}

// The verdict is that of the rules for the pod.
func TestCrashLoopIsJudgedByItsRules(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config, Kind)
		want   []int // the lives in which the verdict changes
	}{
		"leak threshold 0.9":       {func(c *Config, _ Kind) { c.LeakThreshold = 0.9 }, []int{4}},
		"minimum span 72 m":        {func(c *Config, _ Kind) { c.MinSpan, c.SettleTime = 72*time.Minute, 3*time.Hour }, []int{8}},
		"settle time 30 m":         {func(c *Config, _ Kind) { c.SettleTime, c.MinSpan = 30*time.Minute, 24*time.Hour }, []int{2}},
		"minimum growth":           {func(c *Config, _ Kind) { c.MinGrowth = 75 * gib }, nil},
		"mute":                     {func(c *Config, _ Kind) { c.Mute = true }, nil},
		"mute the processes alone": {func(c *Config, k Kind) { c.Mute = k == KindMember }, nil},
		"minimum age of 90 m":      {func(c *Config, _ Kind) { c.MinAge = 90 * time.Minute }, []int{6}},
	} {
		t.Run(name, func(t *testing.T) {
			d, err := NewDomain(func(s Subject[int]) Config {
				cfg := DefaultConfig()
				if s.Group == "ml/loop" {
					c.change(&cfg, s.Kind)
				}
				return cfg
			})
			if err != nil {
				t.Fatal(err)
			}
			p := filling(80*gib, 10*gib, 900)
			p.step = 2
			if all := p.run(t, d, nil); !slices.Equal(all.lives, c.want) {
				t.Errorf("the verdict changed in the lives %v, want %v", all.lives, c.want)
			}
		})
	}
}

// The list of a frame may miss a process: one that is seen again is no other one, and
// did not end. Nor is a process another one for an exporter that was restarted.
func TestProcessThatIsSeenAgainIsNoRestart(t *testing.T) {
	d := newDomain(t)
	f := Frame[int]{Capacity: Of(80 * gib), Complete: true}
	for s := range 3000 {
		f.T, f.Members, f.Used = seconds2026(s), nil, Of(0)
		if s%600 != 599 {
			f.Used = Of(round(10*gib + float64(s%600)*100*mib))
			f.Members = []Member[int]{{Key: 1, Group: "ml/loop", Used: f.Used, Started: start}}
		}
		j, err := look(d, &f)
		if err != nil {
			t.Fatal(err)
		}
		if len(j.Groups) > 0 || j.Device.Leak {
			t.Fatalf("second %d: groups %+v, device %+v", s, j.Groups, j.Device)
		}
		if s%500 == 499 {
			d = restored(t, d)
		}
	}
	if n := d.groups[groupName{name: "ml/loop"}].restarts.n; n > 1 {
		t.Errorf("a process that was away for a moment has had %d lives", n)
	}
}

// Helpers do not hide a crash loop, whenever they come and go; processes of the size of those that
// die do, and lives that overlap are no loop. Programs in no pod need not belong together.
func TestCrashLoopInCompany(t *testing.T) {
	const lasts, pause = 900, 20
	keep := func(used float64) func(n, s int) (int, float64) {
		return func(int, int) (int, float64) { return 1000, used }
	}
	when := func(is func(n, s int) bool, key func(n, s int) int, used float64) func(n, s int) (int, float64) {
		return func(n, s int) (int, float64) {
			if !is(n, s) {
				return 0, 0
			}
			return key(n, s), used
		}
	}
	byLife := func(n, _ int) int { return 1000 + n }
	for name, c := range map[string]struct {
		company   func(n, s int) (int, float64)
		pod, bare int // the life in which it is found, 0 if it is not
	}{
		"a parent with its context":       {keep(500 * mib), 1, 1},
		"a large parent":                  {keep(12 * gib), 1, 1},
		"a parent that dies with it":      {when(func(_, s int) bool { return s < lasts }, byLife, 2*gib), 1, 1},
		"a parent that dies just before":  {when(func(_, s int) bool { return s < lasts-8 }, byLife, 2*gib), 1, 1},
		"a parent that dies just after":   {when(func(_, s int) bool { return s < lasts+8 }, byLife, 2*gib), 1, 1},
		"a parent that starts it":         {when(func(n, s int) bool { return n > 0 && s < 300 || s >= lasts+8 }, func(n, s int) int { return 1000 + n + s/lasts }, 2*gib), 1, 1},
		"a probe":                         {when(func(_, s int) bool { return s%60 < 4 }, func(n, s int) int { return 10000 + n*100 + s/60 }, 500*mib), 1, 1},
		"a check after its end":           {when(func(_, s int) bool { return s >= lasts+4 && s < lasts+16 }, byLife, 500*mib), 1, 1},
		"a small job in between":          {when(func(_, s int) bool { return s >= lasts+4 && s < lasts+16 }, byLife, 2*gib), 1, 1},
		"a small job that begins with it": {when(func(_, s int) bool { return s >= 40 && s < 120 }, byLife, 2*gib), 1, 1},
		"one as large, at its end":        {when(func(_, s int) bool { return s >= lasts-100 && s < lasts }, byLife, 25*gib), 1, 1},
		"one that grows and dies with it": {func(n, s int) (int, float64) { return (1000 + n) * btoi(s < lasts), 4*gib + 30*mib*float64(s) }, 1, 1},
		"one as large, that dies with it": {when(func(_, s int) bool { return s < lasts }, byLife, 25*gib), 1, 1},
		"one as large, always":            {keep(25 * gib), 1, 1},
		"the next life, before its end":   {when(func(_, s int) bool { return s >= lasts-100 }, func(n, _ int) int { return 101 + n }, 300*mib), 0, 0},
		"one half as large, in between":   {when(func(_, s int) bool { return s >= lasts+4 }, byLife, 40*gib), 0, 0},
	} {
		for _, bare := range []bool{false, true} {
			for _, each := range []int{1 << 30, 28} { // seconds between restores
				used := 0.0
				for n := range 2 * lasts {
					_, held := c.company(1, n%lasts)
					used = max(used, held)
				}
				p := filling(80*gib-used, 10*gib, lasts)
				p.capacity, p.bare, p.company, p.lives, p.step, p.pause = 80*gib, bare, c.company, 4, 4, constant(pause)
				all := p.run(t, newDomain(t), func(second int, d *Domain[int]) *Domain[int] {
					if j := d.Judgement(); slices.ContainsFunc(j.Members, func(m MemberVerdict[int]) bool { return m.Leak && m.Key >= 1000 }) {
						t.Fatalf("%s, bare %t: second %d: %+v", name, bare, second, j.Members)
					}
					if second%each == 0 {
						return restored(t, d)
					}
					return d
				})
				found := c.pod
				if bare {
					found = c.bare
				}
				if !slices.Equal(all.lives, []int{found}[:btoi(found > 0)]) {
					t.Errorf("%s, bare %t, restored each %d s: the verdict changed in the lives %v", name, bare, each, all.lives)
				}
			}
		}
	}
}

// restored returns a domain that goes on where d was saved, with the same groups.
func restored(t *testing.T, d *Domain[int]) *Domain[int] {
	t.Helper()
	next := newDomain(t)
	if err := next.Restore(d.Save(nil, appendKey), readKey); err != nil {
		t.Fatal(err)
	}
	for name, want := range d.groups {
		g := next.groups[name]
		if g.restarts != want.restarts || g.seen != want.seen || g.ended != want.ended || g.most != want.most ||
			g.last != want.last || g.single != want.single ||
			g.culprit != want.culprit || g.accused != want.accused || g.largest != want.largest || g.second != want.second || (g.series == nil) != (want.series == nil) {
			t.Fatalf("restored %+v, want %+v", g, want)
		}
	}
	return next
}

// A chain goes on over a restart of the exporter, whenever it comes.
func TestCrashLoopIsRestored(t *testing.T) {
	run := func(every int) (all []string) {
		p := filling(80*gib, 10*gib, 400)
		p.step, p.lives, p.other, p.pause = 4, 6, 300*mib, constant(40)
		memory := p.memory
		p.lasts = func(n int) int { return 400 * (1 + n/5) } // the last one is slower, and outlives the others
		p.memory = func(n, s int) float64 { return memory(n, s/(1+n/5)) }
		p.run(t, newDomain(t), func(second int, d *Domain[int]) *Domain[int] {
			all = append(all, fmt.Sprintf("%+v", *d.Judgement()))
			if second%every != 0 {
				return d
			}
			return restored(t, d)
		})
		return all
	}
	want := run(math.MaxInt)
	for _, every := range []int{4, 148} {
		got := run(every)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("restored each %d s, frame %d differs:\n%s\nwant\n%s", every, i, got[i], want[i])
			}
		}
	}
	if !strings.Contains(strings.Join(want, "\n"), "Pattern:leak_cyclic") {
		t.Error("no crash loop is found: the test shows little")
	}
}

// What no chain can be is refused.
func TestRestoreRefusesChains(t *testing.T) {
	whole := restarts{n: 3, proof: 3, since: 5, longest: 10}
	for i := range whole.n {
		whole.lives[i] = life{from: 5, to: 15, lasted: 8, trend: trend{rate: mib, n: 9}}
	}
	for name, change := range map[string]func(*restarts){
		"":                       func(*restarts) {},
		"proof of more lives":    func(r *restarts) { r.proof = 4 },
		"proof of one":           func(r *restarts) { r.proof = 1 },
		"proof since nowhen":     func(r *restarts) { r.since = 0 },
		"a streak of more":       func(r *restarts) { r.full.n = 4 },
		"a life that shrinks":    func(r *restarts) { r.lives[1].trend.rate = -1 },
		"a life without a rate":  func(r *restarts) { r.lives[2].trend.rate = 0 },
		"a life that ends first": func(r *restarts) { r.lives[0].to = 4 },
		"a life yet to come":     func(r *restarts) { r.lives[0].to = 21 },
	} {
		r := whole
		change(&r)
		w := codec{writing: true, last: 20}
		r.code(&w)
		var got restarts
		c := codec{b: w.b, last: 20}
		if got.code(&c); (c.err == nil) != (name == "") {
			t.Errorf("%s: %v", name, c.err)
		}
	}
}

func TestGroupIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(group[int]{}); size > 1536 {
		t.Errorf("a group takes %d bytes beside its series", size)
	}
}

// A crash loop costs no allocation but for the processes that begin.
func TestCrashLoopAllocatesNothing(t *testing.T) {
	d, second := newDomain(t), 0
	f := Frame[int]{Capacity: Of(80 * gib), Complete: true, Members: make([]Member[int], 0, 1)}
	step := func() {
		n, s := second/120, second%120
		f.T, f.Members, f.Used = seconds2026(second), f.Members[:0], Of(0)
		if s < 100 {
			f.Used = Of(round(10*gib + float64(s)*600*mib))
			f.Members = append(f.Members, Member[int]{Key: n, Group: "ml/loop", Used: f.Used})
		}
		if err := d.Observe(&f); err != nil {
			t.Fatal(err)
		}
		d.Judgement()
		second++
	}
	for range 7200 {
		step()
	}
	if n := testing.AllocsPerRun(6000, step); n > 0.05 {
		t.Errorf("%g allocations a frame, want that of a process every 120 frames", n)
	}
}

// loop is the name of the group of the bare program of these tests.
var loop = groupName{"loop.py", true}

// A crash loop of a program in no pod is found as that of a pod is. The process that runs now
// bears the verdict once it is judged, the GPU does throughout, and no group is told.
func TestCrashLoopOfAProgram(t *testing.T) {
	p := filling(80*gib, 10*gib, 900)
	p.bare, p.other, p.lives, p.step, p.pause = true, 300*mib, 5, 4, constant(100)
	for _, turned := range []bool{false, true} {
		for _, each := range []int{1 << 30, 4, 148} { // seconds between restores
			p.turned = turned
			named := 0
			all := p.run(t, newDomain(t), func(second int, d *Domain[int]) *Domain[int] {
				j := d.Judgement()
				if len(j.Groups) > 0 || j.Device.Leak && j.Device.Confidence < gateConfidence {
					t.Fatalf("second %d: groups %+v, the GPU %+v", second, j.Groups, j.Device)
				}
				for i := range j.Members {
					m := &j.Members[i]
					if m.Leak && (m.Key == 1 || m.Pattern != PatternLeakCyclic || m.SecondsToOOM != j.Device.SecondsToOOM || !m.Rate.OK || m.Share.V != 1) {
						t.Fatalf("second %d: %+v, the GPU %+v", second, m, j.Device)
					}
					if m.Key == 103 && m.Judged {
						named++
						near(t, "rate", m.Rate.V, (0.99*p.capacity-10*gib)/880, 0.05)
					}
				}
				if second%each == 0 {
					return restored(t, d)
				}
				return d
			})
			if !slices.Equal(all.lives, []int{1}) || named < 100 || all.device.Pattern != PatternLeakCyclic {
				t.Errorf("turned %t, restored each %d s: the verdict changed in the lives %v, was on the process in %d frames", turned, each, all.lives, named)
			}
		}
	}
}

// The chain of a program ends with a life that does not grow.
func TestCrashLoopOfAProgramEnds(t *testing.T) {
	p := filling(80*gib, 10*gib, 900)
	memory := p.memory
	p.bare, p.lives, p.step = true, 5, 2
	p.lasts = func(n int) int { return 900 * (1 + n/4*2) }
	p.memory = func(n, s int) float64 {
		if n == 4 {
			s = min(s, 60)
		}
		return memory(n, s)
	}
	d := newDomain(t)
	if all := p.run(t, d, nil); !slices.Equal(all.lives, []int{1, 4}) || all.device.Leak {
		t.Errorf("the verdict changed in the lives %v; in the end %+v", all.lives, all.device)
	}
	f := Frame[int]{T: time.Duration(d.last + absence), Used: Of(0), Capacity: Of(80 * gib), Complete: true}
	if err := d.Observe(&f); err != nil || len(d.groups) > 0 {
		t.Errorf("%d groups after ten minutes without a process, %v", len(d.groups), err)
	}
}

// Of two processes of a program at once nobody knows which is started in place of which.
func TestTwoLoopsOfAProgramAtOnce(t *testing.T) {
	p, d := filling(80*gib, 10*gib, 900), newDomain(t)
	f := Frame[int]{Capacity: Of(160 * gib), Complete: true}
	for s := 0; s < 12*910; s += 2 {
		f.T, f.Used, f.Members = seconds2026(s), Of(0), f.Members[:0]
		for of, at := range []int{s, s + 400} {
			if n, at := at/910, at%910; at < 900 {
				used := round(p.memory(n, at))
				f.Members = append(f.Members, Member[int]{Key: 2*n + of, Program: "loop.py", Used: Of(used), Started: seconds2026(s - at)})
				f.Used.V += used
			}
		}
		j, err := look(d, &f)
		if err != nil {
			t.Fatal(err)
		}
		if r := &d.groups[loop].restarts; j.Device.Leak || r.proof > 0 || len(j.Groups) > 0 {
			t.Fatalf("second %d: %d lives, groups %+v, the GPU %+v", s, r.n, j.Groups, j.Device)
		}
	}
}

// Who is in a pod is known by that, whatever it runs.
func TestProgramsOfPods(t *testing.T) {
	for name, c := range map[string]struct {
		in   Member[int]
		want groupName
	}{
		"a pod":     {Member[int]{Group: "ml/loop", Program: "loop.py"}, groupName{name: "ml/loop"}},
		"no pod":    {Member[int]{Program: "loop.py"}, loop},
		"not known": {Member[int]{}, groupName{}},
	} {
		if got := groupOf(&c.in); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// The processes of a program are not summed up, and are judged by the rules for a process.
func TestProgramHasNoSum(t *testing.T) {
	d, err := NewDomain(func(s Subject[int]) Config {
		if s.Kind == KindGroup {
			t.Errorf("asked for the group %q", s.Group)
		}
		return DefaultConfig()
	})
	if err != nil {
		t.Fatal(err)
	}
	f := Frame[int]{Used: Of(20 * gib), Capacity: Of(80 * gib), Complete: true}
	for s := range 1200 {
		f.T, f.Members = seconds2026(s), f.Members[:0]
		for n := range 1 + s/300%2 {
			f.Members = append(f.Members, Member[int]{Key: s/300 + n, Program: "a.py", Used: Of(gib)})
		}
		j, err := look(d, &f)
		if err != nil || len(j.Groups) > 0 {
			t.Fatalf("second %d: groups %+v, %v", s, j.Groups, err)
		}
	}
	d.Reconfigure()
}

// The verdict on a program is that of the rules for its processes.
func TestCrashLoopOfAMutedProgram(t *testing.T) {
	d, err := NewDomain(func(s Subject[int]) Config {
		cfg := DefaultConfig()
		cfg.Mute = s.Kind == KindMember && s.Key >= 100
		return cfg
	})
	if err != nil {
		t.Fatal(err)
	}
	p := filling(80*gib, 10*gib, 900)
	p.bare, p.lives, p.step = true, 6, 4
	if all := p.run(t, d, nil); len(all.lives) > 0 {
		t.Errorf("the verdict changed in the lives %v", all.lives)
	}
}

// Where others nearly fill the memory, a life fills it that takes three quarters of what is free.
func TestLifeOnANearlyFullGPU(t *testing.T) {
	const capacity = 80 * gib
	for name, c := range map[string]struct {
		until  int64   // the memory was full last, minutes
		since  int64   // and since when
		gained float64 // by the life, GiB
		room   Value   // that it left, GiB
		small  bool    // that is less than 5 % of the capacity
		want   bool
	}{
		"it was not full before":           {20, 18, 1, Of(8), false, true},
		"it was, three quarters":           {20, 1, 6, Of(2), true, true},
		"it was, too much is left":         {20, 1, 20, Of(5), false, false},
		"it was, less":                     {20, 1, 6, Of(2.1), true, false},
		"the room is not known":            {20, 1, 6, Value{V: 1}, false, false},
		"it gave back":                     {20, 1, -6, Of(0), true, false},
		"it was full long before the end":  {18, 1, 6, Of(1), true, false},
		"it was never full, and all taken": {0, 0, 6, Of(0), true, false},
	} {
		d := newDomain(t)
		d.fullness = fullness{since: c.since * int64(time.Minute), until: c.until * int64(time.Minute)}
		m := &member{series: &series{last: int64(20 * time.Minute)}, used: Of((10 + c.gained) * gib), room: Value{V: c.room.V * gib, OK: c.room.OK}, full: c.small}
		if got := d.filled(m, int64(5*time.Minute), 10*gib); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	for name, c := range map[string]struct {
		most  float64 // GiB that the program holds when it ends
		lives []int
	}{"it fills what is free": {7.9, []int{3}}, "it leaves a third of that": {5, nil}} {
		p := program{
			capacity: capacity, other: 72 * gib, lasts: constant(300), pause: constant(10), lives: 8, step: 2,
			memory: func(_, s int) float64 { return 2*gib + (c.most-2)*gib*float64(s)/300 },
		}
		again := func(_ int, d *Domain[int]) *Domain[int] { return restored(t, d) }
		if all := p.run(t, newDomain(t), again); len(all.lives) != len(c.lives) || len(c.lives) > 0 && all.lives[0] > c.lives[0] {
			t.Errorf("%s: the verdict changed in the lives %v, want %v", name, all.lives, c.lives)
		}
	}
}

// One life that filled the memory unsteadily is spared, but not two, nor one that did not fill it.
func TestLifeThatIsSpared(t *testing.T) {
	fill := filling(80*gib, 10*gib, 600)
	steady := func(s int) float64 { return fill.memory(0, s) }
	jumps := func(s int) float64 { return min(10*gib+float64(s/120)*30*gib, 79.5*gib) }
	still := func(int) float64 { return 10 * gib }
	for name, c := range map[string]struct {
		lives string // s: steady, j: fills the memory in jumps, -: stays as it is
		n     int    // lives in the chain
		spare bool
	}{
		"steady":             {"sss", 3, false},
		"one that jumps":     {"ssj", 2, true},
		"and goes on":        {"ssjs", 3, false},
		"two that jump":      {"ssjj", 0, false},
		"each second jumps":  {"sjsjs", 3, false},
		"one that stays":     {"ss-", 0, false},
		"it begins with one": {"jss", 2, false},
	} {
		p := program{capacity: 80 * gib, lasts: constant(600), pause: constant(10), lives: len(c.lives), step: 2}
		p.memory = func(n, s int) float64 {
			return map[byte]func(int) float64{'s': steady, 'j': jumps, '-': still}[c.lives[n]](s)
		}
		d := newDomain(t)
		p.run(t, d, func(second int, now *Domain[int]) *Domain[int] {
			if d = now; second%10 == 0 {
				d = restored(t, now)
			}
			return d
		})
		if r := &d.groups[groupName{name: "ml/loop"}].restarts; r.n != c.n || r.spared != c.spare {
			t.Errorf("%s: %d lives, spared: %t, want %d, %t", name, r.n, r.spared, c.n, c.spare)
		}
	}
}

// Whoever runs a program again and again in no pod may do so because it has done its work: each run grows,
// and ends far from a full memory.
func TestRunsOfAProgramAreNoLoop(t *testing.T) {
	const lasts, pause = 1500, 30
	for _, most := range []float64{13, 78} {
		d, leaks := newDomain(t), 0
		for s := range 8 * (lasts + pause) {
			n, age := s/(lasts+pause), s%(lasts+pause)
			f := Frame[int]{T: seconds2026(s), Used: Of(gib), Capacity: Of(80 * gib), Complete: true}
			if age < lasts {
				held := round(10*gib + (most-10)*gib*float64(age)/lasts)
				f.Members = []Member[int]{{Key: n, Program: "sweep.py", Used: Of(held), Started: seconds2026(s - age), SM: Of(0.5)}}
				f.Used.V += held
			}
			j, err := look(d, &f)
			if err != nil {
				t.Fatal(err)
			}
			leaks += btoi(n > 4 && age > 600 && j.Device.Leak)
		}
		if full := most > 70; leaks > 0 != full {
			t.Errorf("to %g of 80 GiB: a leak in %d frames", most, leaks)
		}
	}
}

// A worker is forgotten for others that run the same.
func TestForgottenForOthersLikeIt(t *testing.T) {
	var p pool
	for n := range int64(passedOver + 1) {
		p.leave(&activity{computed: 1, started: 1 + 100*n}, "train.py", Of(gib))
	}
	a := &activity{started: 50, computed: 60}
	if !p.forgets(a, "train.py", gib) || p.forgets(a, "ipython", gib) {
		t.Errorf("train.py %v, ipython %v", p.forgets(a, "train.py", gib), p.forgets(a, "ipython", gib))
	}
}

// Who starts a job again after an hour may have mended it: it is told again once it grows as the ones
// before did, and not at all if it does not.
func TestCrashLoopWithLongPauses(t *testing.T) {
	const lasts, pause = 1500, 3600
	for _, mended := range []bool{false, true} {
		for _, each := range []int{1 << 30, 60} { // seconds between restores
			p := filling(80*gib, 10*gib, lasts)
			fill := p.memory
			p.bare, p.lives, p.step, p.pause = true, 4, 4, constant(pause)
			p.memory = func(n, s int) float64 {
				if mended && n == 3 {
					s = min(s, 200) // at which an eighth of what the others gained has come
				}
				return fill(n, s)
			}
			all := p.run(t, newDomain(t), func(second int, d *Domain[int]) *Domain[int] {
				if second%each == 0 {
					return restored(t, d)
				}
				return d
			})
			near := func(at, want int) bool { return at > want-60 && at < want+120 }
			third, fourth, n := 2*(lasts+pause), 3*(lasts+pause), len(all.changes)
			switch {
			case mended && !near(all.changes[n-1], third+lasts+600):
				t.Errorf("mended, restored each %d s: the verdict changed at %v; the third life ended at %d", each, all.changes, third+lasts)
			case !mended && !(near(all.changes[n-2], fourth+lasts/4) && near(all.changes[n-1], fourth+lasts+600)):
				t.Errorf("restored each %d s: the verdict changed at %v; the fourth life began at %d", each, all.changes, fourth)
			}
		}
	}
}

// Where nobody comes in place of the last life, or only who is no next one, it is told for no longer than
// a pod may be away, and that long beside the time that the next one has.
func TestCrashLoopThatIsGivenUp(t *testing.T) {
	const lasts, lives = 900, 4
	for name, c := range map[string]struct {
		company func(s int) (int, float64)
		until   int // seconds after the last life
	}{
		"its parent stays":     {func(int) (int, float64) { return 1000, 600 * mib }, 600},
		"a probe now and then": {func(s int) (int, float64) { return 1000 + s/60, 500 * mib * float64(btoi(s%60 < 20)) }, 600 + lasts*3/2},
		"small jobs in a row":  {func(s int) (int, float64) { return 1000 + s/300, 4 * gib }, 600 + lasts*3/2},
	} {
		for _, bare := range []bool{false, true} {
			p := filling(80*gib, 10*gib, lasts)
			p.lives, p.step, p.bare = lives+1, 4, bare
			p.pause = func(n int) int { return 20 + n/lives*20000 }
			p.lasts = func(n int) int { return lasts * btoi(n < lives) }
			p.company = func(n, s int) (int, float64) {
				key, used := c.company(n*(lasts+20) + s)
				if used == 0 {
					key = 0
				}
				return key, used
			}
			d := newDomain(t)
			all := p.run(t, d, func(_ int, now *Domain[int]) *Domain[int] { d = now; return d })
			end := lives*(lasts+20) - 20 + c.until
			if len(all.changes) != 2 || all.changes[1] < end-20 || all.changes[1] > end+40 {
				t.Errorf("%s, bare %t: the verdict changed at %v, want its end at %d", name, bare, all.changes, end)
			}
		}
	}
}

// A mended program that takes at its start what it needs ends the chain, though that fills the memory.
func TestMendedProgramThatFillsTheMemory(t *testing.T) {
	for _, share := range []float64{0.92, 0.97} {
		for _, bare := range []bool{false, true} {
			p := filling(80*gib, 10*gib, 900)
			fill := p.memory
			p.lives, p.step, p.bare = 8, 4, bare
			p.memory = func(n, s int) float64 {
				if n >= 4 {
					return min(float64(s)*2*gib, share*80*gib)
				}
				return fill(n, s)
			}
			if all := p.run(t, newDomain(t), nil); !slices.Equal(all.lives, []int{1, 4}) {
				t.Errorf("%g, bare %t: the verdict changed in the lives %v", share, bare, all.lives)
			}
		}
	}
}

// A frame that could not be read takes no chain away that is long enough without the process which it lacks.
func TestFrameThatLacksALoop(t *testing.T) {
	for lacks, want := range map[int][]int{2: {1, 2, 4}, 6: {1}} { // the life that is not seen for a frame
		p, d := filling(80*gib, 10*gib, 900), newDomain(t)
		var lives []int
		for s := 0; s < 8*920; s += 4 {
			n, age := s/920, s%920
			f := Frame[int]{T: seconds2026(s), Used: Of(0), Capacity: Of(80 * gib), Complete: true}
			if age < 900 {
				f.Used = Of(round(p.memory(n, age)))
				f.Members = []Member[int]{{Key: n, Group: "ml/loop", Used: f.Used}}
			}
			if n == lacks && age == 600 {
				f.Used, f.Members = Value{}, nil
			}
			j, err := look(d, &f)
			if err != nil {
				t.Fatal(err)
			}
			if f.Used.OK && j.Device.Leak != (len(lives)%2 == 1) {
				lives = append(lives, n)
			}
		}
		if !slices.Equal(lives, want) {
			t.Errorf("life %d is not seen for a frame: the verdict changed in the lives %v, want %v", lacks, lives, want)
		}
	}
}

// Who mutes a program hears nothing more of its crash loop.
func TestCrashLoopThatIsMutedLater(t *testing.T) {
	mute := false
	d, err := NewDomain(func(s Subject[int]) Config {
		cfg := DefaultConfig()
		cfg.Mute = mute && s.Kind == KindMember
		return cfg
	})
	if err != nil {
		t.Fatal(err)
	}
	p := filling(80*gib, 10*gib, 900)
	p.bare, p.lives, p.step, p.pause = true, 4, 4, constant(0)
	if all := p.run(t, d, nil); !all.device.Leak {
		t.Fatal("no crash loop: the test shows nothing")
	}
	mute = true
	d.Reconfigure()
	if j := d.Judgement(); j.Device.Leak {
		t.Errorf("it is muted: %+v", j.Device)
	}
}

// Of two processes that may be the next life of a program nobody knows which one it is.
func TestCrashLoopBesideAnotherOfTheProgram(t *testing.T) {
	const lasts, pause = 900, 20
	p := filling(50*gib, 10*gib, lasts)
	p.capacity, p.bare, p.lives, p.step, p.pause = 80*gib, true, 4, 4, constant(pause)
	p.company = func(n, s int) (int, float64) {
		key := 1000
		if at := n*(lasts+pause) + s; at >= 3*(lasts+pause)-10 {
			key = 1001 // begins just before the fourth life, and is larger for the most of it
		}
		return key, 30 * gib
	}
	named := 0
	p.run(t, newDomain(t), func(_ int, d *Domain[int]) *Domain[int] {
		for _, m := range d.Judgement().Members {
			if m.Leak && m.Key >= 1000 {
				named++
			}
		}
		return d
	})
	if named > 0 {
		t.Errorf("in %d frames the leak is told on who does not grow", named)
	}
}

// What fits does not die: who has lived for long with what it holds ends for another reason, however
// nearly full the memory is, and however little was left of it.
func TestWhatFitsDoesNotDie(t *testing.T) {
	steps := func(first, step float64, at ...int) func(n, s int) float64 {
		return func(_, s int) float64 {
			held := min(gib*float64(1+s), first*gib)
			for _, from := range at {
				held += gib * max(0, min(step, float64(s-from)))
			}
			return held
		}
	}
	for name, c := range map[string]struct {
		lasts  int
		memory func(n, s int) float64
		dies   bool
	}{
		"a server of five models, loaded one by one": {21600, steps(14, 14, 1000, 2500, 9000, 12000), false},
		"a notebook whose fourth cell does not fit":  {4200, steps(12, 18, 500, 1000, 1500), false},
		"a cache that has enough at 92 %":            {7200, steps(40, 4.25, 300, 600, 900, 1200, 1500, 1800, 2100, 2400), false},
		"a step that is lacking soon after the last": {4200, steps(12, 18, 1100, 2200, 3300), true},
	} {
		for _, bare := range []bool{false, true} {
			p := program{
				capacity: 80 * gib, lasts: constant(c.lasts), memory: c.memory, pause: constant(60), lives: 4, step: 4, bare: bare,
				sm: func(int, int) Value { return Of(0.6) },
			}
			if all := p.run(t, newDomain(t), nil); len(all.changes) > 0 != c.dies {
				t.Errorf("%s, bare %t: the verdict changed at %v, in the lives %v", name, bare, all.changes, all.lives)
			}
		}
	}
}

// Where the process before died of a full memory that it had filled, growth from the start on must last for
// 20 minutes, not for an hour or five sixths of the way.
func TestSecondLifeIsToldSooner(t *testing.T) {
	const lasts, pause = 3000, 20
	for _, c := range []struct {
		name, group, program string
		most                 float64 // GiB when it ends
		first, second        [2]int  // seconds of a life between which it is told
	}{
		{"a pod that dies of a full memory", "ml/loop", "serve", 79, [2]int{2400, 2700}, [2]int{1150, 1400}},
		{"a program that does", "", "serve", 79, [2]int{2400, 2700}, [2]int{1150, 1400}},
		{"a pod that ends before", "ml/loop", "serve", 60, [2]int{-1, -1}, [2]int{-1, -1}},
	} {
		d, told := newDomain(t), [2]int{-1, -1}
		for s := range 2*lasts + pause {
			n, age := s/(lasts+pause), s%(lasts+pause)
			f := Frame[int]{T: seconds2026(s), Used: Of(gib), Capacity: Of(80 * gib), Complete: true}
			if age < lasts {
				held := round(10*gib + (c.most-11)*gib*float64(age)/lasts)
				f.Members = []Member[int]{{Key: n, Group: c.group, Program: c.program, Used: Of(held), Started: seconds2026(s - age)}}
				f.Used.V += held
			}
			j, err := look(d, &f)
			if err != nil {
				t.Fatal(err)
			}
			if len(j.Members) > 0 && j.Members[0].Leak && told[n] < 0 {
				told[n] = age
			}
		}
		for n, want := range [][2]int{c.first, c.second} {
			if told[n] < want[0] || told[n] > want[1] {
				t.Errorf("%s: life %d is told after %d s, want %v", c.name, n, told[n], want)
			}
		}
	}
}

// A life that grows steadily and stands still at the top for the rest of it, however long that rest
// is, filled the memory all the same.
func TestLivesThatEndAtTheTop(t *testing.T) {
	for top := 600; top <= 890; top += 10 {
		p := program{
			capacity: 80 * gib, lasts: constant(900), pause: constant(10), lives: 5,
			sm:     func(int, int) Value { return Of(0.9) },
			memory: func(_, s int) float64 { return 20*gib + 59*gib*min(1, float64(s)/float64(top)) },
		}
		if len(p.run(t, newDomain(t), nil).lives) == 0 {
			t.Errorf("at the top after %d of 900 s: no crash loop", top)
		}
	}
}

// A life that was told to leak, and is followed by the next one, leaves no pattern of a leak behind:
// run checks that at each frame.
func TestPatternOfALeakEndsWithItsProcess(t *testing.T) {
	for _, step := range []int{1, 5, 15} {
		for _, pause := range []int{0, 5, 10} {
			p := program{
				capacity: 80 * gib, lasts: constant(1800), pause: constant(pause), lives: 3, step: step,
				sm:     func(int, int) Value { return Of(0.9) },
				memory: func(_, s int) float64 { return 20*gib + 52*gib*min(1, float64(s)/1300) },
			}
			p.run(t, newDomain(t), nil)
		}
	}
}

// Between two lives nothing is leaked: the memory of the last one is given back, also where that
// one was told to leak by itself.
func TestNothingIsLeakedBetweenTwoLives(t *testing.T) {
	const life = 1800
	d, itself := newDomain(t), 0
	for s := range 4 * (life + 10) {
		n, at := s/(life+10), s%(life+10)
		f := &Frame[int]{T: seconds2026(s), Used: Of(gib), Capacity: Of(40 * gib), Complete: true}
		if at < life {
			used := round(4*gib + 34.9*gib*float64(at)/life)
			f.Used.V += used
			f.Members = []Member[int]{{Key: 100 + n, Group: "ml/loop", Used: Of(used), Started: seconds2026(s - at)}}
		}
		j, err := look(d, f)
		if err != nil {
			t.Fatal(err)
		}
		if at == life-1 && len(j.Groups) == 1 && j.Members[0].Leak {
			itself++
		}
		if n > 0 && at >= life && (!j.Device.Leak || j.Device.Leaked.V > 0) {
			t.Fatalf("second %d: of %g GiB in use %g GiB are leaked", s, f.Used.V/gib, j.Device.Leaked.V/gib)
		}
	}
	if itself == 0 {
		t.Error("no life is told to leak by itself: the test shows little")
	}
}

// crashLoop are the frames of a pod whose process fills 40 GiB in life seconds, dies and is started
// again 10 s later; a frame every 5 s.
func crashLoop(life, s int) *Frame[int] {
	n, at := s/(life+10), s%(life+10)
	f := &Frame[int]{T: seconds2026(s), Used: Of(gib), Capacity: Of(40 * gib), Complete: true}
	if at < life {
		used := round(4*gib + 34.9*gib*float64(at)/float64(life))
		f.Used.V += used
		f.Members = append(f.Members, Member[int]{Key: 100 + n, Group: "ml/loop", Used: Of(used), Started: seconds2026(s - at)})
	}
	return f
}

// A list that cannot be read leaves its processes in the frame, with their memory not known. That
// pauses no crash loop, however long the present life goes on.
func TestCrashLoopOutlivesAnUnreadableList(t *testing.T) {
	for _, at := range []int{200, 700, 800, 900, 1100} {
		d := newDomain(t)
		for s := 0; s < 6*1210; s += 5 {
			f := crashLoop(1200, s)
			unreadable := s == 4*1210+at
			if unreadable {
				f.Complete = false
				f.Members[0].Used = Value{}
			}
			j, err := look(d, f)
			if err != nil {
				t.Fatal(err)
			}
			if s >= 4*1210 && !j.Device.Leak {
				t.Errorf("list of second %d of a life: no leak at second %d of life %d", at, s%1210, s/1210)
				break
			}
		}
	}
}

// Nor does a list that lacks the process for a moment, but has a helper of its pod.
func TestCrashLoopOutlivesAListThatLacksIt(t *testing.T) {
	d := newDomain(t)
	for s := 0; s < 6*1210; s += 5 {
		f := crashLoop(1200, s)
		if s == 4*1210+800 {
			f.Members = f.Members[:0]
		}
		f.Members = append(f.Members, Member[int]{Key: 1, Group: "ml/loop", Used: Of(256 * mib), Started: start})
		f.Used.V += 256 * mib
		j, err := look(d, f)
		if err != nil {
			t.Fatal(err)
		}
		if s >= 4*1210 && !j.Device.Leak {
			t.Fatalf("no leak at second %d of life %d", s%1210, s/1210)
		}
	}
}

// A GPU tells of the same leak as the pod that is in a crash loop, from its beginning to its end: also
// while the present life is told by itself.
func TestCrashLoopIsOneLeakOfTheGPU(t *testing.T) {
	const life = 1800
	d := newDomain(t)
	var since time.Duration
	itself, patterns := 0, map[Pattern]int{}
	for s := 0; s < 5*(life+10); s += 5 {
		f := crashLoop(life, s)
		j, err := look(d, f)
		if err != nil {
			t.Fatal(err)
		}
		if s < 2*(life+10) {
			continue
		}
		if since == 0 {
			since = j.Device.Since
		}
		if !j.Device.Leak || j.Device.Since != since {
			t.Fatalf("second %d: a leak: %t, since %s, before %s", s, j.Device.Leak, j.Device.Since-start, since-start)
		}
		patterns[j.Device.Pattern]++
		if len(j.Members) == 1 && j.Members[0].Leak {
			itself++
		}
	}
	if itself == 0 || len(patterns) != 1 || patterns[PatternLeakCyclic] == 0 {
		t.Errorf("told by itself in %d frames; patterns %v", itself, patterns)
	}
}
