// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// The programs of these tests, by what they run.
const (
	minute = 60 // seconds, as all times here
	hour   = 60 * minute
	every  = 15 // between frames
	runs   = Program(1)
	other  = Program(2)
)

// life is a process of a program: its memory after so many seconds of its own.
type life struct {
	key    int
	runs   Program
	lasts  int
	memory func(s int) float64 // GiB
}

// grows is a memory of base GiB that grows by so many GiB an hour.
func grows(base, rate float64) func(int) float64 {
	return func(s int) float64 { return base + rate*float64(s)/hour }
}

// holds is one of always as much.
func holds(level float64) func(int) float64 { return grows(level, 0) }

// stage is a GPU of 80 GiB on which lives come and go.
type stage struct {
	*Domain[int]
	now int
}

// said is what was told in some frames.
type said struct {
	leaks, pages int // seconds
	pageAt       int // of the first page, seconds from the begin of the scene; -1 none
}

// scene shows lives that begin together, until the last of them has ended, and the empty GPU for five minutes.
func (d *stage) scene(t *testing.T, all ...life) said {
	t.Helper()
	r, begin, lasts := said{pageAt: -1}, d.now, 0
	for _, l := range all {
		lasts = max(lasts, l.lasts)
	}
	for s := 0; s < lasts+5*minute; s += every {
		var members []Member[int]
		for _, l := range all {
			if s < l.lasts {
				members = append(members, Member[int]{Key: l.key, Runs: l.runs, Used: Of(round(min(l.memory(s), 79.5) * gib)), Started: second(begin), SM: Of(0.5)})
			}
		}
		d.now += every
		j := show(t, d.Domain, frame(d.now, 256*mib, members...))
		if j.Device.Leak {
			r.leaks += every
		}
		if j.Page {
			if r.pages += every; r.pageAt < 0 {
				r.pageAt = s
			}
		}
	}
	return r
}

// A server that leaks, and is started again before it is full: its lives end well for the page, and teach the
// verdict nothing. What ends in a full memory has ended well only if it was told to.
func TestRestartedLeakyServer(t *testing.T) {
	for _, c := range []struct {
		name  string
		lasts int
		known bool // how it ended
		paged int  // lives
	}{
		{"at 90 %", 4 * hour, false, 1},
		{"at 95 %, as it was told", 4*hour + 15*minute, true, 1},
		{"at 95 %, and nobody knows why", 4*hour + 15*minute, false, 4},
	} {
		book := NewHeights()
		d := stage{Domain: newDomain(t)}
		d.Remember(book)
		paged := 0
		for n := range 4 {
			ends := second(d.now + c.lasts)
			r := d.scene(t, life{n, runs, c.lasts, grows(20, 13)})
			if c.known && !book.Ended(runs, ends) {
				t.Errorf("%s: nobody knows of the end of life %d", c.name, n)
			}
			if r.leaks < 2*hour {
				t.Errorf("%s: life %d is a leak for %d s only", c.name, n, r.leaks)
			}
			paged += btoi(r.pages > 0)
		}
		testkit.Equal(t, paged, c.paged, "%s: lives that are paged", c.name)
		// One that is not started again in time is paged for once it is higher than they were.
		if r := d.scene(t, life{9, runs, 5 * hour, grows(20, 13)}); r.pageAt < 0 || r.pageAt > c.lasts+15*minute {
			t.Errorf("%s: a longer life is paged for after %d s", c.name, r.pageAt)
		}
	}
}

// One of two programs leaks, the other one was higher before.
func TestOneOfTwoLeaks(t *testing.T) {
	d := stage{Domain: newDomain(t)}
	for n := range 3 {
		d.scene(t, life{n, other, 2 * hour, holds(60)})
	}
	for n := range 2 {
		d.scene(t, life{5 + n, runs, 2 * hour, holds(10)})
	}
	r := d.scene(t, life{10, other, 8 * hour, holds(20)}, life{11, runs, 8 * hour, grows(10, 8)})
	full := 49.0 / 8 * hour // both hold 80 GiB then
	if r.pageAt < 0 || float64(r.pageAt) > full-50*minute {
		t.Errorf("paged after %d s, the memory is full after %.0f", r.pageAt, full)
	}
}

// Two programs grow that held as much before, each for itself: that is given back only if both heights fit into the memory.
func TestHeightsOfTwoPrograms(t *testing.T) {
	for _, c := range []struct {
		height float64 // GiB, 0 for none
		pages  bool
	}{{0, true}, {34, false}, {38, false}, {41, true}, {60, true}} {
		d := stage{Domain: newDomain(t)}
		for n := range 4 {
			if c.height > 0 {
				d.scene(t, life{n, []Program{runs, other}[n%2], 2 * hour, holds(c.height)})
			}
		}
		const lasts = 65 * minute // then each holds 36 GiB, and the memory is full in ten minutes
		r := d.scene(t, life{10, runs, lasts, grows(10, 24)}, life{11, other, lasts, grows(10, 24)})
		testkit.Equal(t, r.pages > 0, c.pages, "each held %v GiB: a page", c.height)
	}
}

