// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package heights

import (
	"bytes"
	"encoding/gob"
	"errors"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/state"
)

// given are heights in GiB, one an hour.
func given(list ...float64) (g Given) {
	for i, h := range list {
		g.add(Height{h * gib, h * gib, start + time.Duration(i)*time.Hour})
	}
	return g
}

// Three peaks and the use of now that rise one above the other are what leaks, and not what is given back.
func TestRisingPeaks(t *testing.T) {
	for _, c := range []struct {
		name  string
		peaks []float64
		use   float64
		want  float64
	}{
		{"none", nil, 50, 0},
		{"one", []float64{40}, 50, 40},
		{"two that rise", []float64{30, 40}, 50, 40},
		{"three that rise", []float64{20, 30, 40}, 50, 0},
		{"three that rise, and now less is used", []float64{20, 30, 40}, 35, 40},
		{"two like ones", []float64{30, 40, 40}, 50, 40},
		{"one before them was higher", []float64{45, 20, 30, 40}, 50, 45},
		{"all that are kept rise", []float64{1, 2, 3, 4, 5, 6, 7, 8}, 50, 0},
		{"one that is not kept any more was higher", []float64{45, 1, 2, 3, 4, 5, 6, 7, 8}, 50, 45},
		{"they have fallen", []float64{40, 30, 20}, 50, 40},
	} {
		g := given(c.peaks...)
		testkit.Equal(t, g.Highest(c.use*gib, 0, start+10*time.Hour)/gib, c.want, "%s: GiB", c.name)
	}
}

// Growth is what was given back before only if half as much was: a full cache that breathes has given nothing back.
func TestGrowthOfWhichLessWasGivenBack(t *testing.T) {
	g := given(60)
	g.add(Height{70 * gib, 2 * gib, start})
	for _, c := range []struct{ grown, want float64 }{{0, 70}, {4, 70}, {5, 60}, {120, 60}, {121, 0}} {
		testkit.Equal(t, g.Highest(50*gib, c.grown*gib, start+time.Hour)/gib, c.want, "%v GiB of growth: GiB that were given back", c.grown)
	}
}

// A height counts for 30 days, whether it is one of the last or not.
func TestHeightsAreForgotten(t *testing.T) {
	const day = 24 * time.Hour
	g := given(50, 40, 30, 20, 20, 20, 20, 20, 20)
	if g.Before.Bytes != 50*gib {
		t.Fatalf("%v is kept of those before the last ones", g.Before)
	}
	for _, c := range []struct {
		after time.Duration
		want  float64
	}{
		{30 * day, 50},
		{30*day + time.Minute, 40},
		{30*day + time.Hour + time.Minute, 30},
		{31 * day, 0},
	} {
		testkit.Equal(t, g.Highest(60*gib, 0, start+c.after)/gib, c.want, "after %v: GiB", c.after)
	}
	// A lower one takes the place of one that is forgotten.
	g = given(50, 10, 10, 10, 10, 10, 10, 10, 10)
	g.Last[0].At += 40 * day
	g.add(Height{10 * gib, 10 * gib, start + 40*day})
	testkit.Equal(t, g.Before.Bytes, 10*gib, "what is kept, which is not 30 days old")
}

// A height may be exceeded by a tenth of what it is above the lowest use, and by a quarter of what is left.
func TestMargin(t *testing.T) {
	for _, c := range []struct {
		name                   string
		base, height, capacity float64
		want                   float64
	}{
		{"a tenth", 0, 50, 80, 55},
		{"a tenth above the lowest use", 20, 50, 80, 53},
		{"a quarter of what is left", 0, 72, 80, 74},
		{"nothing is left", 0, 80, 80, 80},
		{"the capacity is not known", 0, 72, 0, 79.2},
		{"it was lower than the lowest use is now", 60, 50, 80, 50},
		{"nothing was given back", 0, 0, 80, 0},
	} {
		r := Record{Given: [kinds]Given{given(), given()}}
		if c.height > 0 {
			r.Given = [kinds]Given{given(c.height), given(c.height)}
		}
		l := Life{Began: start}
		for k := range l.Climbs {
			l.Climbs[k].Base = c.base * gib
		}
		p := r.Prior(&l, 0, c.capacity*gib, start+time.Hour)
		for k, within := range p.Within {
			if math.Abs(within/gib-c.want) > 1e-9 {
				t.Errorf("%s: kind %d within %v GiB, want %v", c.name, k, within/gib, c.want)
			}
		}
	}
}

