// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/heights"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
)

// Remember makes the domain share a memory of programs with other domains.
func (d *Domain[K]) Remember(b *Heights) { d.book = b }

// noteHeight adds a sample of a process to its heights. Each minute it compares them with those of the program. A tool that
// holds next to nothing is no program.
func (d *Domain[K]) noteHeight(m *member, o *series.Sample) {
	if !m.Heights.Note(m.Last, float64(m.Used), fullness(o)) || float64(m.Peak) <= series.IdleLevel(o.Capacity) {
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

// fullness returns the used share (0 to 1) of the whole memory; 0 where that is not known.
func fullness(o *series.Sample) float64 {
	if o.Capacity == 0 {
		return 0
	}
	return 1 - float64(o.Left)/float64(o.Capacity)
}

// givenBack reports whether the memory is within a height that it gave back before. rate is its present growth, in bytes per
// second. Each process that contributes fillShare of it must be within the heights of its program, and these must fit into the
// memory at once. If no process contributes, the heights of the memory as a whole decide.
func (d *Domain[K]) givenBack(rate float64, grows func(*Verdict) float64) bool {
	if grows(&d.out.Residual) >= fillShare*rate {
		return false // its owner is unknown
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
