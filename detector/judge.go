// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"slices"
	"time"
)

const (
	// minLevels is the fewest retained levels that can be a leak.
	minLevels = 4
	// gateConfidence is the confidence of a series that the nulls are just rejected
	// for and that nothing else speaks against: the default leak threshold.
	gateConfidence = 0.7
	// loadRate is a growth in bytes per second that programs reach when they load
	// and leaks seldom do: 512 MiB a minute. It must last twice as long.
	loadRate = 512 << 20 / 60.0
	// rampFill is how long growth takes to fill the whole capacity that is as fast as
	// ramps of load are. It must last rampTimes as long: ramps take minutes.
	rampFill  = int64(2 * time.Hour)
	rampTimes = 5 / 3.0
	// Growth in fewSteps of like size is that of jobs that come, growth in enoughSteps
	// is not.
	fewSteps    = 3.0
	enoughSteps = 5.0
	// jobStep is a step in units, 1 GiB, that a job brings and a leak seldom does.
	jobStep = 1024 * oneMiB
	// safely is how many times the largest give-back must be retained for growth not to
	// be the next one, and safelySoon if it has lasted for less than rampTimes MinSpan: one
	// tooth of ten minutes tells little of the height of the next one.
	safely     = 2.0
	safelySoon = 2.5
	// jobsRate is a growth in bytes per second, 384 MiB a minute, that several jobs make
	// which come one after another: its evenness is looked at in eighths.
	jobsRate = 384 << 20 / 60.0
	// idleLoadRate is a growth in bytes per second, from an idle memory on, that is
	// a load: 4 MiB/s.
	idleLoadRate = 4 << 20
	// settled is how long a series must be known, above idle, before its growth
	// begins, for its start to be no excuse. Teeth and ramps follow each other sooner in many a program.
	settled = int64(9 * time.Minute)
	// swellSpan is from when on growth that becomes faster may be a daily load.
	swellSpan = int64(2 * time.Hour)
	// Growth that is not found within slowSpan, or in slowBlocks of the narrowest blocks where
	// samples are minutes apart, and needs more than slowAhead to fill the
	// memory may be a daily load too: half a day of it fits into the memory, and it is
	// steepest 3.8 hours (24 h/2π) of that pace before the top. It must last for slowShare
	// of the time that it needs.
	slowSpan   = int64(20 * time.Minute)
	slowBlocks = 8
	slowAhead  = int64(4 * time.Hour)
	slowShare  = 0.8
	// Growth from the start on has the share unsettled of its confidence at first,
	// unsettledMost in the end. It must last for Config.SettleTime, or for
	// patienceShare of the time until it has filled the memory, but for a day at
	// most: what is slow may be watched for longer, and a load that follows the time
	// of day is slow. What has lasted for shortSettle, and for nearTimes the time that
	// is left, need not last longer: caches, epochs and models are made to end before
	// the memory is full.
	unsettled     = 0.4
	unsettledMost = 0.7
	patienceShare = 0.25
	shortSettle   = int64(20 * time.Minute)
	nearTimes     = 5.0
	day           = int64(24 * time.Hour)
	// Growth from the start on need last for plainSpan only if it is straight and would
	// take more than slowAhead to fill what is left: few loads and caches are that slow.
	// It is straight if each of its halves brought more than that share of what the other one did.
	// Who sets Config.SettleTime to more than plainSettle has caches for which this
	// would not hold.
	plainSpan   = int64(11 * time.Minute)
	plainSettle = time.Hour
	straight    = 0.9
	// doubtSpan is for how long nothing is plain in a memory where such growth was none: what
	// is deployed each day or each week comes again within it.
	doubtSpan = 7 * day
)

// growth is what one scale says about a leak.
type growth struct {
	confidence float64
	evidence   float64 // −log10 of the likelier null's probability
	levels     int
	retained   int64   // bytes since the growth began
	base       int64   // the level before it, bytes
	since, end int64   // first and last growth, ns
	gap        int64   // typical time between two moves, ns
	flat       float64 // share of the blocks that are kept without growth
	step       float64 // what a level adds to the one before on average, bytes
	points     int     // the last ones, over which it is steady
	fitted     bool    // it is a line, and its base the beginning of that
	plain      bool    // it needs no patience although it was there from the start
	// The factors of confidence.
	recency, pace, spread, steadiness, reversal, start float64
}

