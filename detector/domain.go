// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package detector finds memory that leaks.
//
// A Domain takes Frames of one memory, in the order of time, and answers each
// with a Judgement: on the memory as a whole, on every process in it, on
// groups of processes, and on the residual, which belongs to no process. It knows no GPU,
// driver or metric, imports only the standard library, starts no goroutine and
// reads no clock: the same frames give the same judgements, at any speed.
//
// README.md explains the method and its limits.
package detector

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/heights"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

const (
	// MaxMembers bounds the members of a domain that are judged; the memory of
	// further ones still counts in the sums.
	MaxMembers = 1024
	// MaxGroups bounds its groups. Both are bounds of cost.
	MaxGroups = 256
	// nearCapacity is the share of the capacity from which on an exit may have been
	// an out-of-memory: it is chosen.
	nearCapacity = 0.95
	// intervalSamples is the number of frames of which the typical interval is the median.
	intervalSamples = 9
)

// ErrTime says that a frame is not later than the one before it.
var ErrTime = errors.New("time did not increase")

// Kind is the kind of a series of a domain.
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
// One goroutine owns it. Its memory is bounded by MaxMembers and MaxGroups.
type Domain[K comparable] struct {
	config func(Subject[K]) Config
	book   *heights.Book
	history[K]
	lastFrame[K]

	out      Judgement[K]
	judged   bool        // since the last frame
	total    sum         // of all parts
	programs []groupName // in a crash loop
}

// history is what Save keeps and Reset forgets.
type history[K comparable] struct {
	past     past
	used     *series.Series
	residual *series.Series
	resting  *series.Series // the sum of the members that have not computed for long
	members  map[K]*member
	groups   map[groupName]*group[K]
	exits    process.Exits[K]
}

// lastFrame is the last frame, with its list in order.
type lastFrame[K comparable] struct {
	present  []listing[K]
	removed  []K
	listed   bool       // the list was complete
	known    bool       // the used memory was known
	capacity stat.Bytes // 0 unknown
}

// past is the part of the history that is no series.
type past struct {
	Last     time.Duration // time of the last frame; 0 before the first
	Frames   int
	Deltas   [intervalSamples]time.Duration
	Crest    stat.Crest[stat.Bytes]
	Top      stat.Bytes    // the highest use in the crest
	LeftAt   time.Duration // when a process ended last that held crestExit of the crest; 0 never
	Fullness series.Fullness
	Listed   time.Duration // the last complete list; 0 none
	Resets   [NumReasons]uint64
	Heights  heights.Life   // of the memory as a whole
	Given    heights.Record // the heights that it gave back
	Paged    bool           // the last judgement was a page
}

// attributed reports whether the device is judged through its members: lists that cannot be read for a while change nothing.
func (p *past) attributed() bool { return p.Listed > 0 && p.Last-p.Listed < process.Absence }

// listing is an entry of the list of a frame.
type listing[K comparable] struct {
	key    K
	member *member // nil beyond MaxMembers, and for the second entry of a key
	group  *group[K]
	known  bool // its memory is known
	twice  bool // it is the second entry of its key
}

// NewDomain returns a Domain without history. It calls config once for each new series. The error is that of the
// configuration of the device.
func NewDomain[K comparable](config func(Subject[K]) Config) (*Domain[K], error) {
	if err := config(Subject[K]{Kind: KindDevice}).Validate(); err != nil {
		return nil, fmt.Errorf("detector configuration: %w", err)
	}
	d := &Domain[K]{config: config, book: heights.NewBook()}
	d.clear()
	return d, nil
}

// clear removes the history, but for the counts of resets.
func (d *Domain[K]) clear() {
	d.history = history[K]{past: past{Resets: d.past.Resets}, members: map[K]*member{}, groups: map[groupName]*group[K]{}}
	d.lastFrame = lastFrame[K]{}
}

// Reset removes the history and counts the reason. The clock may restart.
func (d *Domain[K]) Reset(r Reason) {
	d.clear()
	d.out.Exited = d.out.Exited[:0]
	if r < NumReasons {
		d.past.Resets[r]++
	}
}

// Observe adds a frame. The error is ErrTime, wrapped; nothing has changed then.
// It allocates only where a series is new or its history grows. Judgement gives the verdicts.
func (d *Domain[K]) Observe(f *Frame[K]) error {
	p := &d.past
	if f.T <= p.Last {
		return fmt.Errorf("frame %s before the last one: %w", p.Last-f.T, ErrTime)
	}
	if p.Last > 0 {
		p.Deltas[p.Frames%intervalSamples] = f.T - p.Last
		p.Frames++
	}
	p.Last = f.T
	d.capacity, _ = bytesOf(f.Capacity)
	used, ok := bytesOf(f.Used)
	o := series.Sample{T: f.T, Interval: d.interval(), Capacity: d.capacity, Left: d.capacity, Full: &p.Fullness}
	if ok {
		p.Fullness.Note(f.T, used, d.capacity)
		o.Left -= used
	} else if d.used != nil {
		o.Left -= d.used.Used
	}
	d.removeMembers(f, o.Interval)
	d.observeMembers(f, o, ok && d.capacity > 0 && float64(o.Left) <= (1-nearCapacity)*float64(d.capacity))
	d.observeResting(f, o)
	d.observeGroups(o)
	if d.listed, d.known = f.Complete, ok; ok {
		d.observeDevice(f, o, used)
	}
	return nil
}

