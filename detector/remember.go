// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/ablate"
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

// remember notes the life of a process that has ended: in the chain of its group, and in the book. What
// never held more than an idle GPU was no life of a program.
func (d *Domain[K]) remember(key K, m *member) {
	if m.Slight() {
		return
	}
	g := d.groups[m.group]
	if g != nil {
		d.chain(key, g, m)
	}
	if d.book != nil && m.Lives.Exact != 0 {
		l := d.life(m)
		l.Leaked = l.Leaked || g != nil && g.culprit == key && g.looping() // as one of many that did
		d.book.Add(m.Lives, &l, m.Last)
	}
}

// life returns what is kept of the life of a process that has ended.
func (d *Domain[K]) life(m *member) lives.Life {
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
	return l
}

// chain takes the life of a member of g into the chain of a crash loop. That of a helper counts for nothing,
// nor does that in a memory that others have filled. Who grew until the memory was full has died of it; who
// did not breaks the chain, and so does who stood in a full memory for long: that is how a program works
// that takes all there is. Two ends in a frame, as when a pod is killed, come in no order that could be
// told: those that filled the memory are one death, others break the chain.
//
// The processes of a program that are in no pod or job need not belong together: of those, what was
// there before the last life ended counts for nothing.
func (d *Domain[K]) chain(key K, g *group[K], m *member) {
	r, f := &g.Loop, &d.past.Fullness
	apart := r.Follows(m.First)
	least := helperShare * float64(r.Held())
	if apart {
		least = min(least, lives.LoadedShare*float64(r.Base)) // the next life may have been it, and still
	}
	if m.Held.V <= max(least, helperShare*float64(m.Company)) || m.group.Program && !apart {
		return
	}
	life, grew := m.Lived()
	late := m.Last - (m.Last-m.First)/5 // as late as a life that grows to its end reaches its top
	same := r.Noted == d.past.Last
	r.Noted = d.past.Last
	if ablate.Off(ablate.CrashLoop) {
		return
	}
	switch {
	case grew && (m.Full || f.Filled(life.Onset, m.Last)):
		if !same { // two at once are the same death
			r.Add(&life, m.Config().MinSpan)
			g.culprit, g.accused, g.Runs = key, true, m.Lives.Exact
		}
	case m.Full && f.Filled(late, m.Last): // of what nobody saw grow
	default:
		r.Clear()
	}
}

// inherit gives a pod whose process has just begun the chain of the pod that ran the same last and is gone:
// who retries a Kubernetes Job makes a pod of another name.
func (d *Domain[K]) inherit(g *group[K]) {
	heir := g.frame.heir
	if heir == nil || heir.Lives.Exact == 0 {
		return
	}
	var from *group[K]
	var last time.Duration
	for name, old := range d.groups {
		ended := old.Loop.Ended()
		if !name.Program && !old.lives() && ended > last && old.Runs == heir.Lives.Exact && old.Loop.Follows(heir.First) {
			from, last = old, ended
		}
	}
	if from == nil {
		return
	}
	g.Loop, g.culprit, g.accused, g.Runs = from.Loop, from.culprit, from.accused, from.Runs
	from.Loop, from.accused = lives.Loop{}, false
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
		h.rose = max(h.rose, m.prior.Rose.Duration())
	default:
		h.strange = true
	}
}

// prior is what the earlier lives of its members say of a group.
func (h *groupFrame) prior() series.Prior {
	if h.strange {
		return series.Prior{}
	}
	return series.Prior{Ceiling: h.ceiling, Rose: h.rose}
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
