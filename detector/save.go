// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"fmt"
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/state"
)

// stateVersion is that of the layout which Save writes: of the exported fields of past, memberPast,
// groupPast and what these and a series are made of. A release that finds another one starts without
// history, but for that of the release before: see legacy.go.
const stateVersion = 14

// writer writes what a domain is made of.
type writer[K comparable] struct {
	state.Writer
	key func([]byte, K) []byte
}

func (w *writer[K]) name(k K) {
	s := string(w.key(nil, k))
	w.Add(&s)
}

// optional writes whether something is there, and its name if it is.
func (w *writer[K]) optional(is bool, k K) {
	if w.Add(&is); is {
		w.name(k)
	}
}

func (w *writer[K]) series(s *series.Series) {
	is := s != nil
	if w.Add(&is); is {
		w.Add(s)
	}
}

func (w *writer[K]) member(k K, m *member) {
	w.name(k)
	w.Add(&m.group, m.Series, &m.memberPast)
}

func (w *writer[K]) count(n int) { w.Add(&n) }

// Save appends the history of the domain to b: Restore continues as if the
// domain had never been away. key appends the name of a member.
func (d *Domain[K]) Save(b []byte, key func([]byte, K) []byte) []byte {
	w := writer[K]{state.Writer{B: append(b, stateVersion)}, key}
	w.Add(&d.past)
	w.series(d.used)
	w.series(d.residual)
	w.series(d.resting)
	w.count(len(d.members))
	for k, m := range d.members {
		w.member(k, m)
	}
	w.count(len(d.missing))
	for i := range d.missing {
		x := &d.missing[i]
		w.member(x.key, x.member)
		w.Add(&x.since, &x.rest)
	}
	w.count(len(d.groups))
	for name, g := range d.groups {
		w.Add(&name, &g.groupPast)
		w.optional(g.single, g.last)
		w.optional(g.accused, g.culprit)
		w.series(g.Series)
	}
	w.Add(&d.exits)
	w.count(len(d.exits.List))
	for i := range d.exits.List {
		e := &d.exits.List[i]
		w.name(e.Key)
		w.Add(e)
	}
	return w.B
}

// reader reads what a domain is made of.
type reader[K comparable] struct {
	state.Reader
	d   *Domain[K]
	key func([]byte) (K, bool)
}

func (r *reader[K]) name() (K, bool) {
	var s string
	r.Read(&s)
	return r.key([]byte(s))
}

func (r *reader[K]) flag() (is bool) {
	r.Read(&is)
	return is
}

// optional reads what writer.optional has written. Who is unknown is not there.
func (r *reader[K]) optional() (k K, is bool) {
	if r.flag() {
		k, is = r.name()
	}
	return k, is
}

// count returns the numbers up to one that is read, for as long as there is no error.
func (r *reader[K]) count(most int) func(func(int) bool) {
	n := 0
	if r.Read(&n); n < 0 || n > most {
		r.Fail()
	}
	return func(yield func(int) bool) {
		for i := 0; i < n && r.Err == nil && yield(i); i++ {
		}
	}
}

// configured gives a series that was read the configuration of its subject.
func (r *reader[K]) configured(s *series.Series, subject Subject[K]) *series.Series {
	s.Configure(r.d.configOf(subject))
	return s
}

func (r *reader[K]) series(subject Subject[K]) *series.Series {
	if !r.flag() {
		return nil
	}
	s := &series.Series{}
	r.Read(s)
	return r.configured(s, subject)
}

func (r *reader[K]) member() (k K, m *member, known bool) {
	k, known = r.name()
	m = &member{Series: &series.Series{}}
	r.Read(&m.group, m.Series, &m.memberPast)
	r.configured(m.Series, Subject[K]{Kind: KindMember, Key: k, Group: m.group.pod()})
	return k, m, known
}

// Restore replaces the history by one that Save wrote. key reads the name of a
// member and reports false for one that is not to be restored, as after a reboot,
// when its number may be another's. On an error the domain is as new. Windows that
// are configured otherwise now start empty.
func (d *Domain[K]) Restore(b []byte, key func([]byte) (K, bool)) error {
	d.clear()
	if err := d.restore(b, key); err != nil {
		d.past.Resets = [NumReasons]uint64{}
		d.clear()
		return fmt.Errorf("restoring the detector: %w", err)
	}
	return nil
}

func (d *Domain[K]) restore(b []byte, key func([]byte) (K, bool)) error {
	if len(b) == 0 || b[0] != stateVersion && b[0] != oldVersion {
		return fmt.Errorf("%w of version %d or %d", state.Err, oldVersion, stateVersion)
	}
	r := reader[K]{state.Reader{B: b[1:], Last: math.MaxInt64, Old: b[0] == oldVersion}, d, key}
	if r.Old {
		r.readOld()
	} else {
		r.read()
	}
	if d.past.Attributed && d.residual == nil || len(r.B) > 0 {
		r.Fail()
	}
	return r.Err
}

// read reads what Save has written.
func (r *reader[K]) read() {
	d := r.d
	r.Read(&d.past)
	r.Last = d.past.Last
	d.used = r.series(Subject[K]{Kind: KindDevice})
	d.residual = r.series(Subject[K]{Kind: KindResidual})
	d.resting = r.series(Subject[K]{Kind: KindResidual})
	for range r.count(MaxMembers) {
		if k, m, known := r.member(); known {
			d.members[k] = m
		}
	}
	for range r.count(maxMissing) {
		x := missing[K]{}
		known := false
		x.key, x.member, known = r.member()
		if r.Read(&x.since, &x.rest); known {
			d.missing = append(d.missing, x)
		}
	}
	for range r.count(MaxGroups) {
		name, g := groupName{}, &group[K]{}
		r.Read(&name, &g.groupPast)
		g.last, g.single = r.optional()
		g.culprit, g.accused = r.optional()
		g.key = g.last
		g.Series = r.series(g.subject(name))
		d.groups[name] = g
	}
	r.Read(&d.exits)
	r.exits()
}

func (r *reader[K]) exits() {
	staying := 0
	for range r.count(process.MaxExits) {
		e, known := process.Exit[K]{}, false
		e.Key, known = r.name()
		if r.Read(&e); known {
			r.d.exits.List = append(r.d.exits.List, e)
		}
		if e.Stays {
			staying++
		}
	}
	if staying > MaxUnreleased {
		r.Fail()
	}
}

// Check reports whether the past can be one: see state.Checker.
func (p *past) Check(time.Duration) bool {
	for _, delta := range p.Deltas {
		if delta < 0 || delta > math.MaxInt64/4 {
			return false
		}
	}
	return p.Last >= 0 && p.Last < math.MaxInt64/2 && p.Frames >= 0 && p.Frames < math.MaxInt64/2 && p.AttributedAt <= p.Last
}

// Check is the same for what a member has beside its series.
func (p *memberPast) Check(time.Duration) bool { return p.Held.V >= 0 && p.Held.V <= MaxBytes }