// bytesOf returns v as whole bytes; ok is false where it is absent or no amount of memory.
func bytesOf(v Value) (bytes stat.Bytes, ok bool) {
	if !v.OK || !(v.V >= 0 && v.V <= MaxBytes) {
		return 0, false
	}
	return stat.Bytes(math.Round(v.V)), true
}

// interval returns the median of the last times between frames.
func (d *Domain[K]) interval() time.Duration {
	n := min(d.past.Frames, intervalSamples)
	if n == 0 {
		return time.Second
	}
	sorted := d.past.Deltas
	slices.Sort(sorted[:n])
	return sorted[n/2]
}

// configOf returns the configuration of a subject. If that is not valid, it returns that of the device, which NewDomain has
// checked.
func (d *Domain[K]) configOf(subject Subject[K]) *Config {
	cfg := d.config(subject)
	if cfg.Validate() != nil {
		cfg = d.config(Subject[K]{Kind: KindDevice})
	}
	return &cfg
}

func (d *Domain[K]) newSeries(subject Subject[K]) *series.Series {
	s := series.New(d.configOf(subject))
	s.Loadless = subject.Kind == KindResidual
	return s
}

// Reconfigure asks for the configuration of every series again. The history stays. Windows of another length start empty.
func (d *Domain[K]) Reconfigure() {
	again := func(subject Subject[K], list ...*series.Series) {
		for _, s := range list {
			if s != nil {
				s.Configure(d.configOf(subject))
			}
		}
	}
	again(Subject[K]{Kind: KindDevice}, d.used)
	again(Subject[K]{Kind: KindResidual}, d.residual, d.resting)
	for key, m := range d.members {
		again(Subject[K]{Kind: KindMember, Key: key, Group: m.Group.pod()}, m.Series, m.Live, m.Untracked)
	}
	for name, g := range d.groups {
		// Between two processes of a program there is none to ask for.
		if g.Series != nil && (!name.Program || g.Config() == nil || d.Knows(g.key)) {
			again(g.subject(name), g.Series)
		}
	}
}

// observeDevice adds the frame to the raw series and to the residual.
func (d *Domain[K]) observeDevice(f *Frame[K], o series.Sample, used stat.Bytes) {
	p := &d.past
	if d.used == nil {
		d.used = d.newSeries(Subject[K]{Kind: KindDevice})
	}
	// A driver takes seconds to free the memory of a large process.
	freeing := p.LeftAt > 0 && o.T-p.LeftAt < max(process.ReleaseGrace, 3*o.Interval) && used < d.used.Used
	o.Used = used
	p.Fullness.Unlisted = !f.Complete && len(f.Members) == 0
	d.used.Observe(&o)
	p.Fullness.Unlisted = false
	if p.Heights.Note(o.T, float64(used), fullness(&o)) {
		p.Heights.Learn(o.T, &p.Given, heights.Full*float64(o.Capacity), false)
	}
	if freeing || float64(used) <= series.IdleLevel(o.Capacity) {
		p.Crest = stat.Crest[stat.Bytes]{}
	}
	p.Top = p.Crest.Add(f.T, crestSpan, used)
	if !f.Complete {
		return
	}
	p.Listed = o.T
	if d.residual == nil {
		d.residual = d.newSeries(Subject[K]{Kind: KindResidual})
	}
	for i := range f.Members {
		if member, _ := bytesOf(f.Members[i].Used); !d.present[i].twice {
			o.Used = max(o.Used-member, -MaxBytes)
		}
	}
	pace := 0.0
	if d.residual.Leaks() {
		pace = d.residual.Leak.Trend.Rate
	}
	d.exits.Observe(o.T, o.Interval, o.Used, pace, d.residual.Config())
	o.Used = max(o.Used, 0) // the list is read a moment apart from the memory
	d.residual.Observe(&o)
}

// observeResting adds to a series of its own the sum of the members that have not computed for series.IdleAfter: processes
// that are never reaped leak together while none of them grows. A member without utilisation is not resting. The series begins
// again each time, because resting processes may end soon: so its growth always waits as that of a program that has begun.
func (d *Domain[K]) observeResting(f *Frame[K], o series.Sample) {
	if !f.Complete {
		return
	}
	if d.resting == nil {
		d.resting = d.newSeries(Subject[K]{Kind: KindResidual})
	}
	for i := range d.present {
		if in := &d.present[i]; in.known && in.member != nil && in.member.Idle {
			o.Used += in.member.Used
		}
	}
	o.Used = min(o.Used, MaxBytes)
	d.resting.Began = o.T
	d.resting.Observe(&o)
}

// Trough is the lowest value V of a block of a series, in bytes, at the end of the block on the clock of Frame.T.
type Trough struct {
	At time.Duration
	V  float64
}

// Troughs appends to dst the troughs of a subject, oldest first, from the time since on: of the whole memory (KindDevice)
// or of a member (KindMember); other subjects have none. Their blocks have one width, the narrowest that reaches back to since, or
// that of the fitted line of a leak if that is wider: stat.MaxPoints at most. It is for drawings, and changes nothing.
func (d *Domain[K]) Troughs(dst []Trough, of Subject[K], since time.Duration) []Trough {
	var s *series.Series
	switch of.Kind {
	case KindDevice:
		s = d.used
	case KindMember:
		if m := d.members[of.Key]; m != nil {
			s = m.Series
		}
	case KindResidual, KindGroup:
	}
	if s == nil {
		return dst
	}
	for _, p := range s.Troughs(since) {
		dst = append(dst, Trough{p.At, float64(p.V)})
	}
	return dst
}
