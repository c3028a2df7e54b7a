// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// This file reads the state of the release before, once: a leak that is on goes on over the
// upgrade. It is to be deleted with the next release, and with it state.Reader.Old and
// series.Series.Rejudge.
//
// Everything is carried over but what this release does not have: what followed the cycles and
// medians of a series, what a growth was made of, and the lives of a crash loop that is none yet. A
// leak that only those showed is judged anew.
const oldVersion = 13

// Troughs had a resolution, and times since the first sample.
const (
	oldUnit = 64 << 10
	oldTick = 100 * time.Millisecond
)

// readOld reads what the release before has saved.
func (r *reader[K]) readOld() {
	d, p := r.d, &r.d.past
	r.Read(&p.Last)
	r.Last = p.Last
	r.Read(&p.Frames, &p.Deltas, &p.Attributed, &p.AttributedAt, &p.Top, &p.Crest.Head, &p.Crest.Len, &p.Crest.Slots,
		&p.Reached, &p.Reaching, &p.LeftAt, &p.Fullness, &d.exits, &p.Crowd, &p.Resets)
	r.Check(p, &p.Crest)
	d.used = r.oldSeries(Subject[K]{Kind: KindDevice})
	d.residual = r.oldSeries(Subject[K]{Kind: KindResidual})
	d.resting = r.oldSeries(Subject[K]{Kind: KindResidual})
	for range r.count(MaxMembers) {
		if k, m, known := r.oldMember(); known {
			d.members[k] = m
		}
	}
	for range r.count(maxMissing) {
		x, known := missing[K]{}, false
		x.key, x.member, known = r.oldMember()
		if r.Read(&x.since, &x.rest); known {
			d.missing = append(d.missing, x)
		}
	}
	for range r.count(MaxGroups) {
		name, g := groupName{}, &group[K]{}
		r.Read(&name)
		r.oldGroup(&g.groupPast)
		g.last, g.single = r.optional()
		g.culprit, g.accused = r.optional()
		g.key = g.last
		g.Series = r.oldSeries(g.subject(name))
		d.groups[name] = g
	}
	r.exits()
}

func (r *reader[K]) oldMember() (k K, m *member, known bool) {
	k, known = r.name()
	m = &member{Series: r.oldValues()}
	var room struct {
		OK bool
		V  float64
	}
	r.Read(&m.Seen, &m.Place, &m.group, &m.Program, &m.Held.OK, &m.Held.V, &m.Full, &room)
	m.Company = r.bytes()
	r.Read(&m.Activity, &m.Flushing)
	r.Check(&m.memberPast)
	r.rejudge(m.Series, Subject[K]{Kind: KindMember, Key: k, Group: m.group.pod()})
	return k, m, known
}

// oldGroup reads what a group had beside its series. A crash loop is made of its last lives.
func (r *reader[K]) oldGroup(g *groupPast) {
	r.Read(&g.Seen, &g.Ended, &g.Pool.N, &g.Pool.Oldest)
	r.Check(&g.Pool)
	for i := range min(g.Pool.N, len(g.Pool.Workers)) {
		r.Read(&g.Pool.Workers[i])
	}
	n, proof := 0, 0
	r.Read(&n)
	var lives [len(g.Loop.Lives)]series.Life // newest first
	for i := range min(max(n, 0), len(lives)) {
		l, ahead, uneven := &lives[i], int64(0), false
		r.Read(&l.From, &l.To, &l.Onset, &l.Base, &l.Lasted, &ahead, &l.Trend, &uneven)
	}
	var longest, look time.Duration
	var streaks [9]int64
	var since, noted time.Duration
	var spared, paused bool
	r.Read(&longest, &streaks, &proof, &since, &spared, &paused, &noted, &look)
	for i := min(proof, n, len(lives)) - 1; i >= 0 && r.Err == nil; i-- {
		g.Loop.Add(&lives[i])
	}
	if g.Loop.N > 0 {
		g.Loop.Since, g.Loop.Paused, g.Loop.Proven = since, paused, true
	}
	g.Loop.Noted = noted
	r.Read(&g.Most, &g.Busiest, &g.Vacant)
	g.Largest, g.Second = r.bytes(), r.bytes()
	r.Check(&g.Loop)
}

