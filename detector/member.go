// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/heights"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// zombieShare is the least share of the capacity that a zombie holds. It is chosen: that of an idle memory.
const zombieShare = 0.01

// member is a process. Exported fields are those of a state.
type member struct {
	*series.Series // of its memory
	// With a probe in its allocator: the series of live objects, and of the memory beside the allocator (libraries, CUDA itself).
	// The pool of the allocator is in neither. Silent is the first frame without values of the probe; 0 while it has values.
	Live, Untracked *series.Series
	Silent          time.Duration

	Group   groupName       // of the last frame
	Seen    time.Duration   // last frame that listed it
	Place   int             // in the list of that frame
	Held    Value           // its memory in that frame
	Near    time.Duration   // the last frame with it in which the memory as a whole was near its capacity; 0 none
	Runs    heights.Program // 0 unknown
	Heights heights.Life
	Given   heights.Record // the heights that it gave back itself, if Runs is unknown
	Before  heights.Prior  // the heights of its program, or Given

	Activity process.Activity
	Pieces   bool // its allocator is fragmented
}

// removeMembers removes the members that are gone. interval is the typical time between frames.
func (d *Domain[K]) removeMembers(f *Frame[K], interval time.Duration) {
	if d.judged {
		d.out.Exited, d.judged = d.out.Exited[:0], false
	}
	seen := 0
	d.present = d.present[:0]
	for i := range f.Members {
		key := f.Members[i].Key
		m := d.members[key]
		d.present = append(d.present, listing[K]{key: key, member: m, twice: m != nil && m.Seen == f.T})
		if m != nil && m.Seen != f.T {
			m.Seen, m.Place = f.T, i
			seen++
		}
	}
	if seen == len(d.members) {
		return
	}
	for _, key := range d.gone(f) {
		m := d.members[key]
		delete(d.members, key)
		if f.Complete && d.residual != nil {
			d.exits.Add(key, f.T, interval, m.Used, d.residual.Config())
		}
		d.endMember(key, m)
	}
}

// gone returns the members that are gone, in the order of the last list of each: the order of a map
// differs each time.
func (d *Domain[K]) gone(f *Frame[K]) []K {
	d.removed = d.removed[:0]
	for key, m := range d.members {
		if m.Seen < f.T && (f.Complete || f.T-m.Seen >= process.Absence) {
			d.removed = append(d.removed, key)
		}
	}
	slices.SortFunc(d.removed, func(a, b K) int {
		x, y := d.members[a], d.members[b]
		return cmp.Or(cmp.Compare(x.Seen, y.Seen), cmp.Compare(x.Place, y.Place))
	})
	return d.removed
}

// observeMembers adds the frame to the members' series and sums their groups. near says that the memory as a whole is near
// its capacity.
func (d *Domain[K]) observeMembers(f *Frame[K], o series.Sample, near bool) {
	for _, g := range d.groups {
		g.frame = groupFrame{}
	}
	for i := range f.Members {
		in, at := &f.Members[i], &d.present[i]
		joined := at.member == nil
		if joined {
			at.member = d.member(in)
		}
		m := at.member
		if m != nil && m.Last == o.T {
			at.member, at.twice = nil, true
			continue
		}
		used, ok := bytesOf(in.Used)
		if m == nil {
			at.group, at.known = d.join(in, nil, used, ok, false), ok
			continue
		}
		held := used
		if !ok {
			held = m.Used
		}
		m.Seen, m.Place, m.Group = o.T, i, groupOf(in)
		m.Held = Value{V: float64(used), OK: ok}
		if near {
			m.Near = o.T
		}
		m.Activity.Note(o.T, o.Interval, m.Config().ZombieAfter, in.SM, in.CPU, in.State)
		if ok {
			o.Used, o.Started, o.SM = used, in.Started, in.SM
			if in.Runs != 0 {
				m.Runs = in.Runs
			}
			o.Prior = series.Prior{Ceiling: m.Before.Within[heights.Low], Sure: m.Before.Sure}
			m.Observe(&o)
			d.observeInside(m, in, o)
			d.noteHeight(m, &o)
		}
		at.group, at.known = d.join(in, m, held, ok, joined), ok
	}
}

// member returns the member of that key, which may be new; nil beyond MaxMembers.
func (d *Domain[K]) member(in *Member[K]) *member {
	m := d.members[in.Key]
	if m == nil && len(d.members) < MaxMembers {
		if g := d.groups[groupOf(in)]; g != nil && g.Accused && g.Culprit == in.Key {
			g.Loop.removeLast() // a process that is seen again has not ended
		}
		m = &member{Series: d.newSeries(Subject[K]{Kind: KindMember, Key: in.Key, Group: in.Group})}
		d.members[in.Key] = m
		d.exits.Remove(in.Key)
	}
	return m
}

// endMember handles the end of a member.
func (d *Domain[K]) endMember(key K, m *member) {
	// It may have died at a peak between two frames. What followed when another one had made room did not.
	near := m.Near > 0 && m.Near >= m.Seen-series.FullBefore && (m.Near >= d.past.LeftAt+process.ReleaseGrace || d.past.LeftAt == d.past.Last)
	if m.Held.OK && m.Held.V >= crestExit*float64(d.past.Top) {
		d.past.Crest, d.past.LeftAt = stat.Crest[stat.Bytes]{}, d.past.Last
		d.past.Fullness.Left = true
	}
	if float64(m.Peak) > series.IdleLevel(m.Capacity) { // what never held more than an idle GPU does not count
		if g := d.groups[m.Group]; g != nil {
			d.addLife(key, g, m)
		}
		if m.Runs != 0 {
			d.book.With(m.Runs, d.past.Last, func(r *heights.Record) { m.Heights.End(m.Last, r, m.Leaks()) })
		}
	}
	if len(d.out.Exited) < MaxMembers {
		d.out.Exited = append(d.out.Exited, Exit[K]{Key: key, Used: m.Held, NearCapacity: near})
	}
}

// Knows reports whether a Judgement can still have that key: the process is a member, or its memory may have stayed.
func (d *Domain[K]) Knows(key K) bool {
	return d.members[key] != nil || slices.ContainsFunc(d.exits.List, func(e process.Exit[K]) bool { return e.Key == key })
}

// zombie reports whether a member holds memory that will not be used again. For ZombieAfter it has held
// max(MinHeld, 1 % of the capacity) or more, used no multiprocessor, and no more processor time than a heartbeat; and for that
// time it has been unkillable (D), or an orphan that is no service, or it has ended and the driver still lists it.
//
// Otherwise it is idle, as a server at night is. Without utilisation (as under MIG), processor time or
// state there is no zombie, except one that is unkillable or has ended. A process in state Z holds no
// memory. A rank that hangs in a collective keeps the multiprocessors busy: it is no zombie.
func (d *Domain[K]) zombie(m *member) bool {
	cfg, a, now := m.Config(), &m.Activity, d.past.Last
	least := max(cfg.MinHeld, zombieShare*float64(d.capacity))
	if a.Known == 0 || now-a.Quiet < cfg.ZombieAfter || float64(m.Used) < least {
		return false
	}
	return a.Lost > 0 && now-a.Lost >= cfg.ZombieAfter
}

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
