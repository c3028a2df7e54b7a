// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/heights"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
)

// Remember gives the domain a memory of programs that others have, too.
func (d *Domain[K]) Remember(b *Heights) { d.book = b }

// climb notes what a process holds by its sample, and each minute what that means beside what its program gave back. A tool that
// holds next to nothing has no place among the programs.
func (d *Domain[K]) climb(m *member, o *series.Sample) {
	if !m.Heights.Note(m.Last, float64(m.Used), full(o)) || float64(m.Peak) <= series.IdleLevel(o.Capacity) {
		return
	}
	learn := func(r *heights.Record) {
		m.Heights.Learn(m.Last, r, math.Inf(1), m.Leaks())
		m.Before = r.Prior(&m.Heights, m.decisive().Grown(), float64(d.capacity), m.Last)
	}
	if m.Runs == 0 {
		learn(&m.Given)
		return
	}
	d.book.With(m.Runs, d.past.Last, learn)
}

// full returns how full the whole memory is, from 0 to 1; 0 where that is not known.
func full(o *series.Sample) float64 {
	if o.Capacity == 0 {
		return 0
	}
	return 1 - float64(o.Left)/float64(o.Capacity)
}

// remember notes the end of a process: in the chain of its group, and in what its program gave back. What
// never held more than an idle GPU was no life of a program.
func (d *Domain[K]) remember(key K, m *member) {
	if float64(m.Peak) <= series.IdleLevel(m.Capacity) {
		return
	}
	if g := d.groups[m.group]; g != nil {
		d.chain(key, g, m)
	}
	if m.Runs != 0 {
		d.book.With(m.Runs, d.past.Last, func(r *heights.Record) { m.Heights.End(m.Last, r, m.Leaks()) })
	}
}

// givenBack reports whether the memory was as high before as it is now, and that ended well. Each process that takes a
// tenth or more of the present growth, of rate bytes per second, must be within what its program gave back, and together they must fit. Where no
// process grows the memory as a whole tells.
func (d *Domain[K]) givenBack(rate float64, grows func(*Verdict) float64) bool {
	if !d.used.Config().With(series.GivenBack) {
		return false
	}
	if grows(&d.out.Residual) >= fillShare*rate {
		return false // nobody knows what that is
	}
	free, known := float64(d.capacity-d.used.Used), false
	for i := range d.present {
		m := d.present[i].member
		if m == nil || grows(&d.out.Members[i].Verdict) < fillShare*rate {
			continue
		}
		if !m.Before.Holds(&m.Heights) {
			return false
		}
		known, free = true, free-max(0, m.Before.Given[heights.Crest]-float64(m.Used))
	}
	if known {
		return free >= 0
	}
	p := d.past.Given.Prior(&d.past.Heights, d.used.Grown(), float64(d.capacity), d.past.Last)
	return p.Holds(&d.past.Heights)
}
