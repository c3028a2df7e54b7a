// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

const (
	// MaxMembers bounds how many members of a domain are judged; the memory of
	// further ones still counts in the sums.
	MaxMembers = 1024
	// MaxGroups is the same for groups.
	MaxGroups = 256
	// absence is how long a member may be missing from incomplete lists before it
	// counts as gone, and a group may be without members.
	absence = int64(10 * time.Minute)
	// nearCapacity is the share of the capacity from which an exit may have been
	// an out-of-memory.
	nearCapacity = 0.95
	// intervalSamples is over how many frames the typical interval is the median.
	intervalSamples = 9
)

// ErrTime says that a frame is not later than the one before it.
var ErrTime = errors.New("time did not increase")

// Kind is what a series of a domain is about.
type Kind uint8

// The kinds of series.
const (
	KindDevice   Kind = iota // the used memory as a whole
	KindResidual             // used memory minus all members
	KindMember
	KindGroup
)

// Subject names a series of a domain.
type Subject[K comparable] struct {
	Kind  Kind
	Key   K      // of a member
	Group string // of a group, or of the member's
}

// Domain judges one memory: that of a GPU, or of a GPU instance of a MIG GPU.
// One goroutine owns it. Its memory is bounded by MaxMembers and MaxGroups, and
// Observe allocates only when a series is born.
type Domain[K comparable] struct {
	config   func(Subject[K]) Config
	last     int64 // time of the last frame, ns; 0 before the first
	frames   int
	deltas   [intervalSamples]int64
	used     *series
	residual *series
	members  map[K]*member
	groups   map[string]*group
	crest    Crest[int64]
	// attributed and attributedAt remember the last complete list: one that could
	// not be read is no reason to judge the device by other means for a frame.
	attributed   bool
	attributedAt int64
	// held is the highest confidence of what this frame does not tell the memory of.
	held  float64
	free  []*series
	out   Judgement[K]
	grown []grower
}

type member struct {
	*series
	seen int64 // last frame that listed it, ns
	used Value
	full bool // then the memory as a whole was near its capacity
}

type group struct {
	*series
	seen int64 // last frame with a member, ns
	// Of this frame: the sum of the members, how many they are, whether the memory
	// of one is not known, and whether one leaks.
	sum     float64
	members int
	unknown bool
	leaking bool
}

// grower is a leaking contributor of the frame.
type grower struct {
	g       *growth
	pattern Pattern
	since   int64
	leaked  float64
}

// NewDomain returns a Domain without history. config is asked once a series, at
// its birth; the error is that of the configuration it gives for the device.
func NewDomain[K comparable](config func(Subject[K]) Config) (*Domain[K], error) {
	if err := config(Subject[K]{Kind: KindDevice}).Validate(); err != nil {
		return nil, fmt.Errorf("detector configuration: %w", err)
	}
	d := &Domain[K]{config: config}
	d.clear()
	return d, nil
}

// clear forgets all series.
func (d *Domain[K]) clear() {
	d.used, d.residual = nil, nil
	d.members, d.groups = map[K]*member{}, map[string]*group{}
	d.crest = Crest[int64]{}
	d.attributed = false
	d.frames = 0
}

// Reset throws the history away, because it is not that of the memory any more,
// and counts the reason. The clock may start anew.
func (d *Domain[K]) Reset(r Reason) {
	d.clear()
	d.last = 0
	if r < NumReasons {
		d.out.Resets[r]++
	}
}

// Observe adds a frame and returns what is to be said after it. The error is
// ErrTime, wrapped; nothing has changed then.
func (d *Domain[K]) Observe(f *Frame[K]) (*Judgement[K], error) {
	t := int64(f.T)
	if t <= d.last {
		return nil, fmt.Errorf("frame at %s after %s: %w", f.T, time.Duration(d.last), ErrTime)
	}
	if d.last > 0 {
		d.deltas[d.frames%intervalSamples] = t - d.last
		d.frames++
	}
	d.last = t
	o := observation{t: t, interval: d.interval()}
	capacity, hasCapacity := bytesOf(f.Capacity)
	o.capacity = float64(capacity)
	d.out.T = f.T
	used, ok := bytesOf(f.Used)
	full := ok && hasCapacity && float64(used) >= nearCapacity*o.capacity
	d.exits(f)
	d.observeMembers(f, o, full)
	d.observeGroups(o)
	d.observeDevice(f, o)
	d.forecast(f, o.capacity, hasCapacity)
	return &d.out, nil
}

// bytesOf returns v as whole bytes; ok is false where it is absent or cannot be
// an amount of memory.
func bytesOf(v Value) (bytes int64, ok bool) {
	if !v.OK || !(v.V >= 0 && v.V <= MaxBytes) {
		return 0, false
	}
	return int64(math.Round(v.V)), true
}

// interval returns the median of the last times between frames in ns.
func (d *Domain[K]) interval() int64 {
	n := min(d.frames, intervalSamples)
	if n == 0 {
		return int64(time.Second)
	}
	sorted := d.deltas
	slices.Sort(sorted[:n])
	return sorted[n/2]
}

