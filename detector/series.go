// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"slices"
	"time"
)

const (
	// quantum is the least change of a trough in bytes that counts: NVML gives
	// process memory in units of 2 MiB.
	quantum = 2 << 20
	// patternHold is how long a pattern stays at least.
	patternHold = int64(time.Minute)
	// idleAfter is how long a process must be without compute to be idle.
	idleAfter = int64(10 * time.Minute)
	// warmupAge is until when growth counts as a warm-up.
	warmupAge = int64(30 * time.Minute)
	// busySpikes is how many spikes in the first window make them the pattern.
	busySpikes = 3
)

// series judges one series of used memory.
type series struct {
	cfg     Config
	windows []window
	spikes  spikeCounter
	ladder  [envelopeScales]envelope

	began   int64 // when its owner started, ns
	first   int64 // first sample, ns
	last    int64 // last sample, ns
	used    int64 // last value, bytes
	seen    bool
	growths [envelopeScales]growth
	best    int // the scale of the highest confidence

	total    uint64 // spikes
	leak     bool
	since    int64 // of the leak, ns
	base     int64 // retained level before it
	pattern  Pattern
	patterns int64 // since when pattern holds, ns
	busyAt   int64 // when it last computed, ns; first sample if never
	idle     bool  // utilisation is known, and is zero since busyAt
}

// newSeries returns an empty series of that configuration.
func newSeries(cfg Config) *series {
	s := &series{windows: make([]window, len(cfg.Windows))}
	s.reset(cfg)
	return s
}

// reset makes s as new, keeping its memory.
func (s *series) reset(cfg Config) {
	windows := s.windows
	if len(windows) != len(cfg.Windows) {
		windows = make([]window, len(cfg.Windows))
	}
	for i := range windows {
		windows[i] = window{span: int64(cfg.Windows[i])}
	}
	*s = series{cfg: cfg, windows: windows}
	width := envelopeBase
	for i := range s.ladder {
		s.ladder[i].width = width
		width *= envelopeGrowth
	}
}

// configure gives s another configuration and keeps the history, but for windows
// of a length that it did not have.
func (s *series) configure(cfg Config) {
	if !slices.Equal(cfg.Windows, s.cfg.Windows) {
		old := s.windows
		s.windows = make([]window, len(cfg.Windows))
		for i, span := range cfg.Windows {
			s.windows[i] = window{span: int64(span)}
			if at := slices.Index(s.cfg.Windows, span); at >= 0 {
				s.windows[i] = old[at]
			}
		}
	}
	s.cfg = cfg
}

// observation is one sample of a series and what is known beside it.
type observation struct {
	t, used  int64   // ns, bytes
	interval int64   // typical time between samples, ns
	capacity float64 // bytes, 0 unknown
	started  int64   // of the owner, ns, 0 unknown
	sm       Value
}

// observe adds a sample, later than all before it.
func (s *series) observe(o *observation) {
	if !s.seen {
		s.seen, s.first, s.began, s.busyAt, s.patterns = true, o.t, o.t, o.t, o.t
		if o.started > 0 {
			s.began = min(o.started, o.t)
		}
	}
	covered := int64(0)
	if s.last > 0 {
		covered = min(o.t-s.last, 3*o.interval)
	}
	width := max(int64(s.cfg.SpikeWidth), 3*o.interval)
	height := max(s.cfg.SpikeHeight, s.cfg.SpikeRatio*o.capacity)
	ended := 0
	if s.spikes.add(o.t, o.used, width, height) {
		ended = 1
		s.total++
	}
	for i := range s.windows {
		s.windows[i].add(o.t, o.used, covered, ended)
	}
	if o.sm.OK && o.sm.V > 0 || !o.sm.OK {
		s.busyAt = o.t
	}
	s.idle = o.sm.OK && o.t-s.busyAt >= idleAfter
	s.last, s.used = o.t, o.used
	s.envelopes(o)
}