// bytes reads an amount of memory that was written as a float.
func (r *reader[K]) bytes() stat.Bytes {
	v := 0.0
	r.Read(&v)
	return stat.Bytes(max(0, min(v, MaxBytes)))
}

func (r *reader[K]) oldSeries(subject Subject[K]) *series.Series {
	if !r.flag() {
		return nil
	}
	s := r.oldValues()
	s.Loadless = subject.Kind == KindResidual
	r.rejudge(s, subject)
	return s
}

// rejudge configures a series that was read and finds the growth in it.
func (r *reader[K]) rejudge(s *series.Series, subject Subject[K]) {
	for i := range s.Scales {
		r.Check(&s.Scales[i])
	}
	r.Check(s, &s.Spikes, &s.Cycles, &s.Leak, &s.Shape)
	whole := r.d.used
	if whole == nil {
		whole = s
	}
	s.Left = s.Capacity - whole.Used
	if r.Err == nil {
		r.configured(s, subject).Rejudge()
	}
}

// oldValues reads a series. Beside the scales of the ladder there were one whose blocks are the
// cycles of the series and one of their medians: of the first the last trough is the end of the last
// cycle.
func (r *reader[K]) oldValues() *series.Series {
	s := &series.Series{}
	for range r.count(series.MaxWindows) {
		s.Windows = append(s.Windows, r.oldWindow())
	}
	p := &s.Spikes
	r.Read(&p.Next, &p.Len, &p.Slots, &p.Active, &p.Base, &p.Peak, &p.Since, &p.Last, &p.Duty, &s.Total)
	for i := range s.Scales {
		r.oldScale(&s.Scales[i])
	}
	var cycles, medians series.Scale
	r.oldScale(&cycles)
	r.oldScale(&medians)
	end := r.oldCycles(&s.Cycles)
	r.oldMedians()
	r.oldLeak(&s.Leak)
	var seen, busy, known bool
	var idleAt, gap, anew, doubted, gapLength int64
	var effort [2]float64
	r.Read(&s.Shape, &seen, &s.Samples, &s.Began, &s.First, &s.Last, &idleAt, &s.BusyAt, &s.WorkedAt, &gap,
		&anew, &doubted, &gapLength, &s.Used)
	s.Capacity = r.bytes()
	r.Read(&s.Idle, &known, &busy, &effort)
	for i := range s.Scales {
		absolute(&s.Scales[i], s.First)
	}
	absolute(&cycles, s.First)
	if c := &s.Cycles; cycles.Len > 0 && end > 0 {
		c.Low.At = s.First + c.Low.At*oldTick
		c.N, c.Ended = cycles.Closed, stat.Point{At: s.First + end*oldTick, V: cycles.Troughs[cycles.Len-1].V}
	}
	return s
}

// oldWindow reads a window. Its blocks had whole sums of 128 bits, about their begin and first value.
func (r *reader[K]) oldWindow() (w stat.Window) {
	r.Read(&w.Span)
	for i := range r.count(len(w.Blocks)) {
		b := &w.Blocks[i]
		var y0 stat.Bytes
		var sums [5]struct {
			High int64
			Low  uint64
		}
		var covered int64 // ms
		r.Read(&b.N, &b.From, &y0, &sums, &covered, &b.Spikes)
		var s [5]float64 // of x, y, xx, xy and yy, in seconds and bytes
		for i, unit := range [...]float64{1e-9, 1, 1e-18, 1e-9, 1} {
			s[i] = math.FMA(float64(sums[i].High), 1<<64, float64(sums[i].Low)) * unit
		}
		n := float64(max(b.N, 1))
		b.X, b.Y = s[0]/n, float64(y0)+s[1]/n
		b.XX, b.XY, b.YY = max(0, s[2]-s[0]*s[0]/n), s[3]-s[0]*s[1]/n, max(0, s[4]-s[1]*s[1]/n)
		b.Covered = time.Duration(covered) * time.Millisecond
		if r.Check(b); i > 0 {
			w.Closed.Merge(&w.Blocks[i-1].Moments)
			w.Closed.Covered += w.Blocks[i-1].Covered
			w.Closed.Spikes += w.Blocks[i-1].Spikes
		}
		w.Len = i + 1
	}
	r.Check(&w)
	return w
}