// A life is held back while its crest, that of the open minute included, is within what was given back.
func TestHolds(t *testing.T) {
	for _, c := range []struct {
		name              string
		within, top, open float64
		want              bool
	}{
		{"below", 50, 40, 40, true},
		{"just as high", 50, 50, 50, true},
		{"it was higher", 50, 51, 40, false},
		{"it is higher now", 50, 40, 51, false},
		{"nothing was given back", 0, 0, 0, false},
	} {
		l := Life{Open: [kinds]float64{Crest: c.open}}
		l.Climbs[Crest].Top = c.top
		if p := (Prior{Within: [kinds]float64{Crest: c.within}}); p.Holds(&l) != c.want {
			t.Errorf("%s: %t, want %t", c.name, !c.want, c.want)
		}
	}
}

// Three lives that ended well are enough for what grows above them to need no excuse.
func TestSure(t *testing.T) {
	var r Record
	for n, want := range []bool{false, false, false, true, true} {
		testkit.Equal(t, r.Prior(&Life{}, 0, total, start).Sure, want, "after %d lives: sure", n)
		l := Life{Minute: start + time.Duration(n)*time.Hour}
		l.End(live(&l, &r, 0, false, leg{20, 50}), &r, false)
	}
}

func TestProgramOnAModel(t *testing.T) {
	p := Program(7)
	if p.On("") != p || Program(0).On("H200") != 0 {
		t.Error("what is not known has got a name")
	}
	if p.On("H200") == p || p.On("H200") == p.On("H100") {
		t.Error("a program has the name of another, or of none")
	}
}

// The program that was seen last the longest ago makes room for another one.
func TestProgramsAreBounded(t *testing.T) {
	b := NewBook()
	seen := func(p Program, at time.Duration) { b.With(p, start+at, func(*Record) {}) }
	for p := range Program(MaxPrograms) {
		seen(p+1, time.Duration(p)*time.Second)
	}
	seen(1, time.Hour) // so that 2 is the oldest
	seen(MaxPrograms+1, time.Hour)
	if b.programs[1] == nil || b.programs[2] != nil || b.programs[MaxPrograms+1] == nil || len(b.programs) != MaxPrograms {
		t.Errorf("of %d programs, the first is kept: %t, the second: %t, the last: %t",
			len(b.programs), b.programs[1] != nil, b.programs[2] != nil, b.programs[MaxPrograms+1] != nil)
	}
}

// It is told later that an end in a full memory was a good one, of that program and at about that time, once.
func TestEndedWell(t *testing.T) {
	for _, c := range []struct {
		name  string
		p     Program
		after time.Duration
		want  bool
	}{
		{"that end", 1, 0, true},
		{"a minute later", 1, time.Minute, true},
		{"a minute before", 1, -time.Minute, true},
		{"another end", 1, 2 * time.Minute, false},
		{"another program", 2, 0, false},
	} {
		b, l, end := NewBook(), Life{}, time.Duration(0)
		var r *Record
		b.With(1, start, func(of *Record) { r = of })
		end = live(&l, r, 0, false, leg{20, 76})
		l.End(end, r, false)
		if got := b.Ended(c.p, end+c.after); got != c.want || (highest(r, end)[Crest] == 76) != c.want {
			t.Errorf("%s: taken: %t, given back: %v GiB", c.name, got, highest(r, end))
		}
		if b.Ended(c.p, end+c.after); r.Given[Crest].N > 1 {
			t.Errorf("%s: it counts twice", c.name)
		}
	}
}

// filled returns a book of two programs with all that a record can hold.
func filled() *Book {
	b := NewBook()
	for p := range Program(2) {
		b.With(p, start, func(r *Record) {
			for range 10 {
				var l Life
				l.End(live(&l, r, 0, false, leg{20, 10}, leg{20, 50}, leg{20, 10}), r, false)
			}
			var l Life
			l.End(live(&l, r, 0, false, leg{20, 76}), r, false)
		})
	}
	return b
}

func TestSaveAndRestore(t *testing.T) {
	for _, b := range []*Book{NewBook(), filled()} {
		other := filled()
		if err := other.Restore(b.Save(), start+24*time.Hour); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(other.Save(), b.Save()) {
			t.Error("what is restored is not what was saved")
		}
	}
}

// Of input that cannot be a state nothing is taken.
func TestRestoreOfWhatCannotBe(t *testing.T) {
	of := func(change func(*saved)) []byte {
		one := saved{Program: 1}
		change(&one)
		return encoded(t, []saved{one})
	}
	for name, from := range map[string][]byte{
		"nothing":           nil,
		"noise":             []byte("heights"),
		"half of a state":   filled().Save()[:100],
		"another type":      encoded(t, "heights"),
		"too many programs": encoded(t, make([]saved, MaxPrograms+1)),
		"too many peaks":    of(func(s *saved) { s.Record.Given[Low].N = lastPeaks + 1 }),
		"fewer than none":   of(func(s *saved) { s.Record.Given[Crest].N = -1 }),
		"no number":         of(func(s *saved) { s.Record.Given[Crest].Last[0].Bytes = math.NaN() }),
		"without end":       of(func(s *saved) { s.Record.Doubt[Crest].Bytes = math.Inf(1) }),
		"years from now":    of(func(s *saved) { s.Record.Seen = start + 10*365*24*time.Hour }),
	} {
		b := filled()
		before := b.Save()
		if err := b.Restore(from, start); !errors.Is(err, state.Err) {
			t.Errorf("%s: %v", name, err)
		}
		if !bytes.Equal(b.Save(), before) {
			t.Errorf("%s: the book has changed", name)
		}
	}
}

