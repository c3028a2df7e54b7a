// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package series judges one series of used memory: it takes the troughs of the memory at several
// widths of blocks and finds growth in them that is not given back. The growth is a leak
// if no harmless reason is left. Exported fields are those of a state file.
package series

import (
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// These are chosen, not fitted.
const (
	// young is the age at which a series is judged, if min_span is not shorter: a program that loads looks like a leak.
	young = 5 * time.Minute
	// settleSamples is the number of samples after which the sampling interval is known.
	settleSamples = 6
	// gapIntervals is the number of sampling intervals without a sample that are a gap.
	gapIntervals = 3
	// busySM is the least utilisation that counts as work.
	busySM = 0.01
	// IdleAfter is the time without compute after which a process is idle.
	IdleAfter = 10 * time.Minute
)

// Series judges one series of used memory. One goroutine owns it.
type Series struct {
	cfg *Config

	Windows []stat.Window
	Spikes  stat.Spikes
	Total   uint64 // spikes

	// Its owner is a process, or another one.
	Loadless bool          // it never computes: it is the residual
	Idle     bool          // utilisation is known, and is zero since BusyAt for IdleAfter
	Began    time.Duration // when it started; the first sample if that is not known
	BusyAt   time.Duration // when it computed last, or that was not known; first sample if never
	WorkedAt time.Duration // when it was first known to compute; 0 never

	Scales  [numScales]Scale
	Growths [numScales]Growth // of each scale
	Cycles  Cycles
	Steps   Steps
	Leak    Leak
	Shape   Shape

	// Of the samples.
	Samples  int64
	First    time.Duration // 0 before it
	Last     time.Duration
	Peak     stat.Bytes
	Used     stat.Bytes // in the last one, as all below
	Capacity stat.Bytes // 0 unknown
	Left     stat.Bytes // free in the memory as a whole
	Prior    Prior
	poolless bool
}

// New returns an empty series of that configuration.
func New(cfg *Config) *Series {
	s := &Series{}
	s.Configure(cfg)
	s.setWidths(narrowest, blockSamples)
	return s
}

// Config returns the configuration.
func (s *Series) Config() *Config { return s.cfg }

// setWidths sets the widths of the ladder, evenly from the narrowest to the widest, and
// the least number of samples in a narrowest block. A wide block is made of narrow ones.
func (s *Series) setWidths(narrowest time.Duration, samples int) {
	step := max(coarsest, math.Pow(float64(widest)/float64(narrowest), 1.0/(numScales-1)))
	width := float64(narrowest)
	for i := range s.Scales {
		s.Scales[i] = Scale{Width: time.Duration(width), Least: 1}
		width *= step
	}
	s.Scales[0].Least = samples
}

// Configure replaces the configuration and keeps the history. New windows are empty.
func (s *Series) Configure(cfg *Config) {
	s.cfg = cfg
	old := s.Windows
	s.Windows = make([]stat.Window, len(cfg.Windows))
	for i, span := range cfg.Windows {
		s.Windows[i] = stat.Window{Span: span}
		if at := slices.IndexFunc(old, func(w stat.Window) bool { return w.Span == span }); at >= 0 {
			s.Windows[i] = old[at]
		}
	}
}

// Sample is one value of a series.
type Sample struct {
	T        time.Duration // later than all before it
	Used     stat.Bytes
	Interval time.Duration // typical time between samples
	Capacity stat.Bytes    // 0 unknown
	Left     stat.Bytes    // free in the memory as a whole
	Started  time.Duration // of the owner, 0 unknown
	SM       stat.Value
	Full     *Fullness // of the memory as a whole
	Prior    Prior
	Poolless bool // the pool of an allocator is not in it
}

// Prior is the height that the program of a series gave back before. The zero Prior is that of an unknown program.
type Prior struct {
	Ceiling float64 // bytes; 0 unknown
	Sure    bool    // enough lives have shown it: growth above it has no excuse
}

// Observe adds a sample.
func (s *Series) Observe(o *Sample) {
	if s.First == 0 {
		s.First, s.Began, s.BusyAt, s.Shape.Since = o.T, o.T, o.T, o.T
		if o.Started > 0 {
			s.Began = min(o.Started, o.T)
		}
	}
	covered := time.Duration(0)
	if s.Last > 0 {
		covered = min(o.T-s.Last, gapIntervals*o.Interval)
	}
	s.count(o, covered)
	s.noteWork(o)
	s.Last, s.Used, s.Capacity, s.Left, s.Prior, s.poolless = o.T, o.Used, o.Capacity, o.Left, o.Prior, o.Poolless
	s.Peak = max(s.Peak, o.Used)
	s.Samples++
	if s.addToScales(o) {
		s.decide(o.Full)
	}
}

// noteWork adds the utilisation of a sample.
func (s *Series) noteWork(o *Sample) {
	if !o.SM.OK || o.SM.V > 0 {
		s.BusyAt = o.T
	}
	if s.WorkedAt == 0 && o.SM.OK && o.SM.V >= busySM {
		s.WorkedAt = o.T
	}
	s.Idle = o.SM.OK && o.T-s.BusyAt >= IdleAfter
}

// count adds a sample. covered is the time since the last one that is not a gap.
func (s *Series) count(o *Sample, covered time.Duration) {
	width := max(s.cfg.SpikeWidth, gapIntervals*o.Interval)
	height := max(s.cfg.SpikeHeight, s.cfg.SpikeRatio*float64(o.Capacity))
	ended := 0
	if s.Spikes.Add(o.T, o.Used, width, height) {
		ended = 1
		s.Total++
	}
	for i := range s.Windows {
		s.Windows[i].Add(o.T, o.Used, covered, ended)
	}
}

// addToScales adds the sample to the ladder, judges again the scales of which a block
// closed, and reports whether there are any.
func (s *Series) addToScales(o *Sample) bool {
	if s.Samples == settleSamples {
		samples := max(1, min(blockSamples, int(blockTime/max(o.Interval, 1))))
		if width := time.Duration(samples) * o.Interval; width > narrowest {
			s.setWidths(width, samples)
		}
	}
	s.Cycles.add(o.T, o.Used)
	low, closed := s.Scales[0].add(o.T, o.Used, o.Full)
	if !closed {
		return false
	}
	var changed [numScales]bool
	changed[0] = true
	for i := 1; i < numScales; i++ {
		_, changed[i] = s.Scales[i].add(low.At, low.V, o.Full)
	}
	if i := s.minutes(); changed[i] {
		s.Steps.add(s.Scales[i].Troughs.Last(), stat.Bytes(max(s.cfg.MinGrowth, stepShare*float64(s.Capacity))))
	}
	for i := range changed {
		if changed[i] {
			s.judge(i)
		}
	}
	return true
}

// minutes returns the narrowest scale whose blocks last for a minute or longer.
func (s *Series) minutes() int {
	return slices.IndexFunc(s.Scales[:], func(e Scale) bool { return e.Width >= time.Minute })
}

// rested reports whether it is known that the owner has not computed since that time.
func (s *Series) rested(since time.Duration) bool { return s.WorkedAt == 0 && s.BusyAt <= since }

// ripe reports whether the series was seen for long enough for a verdict. The age of its
// owner does not count.
func (s *Series) ripe() bool {
	return s.First > 0 && s.Last-s.First >= min(young, s.cfg.MinSpan) && s.Scales[0].Closed >= minLevels
}

// Leaks reports whether the series leaks, muted or not.
func (s *Series) Leaks() bool { return s.Leak.On }

// Grown returns the height of the leak, or of the growth that is most like one, in bytes; 0 where nothing grows.
func (s *Series) Grown() float64 {
	if s.Leaks() {
		return float64(s.Leak.High - s.Leak.Base)
	}
	return float64(s.Growths[s.Leak.Best].Retained)
}

// Trough returns the lower envelope now: in cycles it is the end of the last cycle.
func (s *Series) Trough() (stat.Bytes, bool) {
	trough, ok := s.Scales[0].envelope()
	if ok && s.Cycles.cycling(s.Last) {
		trough = min(trough, s.Cycles.Ended.V)
	}
	return trough, ok
}

// Judge fills v, but for the forecast, which depends on the memory as a whole. A muted series has statistics alone; its leak is
// there at once when it is not muted any more.
func (s *Series) Judge(v *Verdict) {
	*v = Verdict{SpikesTotal: s.Total, Judged: s.ripe() && !s.cfg.Mute, Muted: s.cfg.Mute}
	for i := range s.Windows {
		v.Windows[i] = s.Windows[i].Fit()
	}
	trough, ok := s.Trough()
	if ok {
		v.Trough = stat.Of(float64(trough))
	}
	if !v.Judged {
		return
	}
	l := &s.Leak
	v.Confidence, v.Pattern = l.Confidence, s.Shape.Pattern
	if !s.Leaks() {
		g := &s.Growths[l.Best]
		switch {
		case min(g.Form, g.Kept) < s.cfg.ClearThreshold():
		case g.Lasted < g.Need:
			v.wait(g.Reason, g.Lasted, g.Need-g.Lasted)
		case s.slows():
			v.wait(WithheldSlowing, g.Lasted, Forever)
		}
		return
	}
	v.Leak, v.Since = true, l.Since
	v.Rate = stat.Of(l.Trend.Rate)
	v.Leaked = stat.Of(float64(max(0, min(trough, s.Used)-l.Base)))
}

// Troughs returns the troughs of one scale from the time since on: of the narrowest that reaches back
// so far, or that of the fitted line of a leak if that is wider.
func (s *Series) Troughs(since time.Duration) []stat.Point {
	i := 0
	if s.Leaks() {
		i = int(s.Leak.TrendScale)
	}
	for i < numScales-1 && !s.Scales[i].holds(since) {
		i++
	}
	list := s.Scales[i].Troughs.Append(nil)
	for len(list) > 0 && list[0].At < since {
		list = list[1:]
	}
	return list
}

// Check implements state.Checker.
func (s *Series) Check(last time.Duration) bool {
	return len(s.Windows) <= MaxWindows && s.First <= s.Last && s.Last <= last
}
