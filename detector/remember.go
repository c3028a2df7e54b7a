// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

// Remember gives the domain a book in which it notes what processes held when they end, and looks up
// what earlier lives of a program say when one begins. It may be shared by domains.
func (d *Domain[K]) Remember(b *lives.Book) {
	d.book = b
	d.lookUp()
}

// lookUp looks up the earlier lives of all processes.
func (d *Domain[K]) lookUp() {
	if d.book == nil {
		return
	}
	for _, m := range d.members {
		m.prior = d.book.Prior(m.Lives, d.past.Last)
	}
	for i := range d.missing {
		m := d.missing[i].member
		m.prior = d.book.Prior(m.Lives, d.past.Last)
	}
}

// recall looks up the earlier lives of a process, once it is known what that runs.
func (d *Domain[K]) recall(m *member, id lives.ID) {
	if d.book != nil && id != m.Lives && id.Exact != 0 {
		m.Lives, m.prior = id, d.book.Prior(id, d.past.Last)
	}
}

// earlier is what the earlier lives of a process say of it now.
func (d *Domain[K]) earlier(m *member) Earlier {
	p := &m.prior
	e := Earlier{Named: d.book != nil && m.Lives.Exact != 0, Lives: p.Lives, Basis: p.Basis, Kin: p.Kin}
	if p.Ceiling > 0 {
		e.Ceiling = Of(float64(p.Ceiling))
	}
	if low, high, ok := p.Expected(m.Last - m.Began); ok {
		e.Low, e.High = Of(float64(low)), Of(float64(high))
	}
	return e
}

// age notes what a process holds at its age.
func (m *member) age() {
	m.Rise.Note(m.Last-m.Began, float64(m.Height))
	m.Curve.Note(m.Last-m.Began, float64(m.Used))
	if !m.Loaded.OK && m.WorkedAt > 0 {
		m.Loaded = Of(float64(m.Used))
	}
}

// remember notes the life of a process that has ended.
func (d *Domain[K]) remember(m *member) {
	if d.book == nil || m.Lives.Exact == 0 || m.Slight() {
		return
	}
	grew := m.Grew()
	l := lives.Life{
		Ended: lives.SecondsOf(m.Last), Lasted: lives.SecondsOf(m.Last - m.Began),
		Height: lives.Bytes(m.Height), Peak: lives.Bytes(m.Peak), Rate: lives.Bytes(grew.Rate), RateError: lives.Bytes(grew.Error),
		Growing: grew.Is, Risen: m.Rise.Age, Leaked: m.Leaks(), Full: d.diedFull(m),
	}
	if m.Loaded.OK {
		l.Loaded, l.Load = lives.SecondsOf(m.WorkedAt-m.Began), lives.Bytes(m.Loaded.V)
	}
	l.SetCurve(&m.Curve)
	d.book.Add(m.Lives, &l)
}

// diedFull reports whether the memory was full, or nearly so, a moment before a process ended.
func (d *Domain[K]) diedFull(m *member) bool {
	f := &d.past.Fullness
	return m.Full || f.Until > 0 && f.Until >= m.Last-time.Minute
}

// reach adds what a member may reach to what its group may. One that rests stays as it is.
func (h *groupFrame) reach(m *member, rests bool) {
	switch {
	case rests:
		h.ceiling += float64(m.Used)
	case m.prior.Ceiling > 0:
		h.ceiling += max(float64(m.prior.Ceiling), float64(m.Used))
	default:
		h.strange = true
	}
}

// prior is what the earlier lives of its members say of a group.
func (h *groupFrame) prior() series.Prior {
	if h.strange {
		return series.Prior{}
	}
	return series.Prior{Ceiling: h.ceiling}
}

// asBefore reports whether all that may contribute to growth of the crest, in bytes per second, is below
// what its earlier lives held, and whether all of it together fits into the memory.
func (d *Domain[K]) asBefore(rate float64) bool {
	grows := func(v *Verdict) bool { return v.Windows[0].Slope.OK && v.Windows[0].Slope.V >= fillShare*rate }
	if grows(&d.out.Residual) {
		return false
	}
	known, left := false, float64(d.capacity-d.used.Used)
	for i := range d.present {
		m := d.present[i].member
		switch {
		case m == nil:
		case m.prior.Ceiling > 0 && m.Used <= stat.Bytes(m.prior.Ceiling):
			known, left = true, left-max(0, float64(m.prior.Highest)-float64(m.Used))
		case grows(&d.out.Members[i].Verdict):
			return false
		}
	}
	return known && left >= 0
}