// judge looks for a leak in the troughs. given is the largest gradual rise in units
// that the series gave back, here or at a wider scale.
func (e *scale) judge(s *series, given float64) growth {
	r := &e.run
	retained := int64(e.level-min(r.low, e.level)) * unit
	if r.falling || float64(retained) < s.cfg.MinGrowth || int(r.ups) < minLevels-1 {
		return growth{}
	}
	var buffer [scaleBlocks]point
	pts := e.points(&buffer)
	if pts[0].at <= r.lowAt {
		pts = onset(pts, r.lowAt)
		r.onset = pts[0].at
	}
	for len(pts) > 1 && pts[0].at < r.onset {
		pts = pts[1:]
	}
	from, last := r.onset, pts[len(pts)-1]
	levels := kept(pts)
	span := int64(e.movedAt-from) * tick
	if levels < minLevels || span <= 0 {
		return growth{}
	}
	g := growth{
		levels: levels, retained: retained, base: int64(r.low) * unit,
		since: s.first + int64(from)*tick, end: s.first + int64(e.movedAt)*tick,
		pace: 1, gap: max(int64(e.movedAt-pts[0].at)*tick/int64(levels-1), e.width),
		flat: 1 - clamp(float64(levels-1)*float64(e.width)/float64(int64(e.movedAt-pts[0].at)*tick+e.width)),
		step: max(0, float64(last.bytes()-pts[0].bytes())) / float64(levels-1),
	}
	g.evidence = math.Log10(max(min(e.walk.wealth(), e.high.fortune), 1e-9))
	if g.evidence < 0 {
		return g
	}
	g.spread = spread(pts)
	var steady []point
	g.pace, g.steadiness, steady = steadiness(pts, int64(s.cfg.MinSpan))
	g.reversal = s.reversal(float64(retained/unit), given, span)
	gate := min(1, gateConfidence*max(0, g.evidence)/-math.Log10(e.share*s.cfg.FalseAlarm))
	rate := float64(steady[len(steady)-1].bytes()-steady[0].bytes()) / max(seconds(int64(steady[len(steady)-1].at-steady[0].at)*tick), 1)
	base := g.base
	if len(steady) < len(pts) {
		base = steady[0].bytes() // what was left out, such as a load, led there
	}
	g.start = s.startFactor(&g, pts, steady, rate, base)
	lasted := s.watched(g.since, g.end)
	if e != &s.ladder[cycleScale] {
		// Troughs stand at the end of their blocks: the last level is seen one and a half blocks after
		// it was reached, in the mean, and the first growth half a block after it began.
		lasted -= e.width
	}
	gate *= s.lasting(rate, lasted)
	g.confidence = gate * g.steadiness * (0.25 + 0.75*g.reversal) * g.start
	g.points = len(steady)
	return g
}

// reversal is 1 where so many times the largest give-back is retained that growth which
// has lasted for span, ns, is not the next one, and 0 where no more than that is. Both count
// in units.
func (s *series) reversal(retained, given float64, span int64) float64 {
	safe := safely
	if float64(span) < rampTimes*float64(s.cfg.MinSpan) {
		safe = safelySoon
	}
	return clamp((retained/max(given, 1) - 1) / (safe - 1))
}

// lasting is 1 where growth at that pace, in bytes per second, has lasted for as long as it
// must, and gateConfidence at most before. span is how long it has, ns.
func (s *series) lasting(rate float64, span int64) float64 {
	least, _ := s.least(rate)
	if span >= int64(least) {
		return 1
	}
	return gateConfidence * max(0, float64(span)) / least
}

// onset returns the troughs from the one on at which the growth that began at the
// time low got under way: the last one within a twentieth of it. What crept
// upwards before does not make the growth older.
func onset(pts []point, low int32) []point {
	for len(pts) > 1 && pts[0].at < low {
		pts = pts[1:]
	}
	first, last := pts[0].v, pts[len(pts)-1].v
	if last <= first {
		return pts
	}
	under := first + (last-first)/20
	for i := len(pts) - 1; i > 0; i-- {
		if pts[i].v <= under {
			return pts[i:]
		}
	}
	return pts
}

// kept counts the levels among the troughs that were reached and never given
// back.
func kept(pts []point) int {
	n, lowest := 0, uint32(math.MaxUint32)
	for _, p := range slices.Backward(pts) {
		if p.v+moveUnits <= lowest {
			lowest = p.v
			n++
		}
	}
	return n
}

// fresh is 1 while the last growth is less than 3 typical gaps ago, and falls to 0
// at twice that. ago is the time since then, ns.
func (g *growth) fresh(ago int64) float64 {
	return clamp(2 - float64(ago)/float64(3*g.gap))
}

