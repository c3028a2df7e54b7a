// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package lives

import (
	"slices"
	"testing"
)

func TestMerge(t *testing.T) {
	id := ID{Exact: 1, Program: "train.py"}
	days := func(p Program) (list []int) {
		for _, l := range p.Lives {
			list = append(list, int(l.Ended.Duration()/day))
		}
		return list
	}
	long := func(from, n int) *Book {
		b := NewBook()
		for d := range n {
			l := ran(from+d, 100)
			b.Add(id, &l, someday)
		}
		return b
	}
	for _, c := range []struct {
		name       string
		to, from   *Book
		added      int
		want       int // lives
		first, end int
	}{
		{"into an empty one", NewBook(), long(1, 3), 3, 3, 1, 3},
		{"nothing", long(1, 3), NewBook(), 0, 3, 1, 3},
		{"itself", long(1, 3), long(1, 3), 0, 3, 1, 3},
		{"some of them", long(1, 3), long(3, 3), 2, 5, 1, 5},
		{"older ones", long(3, 3), long(1, 3), 2, 5, 1, 5},
		{"the newest ones stay", long(20, MaxLives), long(1, MaxLives), 0, MaxLives, 20, 20 + MaxLives - 1},
		{"newer ones take the place", long(1, MaxLives), long(20, MaxLives), 19, MaxLives, 20, 20 + MaxLives - 1},
	} {
		added := c.to.Merge(c.from, someday)
		p := c.to.Programs()
		if got := days(p[0]); added != c.added || len(got) != c.want || got[0] != c.first || got[len(got)-1] != c.end {
			t.Errorf("%s: %d added, days %v", c.name, added, got)
		}
	}
	// The same second at another height is another life.
	b, other := book(id, ran(1, 100)), book(id, ran(1, 101))
	if n := b.Merge(other, someday); n != 1 {
		t.Errorf("%d lives added", n)
	}
}

// A program whose last life ended before those of all others does not take the place of one.
func TestMergeIntoAFullBook(t *testing.T) {
	b, old, young := full(), book(ID{Exact: 1 << 40}, ran(-1, 1), ran(0, 2)), book(ID{Exact: 1 << 41}, ran(0, 1), ran(100, 2))
	oldest := b.Programs()[0]
	if n := b.Merge(old, someday); n != 0 || len(b.programs) != MaxPrograms || b.programs[oldest.ID.Exact] == nil {
		t.Errorf("%d old lives added, %d programs", n, len(b.programs))
	}
	if n := b.Merge(young, someday); n != 2 || len(b.programs) != MaxPrograms || b.programs[oldest.ID.Exact] != nil {
		t.Errorf("%d young lives added, %d programs", n, len(b.programs))
	}
}

func TestForget(t *testing.T) {
	b := NewBook()
	for i, name := range []string{"train.py", "serve.py", "train.py"} {
		l := ran(1, 1)
		b.Add(ID{Exact: Key(i + 1), Program: name}, &l, someday)
	}
	<-b.Changed()
	if n := b.Forget(func(id ID) bool { return id.Program == "train.py" }); n != 2 {
		t.Errorf("%d forgotten", n)
	}
	<-b.Changed()
	if left := b.Programs(); len(left) != 1 || left[0].ID.Program != "serve.py" {
		t.Errorf("%+v left", left)
	}
}

// Copies are not what is in the book.
func TestProgramsAreCopies(t *testing.T) {
	b := book(ID{Exact: 1}, ran(1, 1))
	b.Programs()[0].Lives[0].Height = 9
	if !slices.Equal(b.Programs()[0].Lives, []Life{ran(1, 1)}) {
		t.Error("who lists the book changes it")
	}
}
