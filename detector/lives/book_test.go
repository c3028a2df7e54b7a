// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package lives

import (
	"testing"
	"time"
	"unsafe"
)

const day = 24 * time.Hour

// ran is a life that ended on a day, at a height.
func ran(d int, height Bytes) Life {
	return Life{Ended: SecondsOf(time.Duration(d) * day), Height: height, Peak: height}
}

func book(id ID, all ...Life) *Book {
	b := NewBook()
	for i := range all {
		b.Add(id, &all[i], someday)
	}
	return b
}

func TestCeiling(t *testing.T) {
	id := ID{Exact: 1, Kin: 2}
	with := func(l Life, change func(l *Life)) Life {
		change(&l)
		return l
	}
	heights := func(all ...Bytes) (list []Life) {
		for i, h := range all {
			list = append(list, ran(i+1, h))
		}
		return list
	}
	for _, c := range []struct {
		name    string
		lives   []Life
		highest Bytes // that counts; 0 none
		n       int
	}{
		{"none", nil, 0, 0},
		{"one", heights(100), 100, 1},
		{"the highest counts", heights(100, 120, 90), 120, 3},
		{"two that rise may be chance", heights(100, 102), 102, 2},
		{"three that creep up", heights(100, 102, 104), 100, 3},
		{"a creep after others", heights(90, 130, 100, 102, 104, 106), 130, 6},
		{"a plateau that was moved up", heights(100, 140, 140), 140, 3},
		{"one that leaked", []Life{ran(1, 100), with(ran(2, 200), func(l *Life) { l.Leaked = true })}, 100, 1},
		{"one that died full", []Life{ran(1, 100), with(ran(2, 200), func(l *Life) { l.Full = true })}, 100, 1},
		{"one that something ended while it grew", []Life{ran(1, 100), with(ran(2, 200), func(l *Life) { l.Growing = true })}, 100, 1},
		{"one that grew until it was done", []Life{ran(1, 100), with(ran(2, 200), func(l *Life) { l.Growing, l.End = true, EndCompleted })}, 200, 2},
		{"one that rose in the end", []Life{ran(1, 100), with(ran(2, 200), func(l *Life) { l.Lasted, l.Risen = 1000, 801 })}, 100, 1},
		{"one that had settled", []Life{ran(1, 100), with(ran(2, 200), func(l *Life) { l.Lasted, l.Risen = 1000, 800 })}, 200, 2},
		{"a spike", []Life{ran(1, 100), with(ran(2, 100), func(l *Life) { l.Peak = 300 })}, 110, 2},
		{"the ranks of one run", []Life{with(ran(1, 100), func(l *Life) { l.Lasted = 900 }), with(ran(1, 120), func(l *Life) { l.Lasted = 600 }), with(ran(1, 110), func(l *Life) { l.Lasted = 700 })}, 120, 1},
		{"two runs of two ranks that end together", []Life{
			with(ran(1, 100), func(l *Life) { l.Lasted = 4 * 3600 }), with(ran(1, 100), func(l *Life) { l.Lasted = 2 * 3600 }),
			with(ran(1, 100), func(l *Life) { l.Lasted = 4*3600 + 1 }), with(ran(1, 100), func(l *Life) { l.Lasted = 2*3600 + 1 }),
		}, 100, 2},
		{"one too short to have a height", []Life{ran(1, 0)}, 0, 0},
		{"one that is long ago", []Life{ran(-60, 300), ran(1, 100)}, 100, 1},
	} {
		now := time.Duration(len(c.lives)+1) * day
		for i := range c.lives { // the clock begins late enough for what is long ago
			c.lives[i].Ended += SecondsOf(100 * day)
		}
		if c.name == "one that is long ago" {
			c.lives[0].Ended = SecondsOf(40 * day)
		}
		p := book(id, c.lives...).Prior(id, now+100*day)
		if max(p.Ceiling/(margin*c.highest), margin*c.highest/p.Ceiling) > 1.000001 || p.Lives != c.n || p.Sure != (c.n >= sure) || p.Kin {
			t.Errorf("%s: %+v, want %d lives and %g", c.name, p, c.n, margin*c.highest)
		}
	}
}