// steadiness is 1 while growth goes on at the pace at which it began and falls
// to 0 as it slows down, which a warm-up and a cache that fills do and a leak
// does not. What grew otherwise before, such as the load of a model, is left out:
// up to half of the span. steady is the rest that is most even.
func steadiness(pts []point, least int64) (pacing, even float64, steady []point) {
	steady = pts
	if len(pts) < 4 {
		return 1, 1, steady
	}
	best := 0.0
	for _, skip := range [...]int{0, len(pts) / 8, len(pts) / 4, len(pts) * 3 / 8, len(pts) / 2} {
		rest := pts[skip:]
		if skip > 0 && (len(rest) < 8 || int64(rest[len(rest)-1].at-rest[0].at)*tick < least) {
			break
		}
		p, n := keeping(rest, slowed, held), parts(rest)
		e, holds := evenness(rest, n), p*spread(rest)
		pacing = max(pacing, p)
		if n > evenParts {
			holds *= e
		}
		even = max(even, holds)
		if holds*e > best {
			best, steady = holds*e, rest
		}
		if best == 1 {
			break
		}
	}
	return pacing, even, steady
}

// Growth of which the second half brought the share held of what the first half did has
// kept its pace, and one that brought but the share slowed has not.
const (
	slowed = 0.5
	held   = 0.75
)

// keeping is 1 where the second half brought the share full of what the first one did, or
// more, and falls to 0 where it brought the share none.
func keeping(pts []point, none, full float64) float64 {
	return clamp((pace(pts) - none) / (full - none))
}

// evenParts is in how many parts of the time growth must be even.
const evenParts = 4

// parts returns evenParts, and twice as many for growth at jobsRate or more.
func parts(pts []point) int32 {
	last := pts[len(pts)-1]
	if float64(last.bytes()-pts[0].bytes()) >= jobsRate*seconds(int64(last.at-pts[0].at)*tick) {
		return 2 * evenParts
	}
	return evenParts
}

// evenness is 1 where each of so many parts of the time holds two fifths of its
// share of the growth, and falls to 0 where one holds next to nothing: jobs that come
// in jumps, or one after another. It is 0 where nothing has grown.
func evenness(pts []point, parts int32) float64 {
	last := len(pts) - 1
	span, total := pts[last].at-pts[0].at, float64(pts[last].v)-float64(pts[0].v)
	if total <= 0 {
		return 0
	}
	least, i, from := 1.0, 1, float64(pts[0].v)
	for q := int32(1); q <= parts; q++ {
		at := pts[0].at + int32(int64(span)*int64(q)/int64(parts))
		for i < last && pts[i].at < at {
			i++
		}
		v := between(pts[i-1], pts[i], at)
		least = min(least, (v-from)/total)
		from = v
	}
	return clamp((least*float64(parts) - 0.08) / 0.32)
}

// between returns the level at a time on the line between two troughs: there may
// be a gap between them.
func between(a, b point, at int32) float64 {
	return float64(a.v) + (float64(b.v)-float64(a.v))*clamp(float64(at-a.at)/float64(b.at-a.at))
}

// spread is 1 where the growth came in five steps of like size or more, and falls to
// 0 as it came in three: jobs that come, however long their memory takes to settle.
// Of steps of more than jobStep, which jobs bring and leaks seldom, two more are
// asked for a doubling, and eleven at most.
func spread(pts []point) float64 { return enough(steps(pts)) }

// enough is spread for growth in n steps of a size in units.
func enough(n, size float64) float64 {
	most := enoughSteps
	if size > jobStep {
		most += 2 * min(math.Log2(size/jobStep), 3)
	}
	return clamp((n - fewSteps) / (most - fewSteps))
}

// steps returns the number of steps in which the troughs grew, and their size in
// units: the number is that of equal ones with the same self-normalised sum,
// (Σd)²/Σd², and the size that of the average byte's step, Σd²/Σd.
func steps(pts []point) (n, size float64) {
	sum := float64(pts[len(pts)-1].v) - float64(pts[0].v)
	squares := 0.0
	for i := 1; i < len(pts); i++ {
		d := float64(pts[i].v) - float64(pts[i-1].v)
		squares += d * d
	}
	return sum * sum / squares, squares / sum
}

// pace returns the growth in the second half of the troughs over that in the
// first, or as much more as chance allows for: 0.6 standard deviations.
func pace(pts []point) float64 {
	ratio, deviation := halves(pts)
	return ratio + 0.6*deviation
}

// halves returns the growth in the second half of the troughs over that in the first, and
// its standard deviation, which follows from how unequal the changes from block to block
// are. The ratio is 1 where the first half has not grown.
func halves(pts []point) (ratio, deviation float64) {
	h := len(pts) / 2
	early, varEarly := change(pts[:h+1])
	late, varLate := change(pts[h:])
	if len(pts)%2 == 0 {
		late *= float64(h) / float64(h-1)
	}
	if early <= 0 {
		return 1, 0
	}
	ratio = late / early
	return ratio, math.Sqrt(varLate+ratio*ratio*varEarly) / early
}

// change returns the change over the troughs and its variance.
func change(pts []point) (sum, variance float64) {
	var squares float64
	for i := 1; i < len(pts); i++ {
		d := float64(pts[i].v) - float64(pts[i-1].v)
		sum += d
		squares += d * d
	}
	n := float64(len(pts) - 1)
	return sum, max(0, squares-sum*sum/n)
}