func encoded(t testing.TB, v any) []byte {
	t.Helper()
	var to bytes.Buffer
	if err := gob.NewEncoder(&to).Encode(v); err != nil {
		t.Fatal(err)
	}
	return to.Bytes()
}

// Whatever is read: nothing panics, and what is taken works, and is saved as it was read.
func FuzzRestore(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(NewBook().Save())
	f.Add(filled().Save())
	f.Add(encoded(f, []saved{{Program: 1, Record: Record{Lives: -1, Given: [kinds]Given{{N: lastPeaks}, {N: 1}}}}}))
	f.Fuzz(func(t *testing.T, from []byte) {
		b := NewBook()
		if b.Restore(from, start) != nil {
			return
		}
		again := NewBook()
		if err := again.Restore(b.Save(), start); err != nil || !bytes.Equal(again.Save(), b.Save()) {
			t.Fatalf("it is not saved as it was read: %v", err)
		}
		for p := range Program(3) {
			b.With(p, start, func(r *Record) {
				var l Life
				end := live(&l, r, 0, false, leg{12, 10}, leg{2, 50}, leg{18, 10})
				if v := r.Prior(&l, 0, total, end).Within[Crest]; math.IsNaN(v) || math.IsInf(v, 0) {
					t.Fatalf("within %v", v)
				}
				l.End(end, r, false)
			})
			b.Ended(p, start+32*time.Minute)
		}
		if len(b.programs) > MaxPrograms {
			t.Fatalf("%d programs", len(b.programs))
		}
	})
}

// Two lives of one program, on two GPUs, are noted at once while the book is saved.
func TestTwoLivesAtOnce(t *testing.T) {
	const lives = 20
	b := NewBook()
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range lives {
				var l Life
				for minute := range 20 {
					at := start + time.Duration(minute+1)*time.Minute
					if !l.Note(at, 50*gib, 0.6) {
						continue
					}
					b.With(1, at, func(r *Record) {
						l.Learn(at, r, math.Inf(1), false)
						r.Prior(&l, 0, total, at)
					})
				}
				end := start + 20*time.Minute
				b.With(1, end, func(r *Record) { l.End(end, r, false) })
				b.Ended(1, end)
			}
		})
	}
	all.Go(func() {
		for range lives {
			if err := NewBook().Restore(b.Save(), start); err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	b.With(1, start, func(r *Record) {
		if r.Lives != 1 || r.Given[Crest].Highest(0, 0, start) != 50*gib { // they end at one time
			t.Errorf("%d lives, want 1; %v", r.Lives, r.Given[Crest])
		}
	})
}

// The ranks of a job end together, and are one life, as high as the highest of them. One may end in a full memory, and the others
// not: what these held counts as a life of their program, next to that of the run before, and what the first held as soon as it is
// known to have ended well.
func TestRanks(t *testing.T) {
	var r Record
	b := NewBook()
	b.programs[1] = &r
	var before, full, other, third Life
	before.End(live(&before, &r, 0, false, leg{20, 30}), &r, false)
	for at := start + time.Hour; at < start+80*time.Minute; at += step {
		full.Note(at, 50*gib, 0.99)
		other.Note(at, 20*gib, 0.5)
		third.Note(at, 10*gib, 0.5)
	}
	end := start + 80*time.Minute
	full.End(end, &r, false)
	other.End(end+5*time.Second, &r, false)
	third.End(end+5*time.Second, &r, false)
	g := &r.Given[Crest]
	if r.Lives != 2 || g.N != 2 || g.Last[0].Bytes != 30*gib || g.Last[1].Bytes != 20*gib {
		t.Fatalf("%d lives, %d heights, of %v and %v GiB", r.Lives, g.N, g.Last[0].Bytes/gib, g.Last[1].Bytes/gib)
	}
	if !b.Ended(1, end) || r.Lives != 2 || g.N != 2 || g.Last[1].Bytes != 50*gib {
		t.Errorf("%d lives, %d heights, the last of %v GiB", r.Lives, g.N, g.Last[1].Bytes/gib)
	}
}