// What ended later than now is not known yet: a log that is read twice knows no more the second time.
func TestNoFuture(t *testing.T) {
	id := ID{Exact: 1}
	b := book(id, ran(3, 300), ran(1, 100), ran(2, 200))
	for d, want := range map[int]Bytes{0: 0, 1: 100, 2: 200, 4: 300} {
		if p := b.Prior(id, time.Duration(d)*day); p.Ceiling != margin*want && (d != 4 || p.Ceiling != margin*100) {
			t.Errorf("on day %d: %+v", d, p)
		}
	}
}

// A program that nobody knows is judged by its kin that was there last, as surely as that was known.
func TestKin(t *testing.T) {
	b := book(ID{Exact: 1, Kin: 9}, ran(1, 100), ran(2, 100), ran(3, 100))
	other := ran(4, 150)
	b.Add(ID{Exact: 2, Kin: 9}, &other, someday)
	other = ran(5, 500)
	b.Add(ID{Exact: 3, Kin: 8}, &other, someday)
	for d := range 3 {
		other = ran(d+1, 90)
		b.Add(ID{Exact: 4, Kin: 6}, &other, someday)
	}
	for _, c := range []struct {
		id   ID
		want Bytes
		kin  bool
		sure bool
	}{
		{ID{Exact: 1, Kin: 9}, 100, false, true},
		{ID{Exact: 2, Kin: 9}, 150, false, false},
		{ID{Exact: 7, Kin: 9}, 150, true, false},
		{ID{Exact: 7, Kin: 7}, 0, false, false},
		{ID{Exact: 7}, 0, false, false},
		{ID{Exact: 7, Kin: 6}, 90, true, true},
		{ID{}, 0, false, false},
	} {
		if p := b.Prior(c.id, 6*day); p.Ceiling != margin*c.want || p.Kin != c.kin || p.Sure != c.sure {
			t.Errorf("%+v: %+v", c.id, p)
		}
	}
}

// How a life ended is often known only later. It counts from then on.
func TestEndedLater(t *testing.T) {
	id := ID{Exact: 1}
	at := func(seconds int) time.Duration { return day + time.Duration(seconds)*time.Second }
	growing := func(seconds int, end End) Life {
		return Life{Ended: SecondsOf(at(seconds)), Height: 100, Peak: 100, Growing: true, End: end}
	}
	for _, c := range []struct {
		name  string
		lives []Life
		at    time.Duration
		want  []End // nil: there is none
	}{
		{"at that time", []Life{growing(0, EndUnknown)}, at(0), []End{EndCompleted}},
		{"a minute before", []Life{growing(0, EndUnknown)}, at(60), []End{EndCompleted}},
		{"a minute later", []Life{growing(0, EndUnknown)}, at(-60), []End{EndCompleted}},
		{"too long before", []Life{growing(0, EndUnknown)}, at(61), nil},
		{"too much later", []Life{growing(0, EndUnknown)}, at(-61), nil},
		{"the nearest", []Life{growing(0, EndUnknown), growing(20, EndUnknown), growing(50, EndUnknown)}, at(30), []End{EndUnknown, EndCompleted, EndUnknown}},
		{"one is known already", []Life{growing(0, EndUnknown), growing(20, EndFailed)}, at(20), []End{EndCompleted, EndFailed}},
		{"all are known already", []Life{growing(0, EndStopped)}, at(0), nil},
		{"no lives", nil, at(0), nil},
	} {
		b := book(id, c.lives...)
		if found := b.Ended(id, c.at, EndCompleted); found != (c.want != nil) {
			t.Errorf("%s: found %t", c.name, found)
		}
		for i, end := range c.want {
			if got := b.programs[1].lives[i].End; got != end {
				t.Errorf("%s: life %d ended %d, want %d", c.name, i, got, end)
			}
		}
		if teaches := b.Prior(id, 2*day).Lives > 0; teaches != (c.want != nil) {
			t.Errorf("%s: teaches %t", c.name, teaches)
		}
		if b.Ended(ID{Exact: 2}, c.at, EndCompleted) || b.Ended(ID{}, c.at, EndCompleted) {
			t.Errorf("%s: of another program", c.name)
		}
	}
}

