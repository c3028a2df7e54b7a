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
// upgrade. It is to be deleted with the next release, and with it state.Codec.Old and
// series.Series.Rejudge.
//
// Everything is carried over but what this release does not have: what followed the cycles and
// medians of a series, what a growth was made of, and the lives of a crash loop that is none yet. A
// leak that only those showed is judged anew.
const oldVersion = 13

// Troughs had a resolution, and their times were counted in ticks from the first sample on.
const (
	oldUnit = 64 << 10
	oldTick = 1e8 // ns
)

// oldPast reads what a domain had beside its series.
func (c *codec[K]) oldPast() {
	p := &c.d.past
	c.Code(&p.Last)
	c.Last = p.Last
	c.Code(&p.Frames, &p.Deltas, &p.Attributed, &p.AttributedAt, &p.Top, &p.Crest.Head, &p.Crest.Len, &p.Crest.Slots,
		&p.Reached, &p.Reaching, &p.LeftAt, &p.Fullness, &c.d.exits, &p.Crowd, &p.Resets)
	c.Check(p, &p.Crest)
}

func (c *codec[K]) oldMember(m *member) {
	c.oldSeries(m.Series)
	var room struct {
		OK bool
		V  float64
	}
	c.Code(&m.Seen, &m.Place, &m.group, &m.Program, &m.Held.OK, &m.Held.V, &m.Full, &room)
	m.Company = c.bytes()
	c.Code(&m.Activity, &m.Flushing)
	c.Check(&m.memberPast)
}

// oldGroup reads what a group had beside its series. A crash loop is made of its last lives.
func (c *codec[K]) oldGroup(g *groupPast) {
	c.Code(&g.Seen, &g.Ended, &g.Pool.N, &g.Pool.Oldest)
	c.Check(&g.Pool)
	for i := range min(g.Pool.N, len(g.Pool.Workers)) {
		c.Code(&g.Pool.Workers[i])
	}
	n, proof := 0, 0
	c.Code(&n)
	var lives [len(g.Loop.Lives)]series.LifeGrowth // newest first
	for i := range min(max(n, 0), len(lives)) {
		l, ahead, uneven := &lives[i], int64(0), false
		c.Code(&l.From, &l.To, &l.Onset, &l.Base, &l.Lasted, &ahead, &l.Trend, &uneven)
	}
	var longest, look time.Duration
	var streaks [9]int64
	var since, noted time.Duration
	var spared, paused bool
	c.Code(&longest, &streaks, &proof, &since, &spared, &paused, &noted, &look)
	for i := min(proof, n, len(lives)) - 1; i >= 0 && c.Err == nil; i-- {
		g.Loop.Add(&lives[i], 0)
	}
	if g.Loop.N > 0 {
		g.Loop.Since, g.Loop.Paused, g.Loop.Proven = since, paused, true
	}
	g.Loop.Noted = noted
	c.Code(&g.Most, &g.Busiest, &g.Vacant)
	g.Largest, g.Second = c.bytes(), c.bytes()
	c.Check(&g.Loop)
}

// bytes reads an amount of memory that was written as a float.
func (c *codec[K]) bytes() stat.Bytes {
	v := 0.0
	c.Code(&v)
	return stat.Bytes(max(0, min(v, MaxBytes)))
}

// rejudge finds the growth in a series that was read.
func (c *codec[K]) rejudge(s *series.Series, subject Subject[K]) {
	if s.Loadless = subject.Kind == KindResidual; s == c.d.resting {
		s.Began = s.Last // see observeResting
	}
	if s.Left = s.Capacity; c.d.used != nil {
		s.Left -= c.d.used.Used
	}
	for i := range s.Scales {
		c.Check(&s.Scales[i])
	}
	if c.Check(s, &s.Spikes, &s.Cycles, &s.Leak, &s.Shape); c.Err == nil {
		s.Rejudge()
	}
}

// oldSeries reads a series. Beside the scales of the ladder there were one whose blocks are the
// cycles of the series and one of their medians: of the first the last trough is the end of the last
// cycle.
func (c *codec[K]) oldSeries(s *series.Series) {
	c.count(0, series.MaxWindows, func(int) { s.Windows = append(s.Windows, c.oldWindow()) })
	p := &s.Spikes
	c.Code(&p.Next, &p.Len, &p.Slots, &p.Active, &p.Base, &p.Peak, &p.Since, &p.Last, &p.Duty, &s.Total)
	for i := range s.Scales {
		c.oldScale(&s.Scales[i])
	}
	var cycles, medians series.Scale
	c.oldScale(&cycles)
	c.oldScale(&medians)
	end := c.oldCycles(&s.Cycles)
	c.oldMedians()
	c.oldLeak(&s.Leak)
	var seen, busy, known bool
	var idleAt, gap, anew, doubted, gapLength int64
	var effort [2]float64
	c.Code(&s.Shape, &seen, &s.Samples, &s.Began, &s.First, &s.Last, &idleAt, &s.BusyAt, &s.WorkedAt, &gap,
		&anew, &doubted, &gapLength, &s.Used)
	s.Capacity = c.bytes()
	c.Code(&s.Idle, &known, &busy, &effort)
	for i := range s.Scales {
		absolute(&s.Scales[i], s.First)
	}
	absolute(&cycles, s.First)
	if y := &s.Cycles; cycles.Troughs.Len() > 0 && end > 0 {
		y.Low.At = s.First + y.Low.At*oldTick
		y.N, y.Ended = cycles.Closed, stat.Point{At: s.First + end*oldTick, V: cycles.Troughs.Last().V}
	}
}