// Training whose evaluations peak above its leak: the verdict compares lows with lows, and the page crests with crests.
func TestEvaluationsAboveTheLeak(t *testing.T) {
	const rate = 4.0 // GiB an hour
	alike, unlike := [2]float64{25, 25}, [2]float64{22, 28}
	for _, c := range []struct {
		lasts   int        // seconds of each half hour that it evaluates
		peaks   [2]float64 // GiB of evaluations by turns, above what the training holds
		earlier bool       // it ran before without the leak
	}{
		{30, alike, false},
		{30, unlike, true},
		{6 * minute, alike, false},
		{2 * minute, unlike, false},
		{6 * minute, unlike, true},
	} {
		train := func(rate float64) func(int) float64 {
			return func(s int) float64 {
				if s%(30*minute) < 30*minute-c.lasts {
					return 30 + rate*float64(s)/hour
				}
				return 30 + rate*float64(s)/hour + c.peaks[s/(30*minute)%2]
			}
		}
		d := stage{Domain: newDomain(t)}
		if c.earlier {
			d.scene(t, life{1, runs, 6 * hour, train(0)})
		}
		full := 0 // when the crest meets the capacity
		for train(rate)(full) < 79.5 {
			full += every
		}
		r := d.scene(t, life{2, runs, full, train(rate)})
		if r.leaks <= full/2 || r.pageAt == 0 || r.pageAt > full-30*minute {
			t.Errorf("%+v: a leak for %d s, paged after %d s, full after %d", c, r.leaks, r.pageAt, full)
		}
	}
}

// Where no process is known the memory itself tells: it has been as high, and was given back. A reset of the device forgets it.
func TestHeightsOfAMemory(t *testing.T) {
	d := newDomain(t)
	now := 0
	for n, c := range []struct {
		top   float64 // GiB
		pages bool
		reset Reason
	}{{72, true, NumReasons}, {72, false, NumReasons}, {79.5, true, NumReasons}, {72, true, ReasonDeviceReset}, {72, false, NumReasons}, {72, true, ReasonRepartition}} {
		if c.reset < NumReasons {
			d.Reset(c.reset)
		}
		up, pages := int((c.top-10)/20*hour), 0
		for s := 0; s < up+hour; s += every {
			now += every
			used := grows(10, 20)(s)
			if s >= up {
				used = 10
			}
			f := frame(now, used*gib)
			f.Complete = false
			pages += btoi(show(t, d, f).Page)
		}
		testkit.Equal(t, pages > 0, c.pages, "time %d, up to %v GiB: a page", n, c.top)
	}
}

// A page that has begun goes on, though the height of now is given back meanwhile: by the same program on another
// GPU. One that has not begun does not begin then.
func TestPageGoesOn(t *testing.T) {
	const full = 6 * hour // of a memory that is paged for from the fifth hour on
	for _, c := range []struct {
		name  string
		peak  int // of the other process, which counts a quarter of an hour later; 0 none
		pages bool
	}{
		{"nothing is given back", 0, true},
		{"it is given back before the page", 4 * hour, false},
		{"it is given back during the page", full - 50*minute, true},
	} {
		book := NewHeights()
		d, elsewhere := newDomain(t), newDomain(t)
		d.Remember(book)
		elsewhere.Remember(book)
		var page toggles
		for s := 0; s < full-5*minute; s += every {
			high := 10.0
			if c.peak > 0 && s >= c.peak && s < c.peak+2*minute {
				high = 78.5
			}
			show(t, elsewhere, frame(s, 256*mib, Member[int]{Key: 2, Runs: runs, Used: Of(high * gib)}))
			m := Member[int]{Key: 1, Runs: runs, Used: Of(round(grows(10, 69.5/6)(s) * gib)), Started: second(0), SM: Of(0.5)}
			page.note(s, show(t, d, frame(s, 256*mib, m)).Page)
		}
		if c.pages && len(page) != 1 || !c.pages && len(page) > 0 {
			t.Errorf("%s: a page begins and ends at %v s", c.name, page)
		}
	}
}

// A restart of the exporter in the middle of a life changes nothing: what was given back is known at once.
func TestHeightsOverARestart(t *testing.T) {
	book := NewHeights()
	d := stage{Domain: newDomain(t)}
	d.Remember(book)
	for n := range 2 {
		d.scene(t, life{n, runs, 4 * hour, grows(20, 13)})
	}
	pages := 0
	for s := 0; s < 4*hour; s += every {
		if s == 230*minute+every { // in the middle of a minute, when a page would be due
			saved, known := d.Save(nil), book.Save()
			d.Domain, book = newDomain(t), NewHeights()
			must(t, book.Restore(known, second(d.now)))
			d.Remember(book)
			must(t, d.Restore(saved, func(int) bool { return true }))
		}
		d.now += every
		m := Member[int]{Key: 9, Runs: runs, Used: Of(round(grows(20, 13)(s) * gib)), Started: second(d.now - s), SM: Of(0.5)}
		pages += btoi(show(t, d.Domain, frame(d.now, 256*mib, m)).Page)
	}
	if pages > 0 {
		t.Errorf("%d frames are a page", pages)
	}
}