// envelopes adds the sample to the ladder and judges anew where a block closed.
func (s *series) envelopes(o *observation) {
	closed := false
	for i := range s.ladder {
		e := &s.ladder[i]
		if e.add(o.t, o.used, quantum) {
			s.growths[i] = e.judge(o.t, s.began, &s.cfg)
			closed = true
		}
	}
	if closed {
		s.decide(o.t)
	}
}

// decide updates the leak and the pattern at time t.
func (s *series) decide(t int64) {
	s.best = 0
	for i := range s.growths {
		if s.growths[i].confidence > s.growths[s.best].confidence {
			s.best = i
		}
	}
	g := &s.growths[s.best]
	switch {
	case !s.judged():
		s.leak = false
	case !s.leak && g.confidence >= s.cfg.LeakThreshold:
		s.leak, s.since, s.base = true, g.since, g.base
	case s.leak && g.confidence < s.cfg.ClearThreshold:
		s.leak = false
	}
	if p := s.shape(t); p != s.pattern && (t-s.patterns >= patternHold || p.leaks() != s.pattern.leaks()) {
		s.pattern, s.patterns = p, t
	}
}

// leaks reports whether p is one of the leak_* patterns.
func (p Pattern) leaks() bool {
	return p == PatternLeakLinear || p == PatternLeakStaircase || p == PatternLeakCyclic
}

// judged reports whether the series was seen for long enough for a verdict. How
// old its owner is does not help: what it did before is not known.
func (s *series) judged() bool {
	return s.seen && !s.cfg.Mute && s.last-s.first >= int64(s.cfg.MinAge) && s.ladder[0].closed >= minLevels
}

// shape returns the pattern that fits at time t.
func (s *series) shape(t int64) Pattern {
	fine := &s.ladder[0]
	g := s.finest()
	switch {
	case !s.judged():
		return PatternUnknown
	case s.leak:
		return s.leakShape(g)
	case s.idle:
		return PatternIdle
	case s.windows[0].spikes >= busySpikes && s.spikes.duty < 0.5:
		return PatternSpikes
	case g != nil && g.recency > 0 && (g.shape == 0 || t-s.began < warmupAge):
		return PatternWarmup
	case fine.reversals >= 3 && fine.numMoves >= 6, s.spikes.duty >= 0.5:
		return PatternSawtooth
	case g != nil:
		return PatternPlateau
	case fine.depth > 1:
		return PatternStep
	}
	return PatternStable
}

// finest returns the growth of the narrowest scale that shows any, nil if none.
func (s *series) finest() *growth {
	for i := range s.growths {
		if s.growths[i].levels > 0 {
			return &s.growths[i]
		}
	}
	return nil
}

// leakShape names the leak that the best scale is surest of: cyclic where memory
// swings inside its blocks by much more than it retains a block, staircase where
// most blocks of the finest growth retain nothing.
func (s *series) leakShape(finest *growth) Pattern {
	best := &s.growths[s.best]
	switch {
	case float64(s.ladder[s.best].amplitude) >= 4*best.step():
		return PatternLeakCyclic
	case finest.flat >= 0.5 && finest.step() >= staircaseStep:
		return PatternLeakStaircase
	}
	return PatternLeakLinear
}

// growing returns the growth of the leak, nil without one. A leak always has
// one: its confidence is not below the clear threshold, so not 0.
func (s *series) growing() *growth {
	if !s.leak {
		return nil
	}
	return &s.growths[s.best]
}

// verdict fills v. What depends on the domain, its forecast, is left absent.
func (s *series) verdict(v *Verdict) {
	*v = Verdict{SpikesTotal: s.total, Judged: s.judged()}
	for i := range s.windows {
		v.Windows[i] = s.windows[i].fit()
	}
	trough, ok := s.ladder[0].trough()
	if ok {
		v.Trough = Of(float64(trough))
	}
	if !v.Judged {
		return
	}
	v.Confidence = s.growths[s.best].confidence
	v.Pattern = s.pattern
	g := s.growing()
	if g == nil {
		return
	}
	v.Leak, v.Since = true, time.Duration(s.since)
	v.Rate = Of(g.rate)
	v.Leaked = Of(math.Max(0, float64(trough-s.base)))
}
