// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

// No lives are told as none only where lives are remembered and the process has a name.
func TestEarlierIsNamed(t *testing.T) {
	id := lives.ID{Exact: 1}
	ended := lives.Life{Ended: lives.SecondsOf(start), Height: 30 * gib, Peak: 30 * gib}
	known := lives.NewBook()
	known.Add(id, &ended, start)
	for _, c := range []struct {
		name  string
		book  *lives.Book
		id    lives.ID
		named bool
		lives int
	}{
		{"no book", nil, id, false, 0},
		{"no name", lives.NewBook(), lives.ID{}, false, 0},
		{"the first life", lives.NewBook(), id, true, 0},
		{"the second life", known, id, true, 1},
	} {
		d := newDomain(t)
		if c.book != nil {
			d.Remember(c.book)
		}
		var v MemberVerdict[int]
		for s, used := range []float64{20 * gib, 22 * gib, 21 * gib} {
			m := proc(1, used)
			m.Lives = c.id
			v = show(t, d, frame(10+5*s, 0, m)).Members[0]
		}
		if v.Earlier.Named != c.named || v.Earlier.Lives != c.lives || v.Peak != Of(22*gib) {
			t.Errorf("%s: %+v, at most %v", c.name, v.Earlier, v.Peak)
		}
	}
}

// The life of a leak that rests when it ends has the rate of the leak.
func TestLifeOfALeakHasItsRate(t *testing.T) {
	const minute = 60
	for _, c := range []struct {
		name  string
		rests int // seconds before the end
		rate  float64
	}{
		{"it leaks until the end", 0, 4 * mib},
		{"it rests at the end", 5 * minute, 4 * mib},
		{"it is over", 100 * minute, 0},
	} {
		d, book := newDomain(t), lives.NewBook()
		d.Remember(book)
		const leaks = 120 * minute
		for s := 0; s < leaks+c.rests; s += 5 {
			m := proc(1, 20*gib+float64(min(s, leaks))*4*mib)
			m.Lives, m.Started = lives.ID{Exact: 1, Program: "serve.py"}, second(0)
			show(t, d, frame(s, 0, m))
		}
		for s := 0; s < 2*minute; s += 5 {
			show(t, d, frame(leaks+c.rests+s, 0))
		}
		if v := book.Versions(); len(v) != 1 || float64(v[0].Rate) < 0.95*c.rate || float64(v[0].Rate) > 1.05*c.rate {
			t.Errorf("%s: %+v, want a rate of %.0f", c.name, v, c.rate)
		}
	}
}