// oldWindow reads a window. Its blocks had whole sums of 128 bits, about their begin and first value.
func (c *codec[K]) oldWindow() stat.Window {
	var span time.Duration
	var blocks []stat.Block
	c.Code(&span)
	c.count(0, stat.MaxBlocks, func(int) {
		var b stat.Block
		var y0 stat.Bytes
		var sums [5]struct {
			High int64
			Low  uint64
		}
		var covered int64 // ms
		c.Code(&b.N, &b.From, &y0, &sums, &covered, &b.Spikes)
		var s [5]float64 // of x, y, xx, xy and yy, in seconds and bytes
		for i, unit := range [...]float64{1e-9, 1, 1e-18, 1e-9, 1} {
			s[i] = math.FMA(float64(sums[i].High), 1<<64, float64(sums[i].Low)) * unit
		}
		n := float64(max(b.N, 1))
		b.X, b.Y = s[0]/n, float64(y0)+s[1]/n
		b.XX, b.XY, b.YY = max(0, s[2]-s[0]*s[0]/n), s[3]-s[0]*s[1]/n, max(0, s[4]-s[1]*s[1]/n)
		b.Covered = time.Duration(covered) * time.Millisecond
		c.Check(&b)
		blocks = append(blocks, b)
	})
	if span < stat.MaxBlocks {
		c.Fail()
	}
	return stat.WindowOf(span, blocks)
}

// oldScale reads a scale, the times of its troughs in ticks and their values in units. The fortune of
// a bet that is as fair is bet on. What it said of its growth follows from the troughs.
func (c *codec[K]) oldScale(e *series.Scale) {
	var share, given float64
	c.Code(&e.Width, &share, &e.Least, &e.Start, &e.Until, &e.N, &e.Min)
	c.count(0, stat.MaxPoints, func(int) {
		var p stat.Point
		c.Code(&p)
		e.Troughs.Push(p)
	})
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
	c.Code(&e.Closed, &e.Moves, &e.Level, &e.MovedAt, &e.MovedBlock, &e.Run, &onset, &e.Bet.Runs, &walk, &maxima, &given, &noise, &growth)
	e.Given = given * oldUnit
	e.Bet.Wealth = min(walk.Base*(walk.Ups+walk.Turns)/2, 1e60)
}

// absolute gives a scale times and bytes for ticks since the first sample and units.
func absolute(e *series.Scale, first time.Duration) {
	pts := e.Troughs.Append(nil)
	for i := range pts {
		pts[i].At, pts[i].V = first+pts[i].At*oldTick, pts[i].V*oldUnit
	}
	e.Troughs = stat.PointsOf(pts...)
	e.MovedAt, e.Run.LowAt = first+e.MovedAt*oldTick, first+e.Run.LowAt*oldTick
	e.Level, e.Run.Low, e.Run.High = e.Level*oldUnit, e.Run.Low*oldUnit, e.Run.High*oldUnit
}

// oldCycles reads cycles and returns when the last one ended, in ticks.
func (c *codec[K]) oldCycles(y *series.Cycles) (end time.Duration) {
	var fell int64
	var length, varies float64
	c.Code(&y.Falling, &y.Low, &y.High, &y.Size, &fell, &end, &length, &varies)
	y.Low.V, y.High, y.Size = y.Low.V*oldUnit, y.High*oldUnit, y.Size*oldUnit
	y.Length = time.Duration(length * oldTick)
	return end
}

// oldMedians reads what followed the shape of the cycles, and leaves it out.
func (c *codec[K]) oldMedians() {
	var head [3]int64 // of which the first says whether there is a shape
	var foot [2]float64
	var values [8]int64
	if c.Code(&head); head[0] > 0 {
		c.Code(&foot)
		for range 32 {
			var part, sum float64
			var n int64
			if c.Code(&part, &n); n > 0 {
				c.Code(&sum)
			}
		}
	}
	var above bool
	c.Code(&above)
	c.count(0, len(values), func(i int) { c.Code(&values[i]) })
}

func (c *codec[K]) oldLeak(l *series.Leak) {
	var on, plain, level, over bool
	var above, kept int64
	var rest [3]int64
	c.Code(&on, &plain, &l.Confidence, &l.Best, &above, &l.Since, &l.Grown, &l.Base, &l.High, &kept, &level,
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
