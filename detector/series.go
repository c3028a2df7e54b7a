// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"slices"
	"time"
)

const (
	// settleSamples is after how many samples the sampling interval is known.
	settleSamples = 6
	// idleBytes and idleRatio (of the capacity) bound the memory of a GPU that
	// nobody uses; the larger one holds.
	idleBytes = 1 << 30
	idleRatio = 0.01
	// gapIntervals is how many sampling intervals without a sample are a gap.
	gapIntervals = 3
	// busySM is the least utilisation that counts as work.
	busySM = 0.01
)

// series judges one series of used memory.
type series struct {
	cfg     Config
	windows []window
	spikes  spikeCounter
	total   uint64 // spikes
	ladder  [numScales]scale
	growths [numScales]growth // what each scale says
	cycles  cycles
	levels  levels
	leak    leak
	shape   shape

	samples  int64
	began    int64 // when its owner started; the first sample if that is not known, ns
	first    int64 // first sample, ns
	last     int64 // last sample, ns
	used     int64 // last value, bytes
	capacity float64
	idleAt   int64 // when the memory was last as low as that of an idle GPU, ns; 0 never
	gap      gap   // the last one between samples
	busyAt   int64 // when its owner last computed, or that was not known, ns; first sample if never
	workedAt int64 // when it was first known to compute, ns; 0 never
	doubted  int64 // when plain growth that was called a leak turned out to be none last, here or in a part of it, ns; 0 never
	seen     bool  // a sample
	idle     bool  // utilisation is known, and is zero since busyAt for idleAfter
	loadless bool  // nobody computes with it: what no process owns, and what rests
	again    bool  // its owner is started again, where the one before died of a full memory that it had filled
	anew     int32 // when growth was last begun anew, ticks since the series began
	effort   effort
	whole    *series // of the memory that it is a part of; nil where there is none but its own
}

// memory returns the series of the memory that s is a part of.
func (s *series) memory() *series {
	if s.whole != nil {
		return s.whole
	}
	return s
}

// gap is a time without samples.
type gap struct {
	from, length int64 // ns
}

// watched returns for how long the series was watched from the time from to the time t, ns,
// as far as its last gap is concerned: nothing is known of that, and what was not seen neither
// grew nor paused. A block of samples, and so a growth, may end within a gap, or before it.
func (s *series) watched(from, t int64) int64 {
	begin, end := max(from, s.gap.from), min(t, s.gap.from+s.gap.length)
	return t - from - max(0, end-begin)
}

// effort tells whether memory grew while its owner computed.
type effort struct {
	known, busy bool // utilisation since the last block of the narrowest scale
	// What the present growth of that scale gained in blocks without and with
	// compute, in units.
	resting, working float64
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
	s.climb(ladderBase, blockSamples)
}

