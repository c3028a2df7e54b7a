// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "math"

const (
	// fewestLine is how many troughs a line is laid through at least. Each longer line is
	// laid through a third more, and as many must have been before it.
	fewestLine = 12
	// lineTimes is how many times Config.MinSpan a line must last: under noise it takes in some
	// of the time before the growth, so that short ramps look longer.
	lineTimes = 2
	// lineScales is the narrowest scale at which lines are laid: narrower ones see noise.
	lineScales = 1
	// A line that rises by lineSome standard errors or less, or by wanderSome times as much
	// as lines through the troughs before it or less, shows nothing; from so many more on it
	// is sure. That holds where Config.FalseAlarm is lineFalseAlarm.
	lineSome, lineMore     = 5.0, 2.0
	wanderSome, wanderMore = 6.0, 1.0
	lineFalseAlarm         = 0.4
	// aboveShare is the share of the growth that must be above all troughs before it, and
	// beforeShare that of its rate which these may have had already.
	aboveShare  = 0.5
	beforeShare = 0.1
	// newest is how many of the last troughs must be higher than all before the line.
	newest = 3
	// alternation is the share of a change that the next one takes back in the mean from which on
	// troughs alternate: of noise without memory it is a half, and of few such troughs it may be more.
	alternation = 0.6
)

// regress looks for growth in the troughs of scale i that noise breaks into many runs, by
// lines through the last of them. Before the line the memory must have been watched for a
// while without such growth. given is that of judge.
func (s *series) regress(i int, given float64) growth {
	var best growth
	if i < lineScales {
		return best
	}
	var buffer [scaleBlocks]point
	pts := s.ladder[i].points(&buffer)
	for len(pts) > 0 && pts[0].at < s.anew {
		pts = pts[1:]
	}
	for n := fewestLine; 2*n <= len(pts); n += n / 3 {
		before, late := pts[:len(pts)-n], pts[len(pts)-n:]
		span := int64(late[n-1].at-late[0].at) * tick
		watched := int64(before[len(before)-1].at-before[0].at) * tick
		if span < lineTimes*int64(s.cfg.MinSpan) || watched < max(settled, span/3) || !rises(before, late) {
			continue
		}
		if g := s.judgeLine(before, late, given); g.confidence > best.confidence {
			g.gap = max(g.gap, s.ladder[i].width)
			best = g
		}
	}
	return best
}

// rises reports whether the last troughs of a line are, in the mean, higher than all
// before it, and whether these rose clearly more slowly, from the first to the last one.
func rises(before, pts []point) bool {
	first, turn, last := before[0], pts[0], pts[len(pts)-1]
	early, late := int64(turn.v)-int64(first.v), int64(last.v)-int64(turn.v)
	if 2*early*int64(last.at-turn.at) > late*int64(turn.at-first.at) {
		return false
	}
	sum := 0.0
	for _, p := range pts[len(pts)-newest:] {
		sum += float64(p.v)
	}
	return sum > newest*float64(highest(before))
}

// highest returns the highest of the troughs, in units.
func highest(pts []point) uint32 {
	most := uint32(0)
	for _, p := range pts {
		most = max(most, p.v)
	}
	return most
}