// startFactor holds growth back for which there is a harmless reason in how it
// began, until it has lasted for a while: a job that began shortly before; growth
// that was there when the series was first seen; from an idle memory on, what grows
// as fast as a program loads; and, where somebody computes, what swells over hours as a daily load does. steady is
// the part of the troughs over which it is steady, base the level that the growth is above
// in bytes, and rate its pace in bytes per second.
func (s *series) startFactor(g *growth, pts, steady []point, rate float64, base int64) float64 {
	if s.leak.on || s.leak.over {
		return 1 // that was decided when it was declared
	}
	span := s.watched(g.since, g.end)
	lead := max(settled, span/3)
	excused := g.since-max(s.began, s.first) < lead
	if float64(base) <= idleLevel(s.capacity) {
		excused = excused || rate > idleLoadRate
	} else {
		excused = excused || s.idleAt > 0 && g.since-s.idleAt < lead
	}
	patience := int64(s.cfg.SettleTime)
	if s.again {
		patience = min(patience, shortSettle)
	}
	if s.capacity > 0 && rate > 0 {
		ahead := s.left() / rate * float64(time.Second)
		short := min(float64(patience), max(float64(shortSettle), nearTimes*ahead))
		patience = int64(min(max(short, patienceShare*ahead), float64(day)))
		g.plain = excused && s.plain(g, steady, rate, base)
		excused = excused && !g.plain
		if !s.loadless && span > max(slowSpan, slowBlocks*s.ladder[0].width) && ahead > float64(slowAhead) {
			excused, patience = true, max(patience, min(day, int64(slowShare*ahead)))
		}
		if !s.loadless && span > swellSpan && (swelling(pts) || ahead > float64(day) && s.last-s.first < day) {
			excused, patience = true, max(patience, min(day, int64(ahead)))
		}
	}
	if !excused || span >= patience {
		return 1
	}
	return unsettled + (unsettledMost-unsettled)*float64(span)/float64(patience)
}

// plain reports whether growth from the start on is too slow and too straight for a program
// that loads, and began above an idle memory. What counts is how long the whole memory takes
// to fill, by all that grows in it. Where such growth turned out to be none lately, it is not plain.
func (s *series) plain(g *growth, steady []point, rate float64, base int64) bool {
	memory, lasted := s.memory(), int64(steady[len(steady)-1].at-steady[0].at)*tick
	if memory.doubted > 0 && s.last-memory.doubted < doubtSpan || s.cfg.SettleTime > plainSettle || lasted < plainSpan ||
		float64(base) <= idleLevel(s.capacity) || g.spread < 1 {
		return false
	}
	if memory != s {
		rate = max(rate, memory.rising(g.since))
	}
	ratio, _ := halves(steady)
	return s.left()/rate > seconds(slowAhead) && ratio > straight && ratio < 1/straight
}

// left returns what is left of the memory that s is a part of, whoever holds the rest, in
// bytes. That was read a frame ago, or longer: s itself may hold more by now.
func (s *series) left() float64 { return s.capacity - float64(max(s.used, s.memory().used)) }

// rising returns how fast the troughs have risen from a time on, in bytes per second: from
// the first one on if all came later, and 0 if the first ones are forgotten.
func (s *series) rising(since int64) float64 {
	var buffer [scaleBlocks]point
	from := ticks(since - s.first)
	for i := range ladderScales {
		pts := s.ladder[i].points(&buffer)
		if len(pts) < 2 || pts[0].at > from && s.ladder[i].closed > int64(len(pts)) {
			continue
		}
		j := 1
		for j < len(pts)-1 && pts[j].at <= from {
			j++
		}
		last, at := pts[len(pts)-1], max(from, pts[0].at)
		return (float64(last.v) - between(pts[j-1], pts[j], at)) * unit / max(seconds(int64(last.at-at)*tick), 1)
	}
	return 0
}

// swelling reports whether less than half as much was gained in the first third of
// the time as in the last one.
func swelling(pts []point) bool {
	last := len(pts) - 1
	first, third := float64(pts[0].v), (pts[last].at-pts[0].at)/3
	early, late := first, first
	for _, p := range pts {
		if p.at <= pts[0].at+third {
			early = float64(p.v)
		}
		if p.at <= pts[last].at-third {
			late = float64(p.v)
		}
	}
	return early-first < 0.5*(float64(pts[last].v)-late)
}

func clamp(x float64) float64 {
	switch {
	case x > 1:
		return 1
	case x > 0:
		return x
	}
	return 0 // NaN too
}

func seconds(ns int64) float64 { return float64(ns) / float64(time.Second) }