func TestExpected(t *testing.T) {
	id := ID{Exact: 1}
	b := NewBook()
	for _, held := range []float64{100, 200} {
		var c Curve
		for age := time.Minute; age <= 90*time.Minute; age += time.Minute {
			c.Note(age, held*min(1, age.Hours()))
		}
		l := ran(1, Bytes(held))
		l.SetCurve(&c)
		b.Add(id, &l, someday)
	}
	p := b.Prior(id, 2*day)
	for _, c := range []struct {
		age       time.Duration
		low, high Bytes
		ok        bool
	}{
		{30 * time.Minute, 50, 100, true},
		{time.Hour, 100, 200, true},
		{90 * time.Minute, 100, 200, true},
		{3 * time.Hour, 0, 0, false},
		{1000 * time.Hour, 0, 0, false},
	} {
		low, high, ok := p.Expected(c.age)
		if ok != c.ok || low < 0.99*c.low || low > 1.01*c.low || high < 0.99*c.high || high > 1.01*c.high {
			t.Errorf("at %s: %g to %g, %t", c.age, low, high, ok)
		}
	}
}

// someday is after all lives of these tests.
const someday = 1 << 62

func TestBounds(t *testing.T) {
	b := NewBook()
	for i := range MaxPrograms + 5 {
		for d := range 3 {
			l := ran(i+d+1, 100)
			b.Add(ID{Exact: Key(i + 1)}, &l, someday)
		}
	}
	if len(b.programs) != MaxPrograms || b.programs[5] != nil || b.programs[6] == nil {
		t.Errorf("%d programs; the oldest one stays: %t", len(b.programs), b.programs[5] != nil)
	}
	for d := range MaxLives + 5 {
		l := ran(2000+d, 100)
		b.Add(ID{Exact: 1}, &l, someday)
	}
	if p := b.programs[1]; len(p.lives) != MaxLives || cap(p.lives) > MaxLives || p.lives[0].Ended != SecondsOf(2005*day) {
		t.Errorf("%d lives, room for %d, the first one of %s", len(p.lives), cap(p.lives), p.lives[0].Ended.Duration())
	}
	if l := ran(1, 100); b.programs[5] == nil {
		if b.Add(ID{Exact: 5}, &l, someday); b.programs[5] != nil {
			t.Error("a program of long ago takes the place of another one")
		}
	}
	if size := unsafe.Sizeof(Life{}); size > 64 {
		t.Errorf("a life takes %d bytes", size)
	}
}

// Lives of a time to come, as of a clock that was ahead, keep no place that another life needs.
func TestLivesOfTheFutureGoFirst(t *testing.T) {
	b, id, now := NewBook(), ID{Exact: 1, Program: "train.py"}, 100*day
	for d := range MaxLives {
		l := ran(1000+d, 100)
		b.Add(id, &l, 2000*day)
	}
	if p := b.Prior(id, now); p.Lives != 0 {
		t.Fatalf("%d lives of the future teach", p.Lives)
	}
	for d := range 3 {
		l := ran(90+d, 10)
		b.Add(id, &l, now)
	}
	if p := b.Prior(id, now); p.Lives != 3 || len(b.programs[1].lives) != MaxLives || cap(b.programs[1].lives) > MaxLives {
		t.Errorf("%d lives teach, of %d", p.Lives, len(b.programs[1].lives))
	}

	all := full()
	l := ran(3000, 100)
	all.Add(ID{Exact: 1 << 40}, &l, 4000*day) // the oldest goes
	l = ran(2000, 100)
	all.Add(ID{Exact: 1 << 41}, &l, 2000*day)
	if len(all.programs) != MaxPrograms || all.programs[1<<40] != nil || all.programs[1<<41] == nil {
		t.Errorf("%d programs; that of the future stays: %t", len(all.programs), all.programs[1<<40] != nil)
	}
}