// newSeries returns an empty series, a used one if there is any.
func (d *Domain[K]) newSeries(subject Subject[K]) *series {
	cfg := d.config(subject)
	if cfg.Validate() != nil {
		cfg = d.config(Subject[K]{Kind: KindDevice}) // NewDomain has checked this one
	}
	if n := len(d.free); n > 0 {
		s := d.free[n-1]
		d.free = d.free[:n-1]
		s.reset(cfg)
		return s
	}
	return newSeries(cfg)
}

// release keeps a series that is not needed any more for the next newcomer.
func (d *Domain[K]) release(s *series) {
	if s != nil && len(d.free) < MaxMembers {
		d.free = append(d.free, s)
	}
}

// exits removes the members that are gone.
func (d *Domain[K]) exits(f *Frame[K]) {
	d.out.Exited = d.out.Exited[:0]
	t := int64(f.T)
	for i := range f.Members {
		if m := d.members[f.Members[i].Key]; m != nil {
			m.seen = t
		}
	}
	for key, m := range d.members {
		if m.seen == t || (!f.Complete && t-m.seen < absence) {
			continue
		}
		delete(d.members, key)
		d.release(m.series)
		d.out.Exited = append(d.out.Exited, Exit[K]{Key: key, Used: m.used, NearCapacity: m.full})
	}
}

// observeMembers adds the frame to the members' series and sums their groups.
// full says that the memory as a whole is near its capacity.
func (d *Domain[K]) observeMembers(f *Frame[K], o observation, full bool) {
	d.out.Members = d.out.Members[:0]
	d.grown, d.held = d.grown[:0], 0
	for _, g := range d.groups {
		g.sum, g.members, g.unknown, g.leaking = 0, 0, false, false
	}
	for i := range f.Members {
		in := &f.Members[i]
		d.out.Members = append(d.out.Members, MemberVerdict[K]{Key: in.Key})
		used, ok := bytesOf(in.Used)
		m := d.member(in)
		if m != nil && m.last == o.t {
			continue // listed twice
		}
		g := d.addToGroup(in.Group, used, ok, o.t)
		if m == nil {
			continue
		}
		m.seen, m.used, m.full = o.t, Value{V: float64(used), OK: ok}, full
		if !ok {
			continue
		}
		o.used, o.started, o.sm = used, int64(in.Started), in.SM
		out := &d.out.Members[i]
		m.observe(&o)
		m.verdict(&out.Verdict)
		d.grow(m.series, &out.Verdict)
		if g != nil && out.Leak {
			g.leaking = true
		}
	}
}

// member returns the member of that key, making it at first sight; nil beyond the
// bound.
func (d *Domain[K]) member(in *Member[K]) *member {
	m := d.members[in.Key]
	if m == nil && len(d.members) < MaxMembers {
		m = &member{series: d.newSeries(Subject[K]{Kind: KindMember, Key: in.Key, Group: in.Group})}
		d.members[in.Key] = m
	}
	return m
}

// grow notes a series that leaks as a contributor to the domain's leak.
func (d *Domain[K]) grow(s *series, v *Verdict) {
	if g := s.growing(); g != nil && v.Leak {
		d.grown = append(d.grown, grower{g: g, pattern: v.Pattern, since: s.since, leaked: v.Leaked.V})
	}
}

// addToGroup adds a member's memory to the sum of its group and returns the
// group; nil if it has none. Without the memory of one member there is no sum.
func (d *Domain[K]) addToGroup(name string, used int64, known bool, t int64) *group {
	if name == "" {
		return nil
	}
	g := d.groups[name]
	if g == nil {
		if len(d.groups) >= MaxGroups {
			return nil
		}
		g = &group{}
		d.groups[name] = g
	}
	g.seen = t
	g.sum += float64(used)
	g.members++
	g.unknown = g.unknown || !known
	return g
}

// observeGroups adds the sums to the series of the groups that have had two
// members at once.
func (d *Domain[K]) observeGroups(o observation) {
	d.out.Groups = d.out.Groups[:0]
	for name, g := range d.groups {
		if o.t-g.seen >= absence {
			d.release(g.series)
			delete(d.groups, name)
			continue
		}
		if g.series == nil && g.members >= 2 {
			g.series = d.newSeries(Subject[K]{Kind: KindGroup, Group: name})
		}
		if g.series == nil || g.members == 0 || g.unknown {
			continue
		}
		o.used, _ = bytesOf(Of(min(g.sum, MaxBytes)))
		g.observe(&o)
		out := GroupVerdict{Group: name, Used: g.sum}
		g.verdict(&out.Verdict)
		d.out.Groups = append(d.out.Groups, out)
		if !g.leaking {
			d.grow(g.series, &out.Verdict) // as a whole, over members that come and go
		}
	}
	slices.SortFunc(d.out.Groups, func(a, b GroupVerdict) int { return cmp.Compare(a.Group, b.Group) })
}