// oldScale reads a scale, the times of its troughs in ticks and their values in units. The fortune of
// a bet that is as fair is bet on. What it said of its growth follows from the troughs.
func (r *reader[K]) oldScale(e *series.Scale) {
	var share, given float64
	r.Read(&e.Width, &share, &e.Least, &e.Start, &e.Until, &e.N, &e.Min)
	for i := range r.count(len(e.Troughs)) {
		r.Read(&e.Troughs[i])
		e.Len = i + 1
	}
	var onset [3]int64
	var walk struct {
		Base, Ups, Turns float64
		Last             int64
	}
	var maxima [3]float64
	var noise struct {
		Most   float64
		Falls  bool
		Change float64
	}
	var growth struct {
		Levels     int64
		Respects   [9]float64
		Held       [2]int64
		Step       float64
		Times      [4]int64
		Fitted, On bool
	}
	r.Read(&e.Closed, &e.Moves, &e.Level, &e.MovedAt, &e.MovedBlock, &e.Run, &onset, &e.Bet.Runs, &walk, &maxima, &given, &noise, &growth)
	e.Given = given * oldUnit
	e.Bet.Wealth = min(walk.Base*(walk.Ups+walk.Turns)/2, 1e60)
}

// absolute gives a scale times and bytes for ticks since the first sample and units.
func absolute(e *series.Scale, first time.Duration) {
	for i := range e.Troughs[:e.Len] {
		p := &e.Troughs[i]
		p.At, p.V = first+p.At*oldTick, p.V*oldUnit
	}
	e.MovedAt, e.Run.LowAt = first+e.MovedAt*oldTick, first+e.Run.LowAt*oldTick
	e.Level, e.Run.Low, e.Run.High = e.Level*oldUnit, e.Run.Low*oldUnit, e.Run.High*oldUnit
}

// oldCycles reads cycles and returns when the last one ended, in ticks.
func (r *reader[K]) oldCycles(c *series.Cycles) (end time.Duration) {
	var fell int64
	var length, varies float64
	r.Read(&c.Falling, &c.Low, &c.High, &c.Size, &fell, &end, &length, &varies)
	c.Low.V, c.High, c.Size = c.Low.V*oldUnit, c.High*oldUnit, c.Size*oldUnit
	c.Length = time.Duration(length * float64(oldTick))
	return end
}

// oldMedians reads what followed the shape of the cycles, and leaves it out.
func (r *reader[K]) oldMedians() {
	var head [3]int64 // of which the first says whether there is a shape
	var foot [2]float64
	var values [8]int64
	if r.Read(&head); head[0] > 0 {
		r.Read(&foot)
		for range 32 {
			var part, sum float64
			var n int64
			if r.Read(&part, &n); n > 0 {
				r.Read(&sum)
			}
		}
	}
	r.flag()
	for i := range r.count(len(values)) {
		r.Read(&values[i])
	}
}

func (r *reader[K]) oldLeak(l *series.Leak) {
	var on, plain, level, over bool
	var above, kept int64
	var rest [3]int64
	r.Read(&on, &plain, &l.Confidence, &l.Best, &above, &l.Since, &l.Grown, &l.Base, &l.High, &kept, &level,
		&l.Trend, &l.TrendScale, &l.TrendAt, &over, &rest)
	if !on {
		*l = series.Leak{Confidence: l.Confidence}
		return
	}
	l.Phase = series.PhaseLeaking
	if most := uint8(len(series.Series{}.Scales) - 1); l.Best > most || l.TrendScale > most {
		l.Best, l.TrendScale, l.TrendAt = 0, 0, -1
	}
}
