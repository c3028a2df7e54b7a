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
	known.Add(id, &ended)
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