// observeDevice adds the frame to the raw and the residual series and composes
// the verdict on the device.
func (d *Domain[K]) observeDevice(f *Frame[K], o observation) {
	d.out.Device, d.out.Residual, d.out.Headroom = Verdict{}, Verdict{}, Value{}
	used, ok := bytesOf(f.Used)
	if !ok {
		return
	}
	if d.used == nil {
		d.used = d.newSeries(Subject[K]{Kind: KindDevice})
	}
	o.used = used
	d.used.observe(&o)
	d.used.verdict(&d.out.Device)
	if f.Complete {
		d.observeResidual(f, o)
		d.attributed, d.attributedAt = true, o.t
	} else {
		d.withoutList(o.t)
	}
	d.out.Attributed = d.attributed
	if d.attributed {
		d.compose()
		return
	}
	// The members are part of the raw series. Where it leaks, its growth counts;
	// where only some of them do, and others shrink, theirs does.
	if d.used.growing() != nil {
		d.grown = d.grown[:0]
		d.grow(d.used, &d.out.Device)
	} else if len(d.grown) > 0 {
		d.combine()
	}
}

// withoutList stands in for a complete list that this frame does not bring: for
// a while, what leaked when it was last seen still does.
func (d *Domain[K]) withoutList(t int64) {
	if !d.attributed {
		return
	}
	if t-d.attributedAt >= absence {
		d.attributed = false
		return
	}
	for _, m := range d.members {
		if m.last != t {
			d.growUnseen(m.series)
		}
	}
	d.growUnseen(d.residual)
}

// growUnseen notes a series that leaked when it was last seen.
func (d *Domain[K]) growUnseen(s *series) {
	var v Verdict
	s.verdict(&v)
	d.held = max(d.held, v.Confidence)
	d.grow(s, &v)
}

// observeResidual adds what no member accounts for.
func (d *Domain[K]) observeResidual(f *Frame[K], o observation) {
	if d.residual == nil {
		d.residual = d.newSeries(Subject[K]{Kind: KindResidual})
	}
	for i := range f.Members {
		used, _ := bytesOf(f.Members[i].Used)
		o.used -= used
	}
	o.used = max(o.used, 0) // the lists are read a moment apart from the memory
	d.residual.observe(&o)
	d.residual.verdict(&d.out.Residual)
	d.grow(d.residual, &d.out.Residual)
}

// compose replaces the judgement of the raw series by that of the members, the
// groups and the residual: a job that arrives is no leak of the GPU.
func (d *Domain[K]) compose() {
	v := &d.out.Device
	if !v.Judged {
		return
	}
	v.Confidence, v.Leak, v.Since = max(d.held, d.out.Residual.Confidence), false, 0
	v.Rate, v.Leaked = Value{}, Value{}
	if v.Pattern.leaks() {
		v.Pattern = PatternPlateau // the sum grows, and no part of it leaks
	}
	d.combine()
}

// combine adds what leaks to the verdict on the device.
func (d *Domain[K]) combine() {
	v := &d.out.Device
	if !v.Judged {
		return
	}
	for i := range d.out.Members {
		v.Confidence = max(v.Confidence, d.out.Members[i].Confidence)
	}
	for i := range d.out.Groups {
		v.Confidence = max(v.Confidence, d.out.Groups[i].Confidence)
	}
	var largest float64
	for i := range d.grown {
		c := &d.grown[i]
		if !v.Leak || c.since < int64(v.Since) {
			v.Since = time.Duration(c.since)
		}
		v.Leak = true
		v.Rate = Of(v.Rate.V + c.g.rate)
		v.Leaked = Of(v.Leaked.V + c.leaked)
		if c.g.rate > largest {
			largest, v.Pattern = c.g.rate, c.pattern
		}
	}
}

// forecast gives every verdict that contributes to the domain's leak the
// domain's time to out-of-memory, and +Inf to the others.
func (d *Domain[K]) forecast(f *Frame[K], capacity float64, hasCapacity bool) {
	used, ok := bytesOf(f.Used)
	if !ok {
		return
	}
	top := float64(d.crest.Add(f.T, crestSpan, used))
	if !hasCapacity {
		return
	}
	headroom := max(0, capacity-top)
	d.out.Headroom = Of(headroom)
	var sum drift
	for i := range d.grown {
		sum.add(d.grown[i].g)
	}
	eta, lower, upper := sum.secondsTo(headroom)
	d.out.Device.dies(eta, lower, upper)
	d.out.Residual.dies(eta, lower, upper)
	for i := range d.out.Members {
		m := &d.out.Members[i]
		m.dies(eta, lower, upper)
		if m.Leak && sum.rate > 0 {
			m.Share = Of(clamp(m.Rate.V / sum.rate))
		}
	}
	for i := range d.out.Groups {
		d.out.Groups[i].dies(eta, lower, upper)
	}
}

// dies sets the forecast: the domain's for who leaks, never for who does not.
func (v *Verdict) dies(eta, lower, upper float64) {
	switch {
	case !v.Judged:
	case v.Leak:
		v.SecondsToOOM, v.Lower, v.Upper = Of(eta), Of(lower), Of(upper)
	default:
		never := Of(math.Inf(1))
		v.SecondsToOOM, v.Lower, v.Upper = never, never, never
	}
}