// judgeLine tells how sure it is that the line is that of a leak.
func (s *series) judgeLine(before, pts []point, given float64) growth {
	l := fitLine(pts)
	retained := l.rate * l.span
	if !(retained >= s.cfg.MinGrowth) {
		return growth{}
	}
	wander := max(wandering(before, len(pts)), 1) * unit
	sure := min(clamp((l.rate/math.Sqrt(l.variance)-s.cfg.asRare(lineSome))/lineMore), clamp((retained/wander-s.cfg.asRare(wanderSome))/wanderMore))
	end := mean(pts) + retained/2
	if sure == 0 || end-float64(highest(before))*unit < aboveShare*retained || fitLine(before).rate > beforeShare*l.rate {
		return growth{}
	}
	last := pts[len(pts)-1]
	span := int64(last.at-pts[0].at) * tick
	g := growth{
		levels: kept(pts), retained: int64(retained), base: int64(max(0, end-retained)),
		since: s.first + int64(pts[0].at)*tick, end: s.first + int64(last.at)*tick,
		gap: span / int64(len(pts)-1), points: len(pts), fitted: true,
	}
	half := len(pts) / 2
	early, late := fitLine(pts[:half+1]), fitLine(pts[half:])
	g.pace = 1
	if early.rate > 0 {
		g.pace = clamp((late.rate/early.rate - slowed) / (held - slowed))
	}
	g.spread = enough(quietSteps(pts))
	g.steadiness = g.pace * g.spread
	g.reversal = s.reversal(retained/unit, given, span)
	g.start = s.startFactor(&g, pts, pts, l.rate, g.base)
	g.confidence = sure * s.lasting(l.rate, s.watched(g.since, g.end)) * g.steadiness * (0.25 + 0.75*g.reversal) * g.start
	return g
}

// asRare returns how many standard deviations have a probability that is to that of z as
// FalseAlarm is to lineFalseAlarm: the tail of the normal distribution falls as exp(−z²/2).
func (c *Config) asRare(z float64) float64 {
	return math.Sqrt(max(0, z*z+2*math.Log(lineFalseAlarm/c.FalseAlarm)))
}

// wandering returns by how much a line through n troughs typically rises or falls where they
// go on as these do, in units: the root mean square over all stretches of n of them, or of half
// of what there is, if that is less. What a stretch rises by is the difference of the means of
// its halves times √3, which is that of its ends in the root mean square where the troughs
// walk. Noise wanders the less the longer a stretch is, and a walk by the root of that.
func wandering(pts []point, n int) float64 {
	half := min(n, len(pts)/2) / 2
	rise, squares, stretches := 0.0, 0.0, 0.0 // half times the difference of the means
	for i, p := range pts {
		rise += float64(p.v)
		if i >= half {
			rise -= 2 * float64(pts[i-half].v)
		}
		if i >= 2*half {
			rise += float64(pts[i-2*half].v)
		}
		if i >= 2*half-1 {
			squares += rise * rise
			stretches++
		}
	}
	return math.Sqrt(3*squares/stretches*float64(n)/float64(2*half)) / float64(half)
}

// mean returns the mean of troughs in bytes.
func mean(pts []point) float64 {
	sum := 0.0
	for _, p := range pts {
		sum += float64(p.v)
	}
	return sum / float64(len(pts)) * unit
}

// quietSteps is steps where noise is none: what a change takes back of the one before, or
// the next one of it, does not count. Σd² + 2Σd·d' is the sum of squares of a series of which
// the noise has been taken off, if its values have nothing to do with each other. Where they
// alternate that takes more off than there is, and pairs of them are looked at.
func quietSteps(pts []point) (n, size float64) {
	n, size, alternate := echoless(pts)
	if !alternate {
		return n, size
	}
	var buffer [scaleBlocks]point
	for from := range 2 {
		pairs := buffer[:0]
		for i := from + 1; i < len(pts); i += 2 {
			pairs = append(pairs, point{at: pts[i].at, v: uint32((uint64(pts[i-1].v) + uint64(pts[i].v)) / 2)})
		}
		if m, s, _ := echoless(pairs); m < n {
			n, size = m, s
		}
	}
	return n, size
}

// echoless is quietSteps of troughs that do not alternate, and tells whether they do.
func echoless(pts []point) (n, size float64, alternate bool) {
	sum := float64(pts[len(pts)-1].v) - float64(pts[0].v)
	squares, echoes, last := 0.0, 0.0, 0.0
	for i := 1; i < len(pts); i++ {
		d := float64(pts[i].v) - float64(pts[i-1].v)
		squares += d * d
		echoes += d * last
		last = d
	}
	alternate = -echoes > alternation*squares
	if sum <= 0 {
		return 0, 0, alternate
	}
	// So many equal steps are the most that there can be.
	squares = max(squares+2*min(echoes, 0), sum*sum/float64(len(pts)-1))
	return sum * sum / squares, squares / sum, alternate
}
