// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/heights"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// zombieShare is the share of the capacity that a zombie holds at least. It is chosen: that of an idle memory.
const zombieShare = 0.01

type member struct {
	*series.Series // of its memory
	inside
	memberPast
	group groupName // of the last frame
}

// memberPast is what a member has beside its series.
type memberPast struct {
	// Program is what it runs, "" where that is not known.
	Program string
	Seen    time.Duration   // last frame that listed it
	Place   int             // in the list of that frame
	Held    Value           // its memory then
	Full    bool            // then the memory as a whole was near its capacity
	Runs    heights.Program // 0 unknown
	Heights heights.Life
	Given   heights.Record // while it is not known what it runs
	Before  heights.Prior  // what that, or its program, says of it
	// Company is the most that one other of its group held when it was listed last.
	Company stat.Bytes

	Activity process.Activity
	// Pieces says that much of what the allocator of the process has is free, and cannot be given back.
	Pieces bool
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
		if g := d.groups[m.group]; g != nil {
			m.Company = g.company(m)
		}
		if f.Complete && d.residual != nil {
			d.exits.Add(key, f.T, interval, m.Used, d.residual.Config())
		}
		d.bury(key, m)
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

// observeMembers adds the frame to the members' series and sums their groups. full says that the memory as a whole is near
// its capacity.
func (d *Domain[K]) observeMembers(f *Frame[K], o series.Sample, full bool) {
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
			held = m.Used // for all that is known
		}
		m.Seen, m.Place, m.group, m.Program = o.T, i, groupOf(in), in.Program
		m.Held, m.Full = Value{V: float64(used), OK: ok}, full
		m.Activity.Note(o.T, o.Interval, process.Allowance(m.Config().ZombieAfter), in.SM, in.CPU, in.State, in.Started)
		if ok {
			o.Used, o.Started, o.SM = used, in.Started, in.SM
			if in.Runs != 0 {
				m.Runs = in.Runs
			}
			o.Prior = series.Prior{Ceiling: m.Before.Within[heights.Low], Sure: m.Before.Sure}
			m.Observe(&o)
			d.observeInside(m, in, o)
			d.climb(m, &o)
		}
		at.group, at.known = d.join(in, m, held, ok, joined), ok
	}
}

// member returns the member of that key, making it at first sight; nil beyond the
// bound.
func (d *Domain[K]) member(in *Member[K]) *member {
	m := d.members[in.Key]
	if m == nil && len(d.members) < MaxMembers {
		if g := d.groups[groupOf(in)]; g != nil && g.accused && g.culprit == in.Key {
			g.Loop.Revoke() // one that is seen again has not ended
		}
		m = &member{Series: d.newSeries(Subject[K]{Kind: KindMember, Key: in.Key, Group: in.Group})}
		d.members[in.Key] = m
		d.exits.Remove(in.Key)
	}
	return m
}

// bury takes the end of a member.
func (d *Domain[K]) bury(key K, m *member) {
	if m.Held.OK && m.Held.V >= crestExit*float64(d.past.Top) {
		d.past.Crest, d.past.LeftAt = stat.Crest[stat.Bytes]{}, d.past.Last // what it held is no part of the crest any more
		d.past.Reached, d.past.Reaching = 0, 0
		d.past.Fullness.Left = true
	}
	d.remember(key, m)
	if g := d.groups[m.group]; g != nil {
		g.Ended.Add(&m.Activity, m.Seen)
		g.Pool.Add(&m.Activity, m.Program, m.Held)
	}
	m.inside = inside{}
	if len(d.out.Exited) < MaxMembers {
		d.out.Exited = append(d.out.Exited, Exit[K]{Key: key, Used: m.Held, NearCapacity: m.Full})
	}
}

// Knows reports whether the domain judges that process, waits for it, or watches what it
// left behind: its key can still be in a Judgement.
func (d *Domain[K]) Knows(key K) bool {
	return d.members[key] != nil || slices.ContainsFunc(d.exits.List, func(e process.Exit[K]) bool { return e.Key == key })
}

// zombie reports whether a member of the last frame holds memory that nobody will
// use again. For ZombieAfter it has held at least max(MinHeld, 1 % of the
// capacity), used no multiprocessor, and no more processor time than a heartbeat;
// and as long as that
//
//   - it has been unkillable (D), or its parent has been gone and it is no
//     service, or it has ended and the driver lists it all the same; or
//   - all other ranks of its group have been gone: see process.Cohort; or
//   - its pool has made and used others instead: see process.Pool.
//
// Without the latter it is idle, as a server at night is. What is not known is no
// evidence: without utilisation (as under MIG), processor time or state there is
// no zombie, but for one that is unkillable or has ended. A process in state Z holds nothing. It is none any more in the frame
// in which it computes. A rank that hangs in a collective keeps the
// multiprocessors busy, and is none before that ends.
func (d *Domain[K]) zombie(in *listing[K]) bool {
	m := in.member
	cfg, a, now := m.Config(), &m.Activity, d.past.Last
	least := max(cfg.MinHeld, zombieShare*float64(d.capacity))
	if a.Known == 0 || now-a.Quiet < cfg.ZombieAfter || float64(m.Used) < least {
		return false
	}
	if a.Lost > 0 && now-a.Lost >= cfg.ZombieAfter {
		return true
	}
	g := in.group
	if g == nil {
		return false
	}
	return g.frame.members == 1 && now-g.Ended.Last >= cfg.ZombieAfter && g.Ended.Strands(a) ||
		!m.group.Program && g.Pool.Forgets(a, m.Program, m.Used)
}
