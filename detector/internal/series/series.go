// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package series judges one series of used memory: it takes the troughs of the memory at several
// widths of blocks, finds growth in them that goes on and is not given back, and calls it a leak
// where no harmless reason is left. It knows no processes. Exported fields are what a state file
// keeps.
package series

import (
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// These are chosen, not fitted.
const (
	// young is how old a series must be before it is judged, if min_span is not shorter: a program that loads looks like a leak.
	young = 5 * time.Minute
	// settleSamples is after how many samples the sampling interval is known.
	settleSamples = 6
	// gapIntervals is how many sampling intervals without a sample are a gap.
	gapIntervals = 3
	// busySM is the least utilisation that counts as work.
	busySM = 0.01
	// IdleAfter is how long a process must be without compute to be idle.
	IdleAfter = 10 * time.Minute
)

// Series judges one series of used memory. One goroutine owns it.
type Series struct {
	cfg      *Config
	poolless bool // of the last sample

	Windows []stat.Window // the last ones are not used
	Spikes  stat.Spikes
	Total   uint64 // spikes
	Scales  [numScales]Scale
	Growths [numScales]Growth // what each scale says
	Cycles  Cycles
	Steps   Steps
	Leak    Leak
	Shape   Shape

	Loadless bool // nobody computes with it: what no process owns, and what rests
	Idle     bool // utilisation is known, and is zero since BusyAt for IdleAfter
	Samples  int64
	Began    time.Duration // when its owner started; the first sample if that is not known
	First    time.Duration // first sample; 0 before it
	Last     time.Duration // last sample
	Used     stat.Bytes    // last value
	Capacity stat.Bytes    // 0 unknown
	Left     stat.Bytes    // of the memory that it is a part of
	Peak     stat.Bytes    // the highest sample
	Prior    Prior         // what its program gave back
	BusyAt   time.Duration // when its owner last computed, or that was not known; first sample if never
	WorkedAt time.Duration // when it was first known to compute; 0 never
}

// New returns an empty series of that configuration.
func New(cfg *Config) *Series {
	s := &Series{cfg: cfg, Windows: make([]stat.Window, len(cfg.Windows))}
	for i, span := range cfg.Windows {
		s.Windows[i] = stat.Window{Span: span}
	}
	s.climb(narrowest, blockSamples)
	return s
}

// Config returns the configuration.
func (s *Series) Config() *Config { return s.cfg }

// climb sets the widths of the ladder, evenly from the narrowest to the widest, and
// how many samples a narrowest block has at least. A wide one is made of narrow ones.
func (s *Series) climb(narrowest time.Duration, samples int) {
	step := max(coarsest, math.Pow(float64(widest)/float64(narrowest), 1.0/(numScales-1)))
	width := float64(narrowest)
	for i := range s.Scales {
		s.Scales[i] = Scale{Width: time.Duration(width), Least: 1}
		width *= step
	}
	s.Scales[0].Least = samples
}

// Configure gives s another configuration and keeps the history, but for windows
// of a length that it did not have.
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

// Sample is one value of a series and what is known beside it.
type Sample struct {
	T        time.Duration // later than all before it
	Used     stat.Bytes
	Interval time.Duration // typical time between samples
	Capacity stat.Bytes    // 0 unknown
	Left     stat.Bytes    // of the capacity
	Started  time.Duration // of the owner, 0 unknown
	SM       stat.Value
	Full     *Fullness // of the memory as a whole
	Prior    Prior     // what its program gave back before
	Poolless bool      // it is none that a pool keeps
}

// Prior is what the program of a series gave back before. The zero Prior is that of none.
type Prior struct {
	Ceiling float64 // bytes; 0 unknown
	Sure    bool    // they are enough for what grows above that to have no excuse
}

// Observe adds a sample.
func (s *Series) Observe(o *Sample) {
	s.poolless = o.Poolless
	if s.First == 0 {
		s.First, s.Began, s.BusyAt, s.Shape.Since = o.T, o.T, o.T, o.T
		if o.Started > 0 {
			s.Began = min(o.Started, o.T)
		}
	}
	s.count(o)
	if !o.SM.OK || o.SM.V > 0 {
		s.BusyAt = o.T
	}
	if s.WorkedAt == 0 && o.SM.OK && o.SM.V >= busySM {
		s.WorkedAt = o.T
	}
	s.Idle = o.SM.OK && o.T-s.BusyAt >= IdleAfter
	s.Last, s.Used, s.Capacity, s.Left, s.Prior = o.T, o.Used, o.Capacity, o.Left, o.Prior
	s.Peak = max(s.Peak, o.Used)
	s.Samples++
	if s.climbed(o) {
		s.decide(o.Full)
	}
}

// count adds the sample to the windows.
func (s *Series) count(o *Sample) {
	covered := time.Duration(0)
	if s.Last > 0 {
		covered = min(o.T-s.Last, gapIntervals*o.Interval)
	}
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

// climbed adds the sample to the ladder, judges anew the scales of which a block
// closed and reports whether there are any.
func (s *Series) climbed(o *Sample) bool {
	if s.Samples == settleSamples {
		samples := max(1, min(blockSamples, int(blockTime/max(o.Interval, 1))))
		if width := time.Duration(samples) * o.Interval; width > narrowest {
			s.climb(width, samples)
		}
	}
	s.Cycles.add(o.T, o.Used)
	low, closed := s.Scales[0].add(o.T, o.Used, o.Full)
	if !closed {
		return false
	}
	var changed [numScales]bool
	changed[0] = true
	for i := 1; i < numScales; i++ { // a wide block is made of narrow ones
		_, changed[i] = s.Scales[i].add(low.At, low.V, o.Full)
	}
	if i := s.minutes(); changed[i] {
		s.Steps.add(s.Scales[i].last(), stat.Bytes(max(s.cfg.MinGrowth, stepShare*float64(s.Capacity))))
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

// ripe reports whether the series was seen for long enough for a verdict. How old its
// owner is does not help: what it did before is not known.
func (s *Series) ripe() bool {
	return s.First > 0 && s.Last-s.First >= min(young, s.cfg.MinSpan) && s.Scales[0].Closed >= minLevels
}

// Leaks reports whether the series leaks, muted or not.
func (s *Series) Leaks() bool { return s.Leak.Phase == PhaseLeaking }

// Grown returns the bytes of the growth that is a leak, or is most like one; 0 where nothing grows.
func (s *Series) Grown() float64 {
	if s.Leaks() {
		return float64(s.Leak.High - s.Leak.Base)
	}
	return float64(s.Growths[s.Leak.Best].Retained)
}

// Trough returns the lower envelope now: while the memory goes in cycles, that is the end of the
// last one and not where the present one is.
func (s *Series) Trough() (stat.Bytes, bool) {
	trough, ok := s.Scales[0].envelope()
	if ok && s.Cycles.cycling(s.Last) {
		trough = min(trough, s.Cycles.Ended.V)
	}
	return trough, ok
}

// Judge fills v. What depends on the memory as a whole, its forecast, is left absent. What is muted
// goes on to be followed, so that a leak that was muted by mistake is there at once when it is not
// any more.
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
			v.wait(g.Reason, max(0, g.Lasted), g.Need-max(0, g.Lasted))
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
// so far, or that of the line which a leak follows if that is wider.
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