// climb sets the widths of the ladder, evenly from the narrowest to the widest, and
// how many samples a narrowest block has at least. A wide one is made of narrow ones.
func (s *series) climb(narrowest int64, samples int) {
	step := math.Pow(float64(ladderTop)/float64(narrowest), 1.0/(ladderScales-1))
	width, sum := float64(narrowest), 0.0
	for i := range levelScale {
		s.ladder[i] = scale{width: int64(width), least: 1, share: urgency(int64(width))}
		width *= max(step, coarsest)
	}
	for i := range ladderScales {
		sum += s.ladder[i].share
	}
	for i := range ladderScales {
		s.ladder[i].share *= (1 - cycleShare - levelShare) / sum
	}
	s.ladder[0].least, s.ladder[cycleScale].share = samples, cycleShare
	s.levels = levels{}
	s.ladder[levelScale] = scale{width: s.ladder[levelWidth].width, least: 1, share: levelShare}
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

// interrupt begins the growth anew: what was gained so far has a reason.
func (s *series) interrupt() {
	s.anew = ticks(s.last - s.first)
	for i := range s.ladder {
		if e := &s.ladder[i]; e.closed > 0 {
			e.begin(point{at: ticks(s.last - s.first), v: e.level})
			s.growths[i] = growth{}
		}
	}
}

// succeed begins the growth with a process that takes the place of another at time t:
// what leaked went with the one before, and its pattern.
func (s *series) succeed(t int64) {
	s.began, s.leak = t, leak{}
	if s.shape.pattern.leaks() {
		s.shape.update(s, t)
	}
}

// observation is one sample of a series and what is known beside it.
type observation struct {
	t, used  int64   // ns, bytes
	interval int64   // typical time between samples, ns
	capacity float64 // bytes, 0 unknown
	started  int64   // of the owner, ns, 0 unknown
	sm       Value
	whole    *series // of the memory that it is a part of; nil before the first frame's
	full     fullness
}

// observe adds a sample, later than all before it.
func (s *series) observe(o *observation) {
	if !s.seen {
		s.seen, s.first, s.began, s.busyAt, s.shape.since = true, o.t, o.t, o.t, o.t
		if o.started > 0 {
			s.began = min(o.started, o.t)
		}
	}
	s.count(o)
	if s.seen && s.last > 0 && o.t-s.last > gapIntervals*o.interval {
		s.gap = gap{from: s.last, length: o.t - s.last}
	}
	if o.sm.OK && o.sm.V > 0 || !o.sm.OK {
		s.busyAt = o.t
	}
	if s.workedAt == 0 && o.sm.OK && o.sm.V >= busySM {
		s.workedAt = o.t
	}
	s.idle = o.sm.OK && o.t-s.busyAt >= idleAfter
	s.effort.known = s.effort.known || o.sm.OK
	s.effort.busy = s.effort.busy || o.sm.OK && o.sm.V >= busySM
	s.last, s.used, s.capacity, s.whole = o.t, o.used, o.capacity, o.whole
	s.samples++
	if s.climbed(o) {
		s.decide(o)
	}
	if float64(o.used) <= idleLevel(o.capacity) {
		s.idleAt = o.t
	}
}

// count adds the sample to the windows.
func (s *series) count(o *observation) {
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
}

// climbed adds the sample to the ladder, judges anew the scales of which a block
// closed and reports whether there are any.
func (s *series) climbed(o *observation) bool {
	if s.samples == settleSamples {
		samples := max(1, min(blockSamples, blockTime/max(o.interval, 1)))
		if samples*o.interval > ladderBase {
			s.climb(samples*o.interval, int(samples))
		}
	}
	n := nature{
		began: int32(max((s.began-s.first)/tick, math.MinInt32/2)), rate: s.cfg.HighWaterRate,
		fullSince: -1, fullUntil: -1,
	}
	if f := &o.full; f.until > 0 && f.until >= s.first {
		n.fullSince, n.fullUntil = ticks(max(0, f.lately-s.first)), ticks(f.until-s.first)
	}
	closed := 0
	before := s.ladder[0].level
	if low, ok := s.ladder[0].add(o.t, o.used, s.first, n); ok {
		closed = 1
		s.effort.block(&s.ladder[0], before)
		for i := 1; i < ladderScales; i++ { // a wide block is made of narrow ones
			if _, ok := s.ladder[i].add(low.at, low.bytes, s.first, n); ok {
				closed |= 1 << i
			}
		}
		if s.follow(low, n) {
			closed |= 1 << levelScale
		}
	}
	fell := s.cycles.fell
	p, ok := s.cycles.add(ticks(o.t-s.first), units(o.used))
	if s.cycles.fell != fell {
		s.levels.season.turn(s.cycles.fell, &s.cycles, int32(s.ladder[0].width/tick))
	}
	if ok {
		c := &s.ladder[cycleScale]
		c.width = max(int64(s.cycles.length)*tick, ladderBase)
		c.close(p, n)
		closed |= 1 << cycleScale
	}
	for i := range s.ladder {
		if closed&(1<<i) != 0 {
			given := s.given(i)
			s.growths[i] = s.ladder[i].judge(s, given)
			if s.growths[i].confidence >= s.cfg.LeakThreshold {
				continue
			}
			if g := s.regress(i, given); g.confidence > s.growths[i].confidence {
				s.growths[i] = g
			}
		}
	}
	return closed != 0
}

// given returns the largest gradual rise in units that was given back at scale i or
// at a wider one, and for the level scale, while it follows what is above the cycles: there.
func (s *series) given(i int) float64 {
	width, most := s.ladder[i].width, s.ladder[i].given
	if i == levelScale && s.levels.inSeason {
		return max(most, s.levels.season.allowance(s.cycles.size))
	}
	for j := range levelScale {
		if w := &s.ladder[j]; w.width >= width {
			most = max(most, w.given)
		}
	}
	return most
}

// block notes whether the growth of the block that closed came with compute.
func (f *effort) block(e *scale, before uint32) {
	if e.run.ups == 0 {
		f.resting, f.working = 0, 0
	}
	if gained := float64(e.level) - float64(before); gained > 0 && f.known {
		if f.busy {
			f.working += gained
		} else {
			f.resting += gained
		}
	}
	f.known, f.busy = false, false
}

// idleLevel is the most memory in bytes that a GPU of that capacity has in use
// when nobody uses it.
func idleLevel(capacity float64) float64 { return max(idleBytes, idleRatio*capacity) }

// ripe reports whether the series was seen for long enough for a verdict. How old its
// owner is does not help: what it did before is not known.
func (s *series) ripe() bool {
	return s.seen && s.last-s.first >= int64(s.cfg.MinAge) && s.ladder[0].closed >= minLevels
}

// judged reports whether there is a verdict. What is muted goes on to be followed, so that
// a leak that was muted by mistake is there at once when it is not any more.
func (s *series) judged() bool { return s.ripe() && !s.cfg.Mute }

// verdict fills v. What depends on the domain, its forecast, is left absent.
func (s *series) verdict(v *Verdict) {
	*v = Verdict{SpikesTotal: s.total, Judged: s.judged(), Muted: s.cfg.Mute}
	for i := range s.windows {
		v.Windows[i] = s.windows[i].fit()
	}
	if trough, ok := s.trough(); ok {
		v.Trough = Of(float64(trough))
	}
	if !v.Judged {
		return
	}
	v.Confidence, v.Pattern = s.leak.confidence, s.shape.pattern
	v.Withheld, v.WithheldFor, v.Lasted = s.withheld()
	if !s.leak.on {
		return
	}
	v.Leak, v.Since = true, time.Duration(s.leak.since)
	v.Rate = Of(s.leak.trend.rate)
	v.Leaked = Of(float64(max(0, min(s.leak.kept, s.used)-s.leak.base)))
}

// trough returns the lower envelope now, in bytes: while the memory goes in cycles,
// that is the end of the last one and not where the present one is.
func (s *series) trough() (int64, bool) {
	trough, ok := s.ladder[0].envelope()
	if ok && s.cycling(s.last) {
		trough = min(trough, s.ladder[cycleScale].back(1).bytes())
	}
	return trough, ok
}
