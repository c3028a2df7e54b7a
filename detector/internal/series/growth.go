// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

const (
	// enough is the confidence of growth that just suffices to be a leak: the default leak
	// threshold. The constants below were fitted by hand
	// on generated series; make bench-detect measures them.
	enough = 0.7
	// minLevels is the fewest retained levels that can be a leak.
	minLevels = 4
	// The ratio of the growth of the second half to that of the first one: from held on the pace was kept, at slowed it was not.
	slowed = 0.5
	held   = 0.75
	// Growth must be even over evenParts of the time: each has evenShare of its fair share or more. At unevenShare it is
	// not even at all.
	evenParts              = 4
	unevenShare, evenShare = 0.08, 0.40
	// Growth in fewSteps of like size is that of jobs that come, growth in enoughSteps is not. Steps
	// of more than jobStep bytes are mostly of jobs: each doubling needs two more, up to mostSteps.
	fewSteps, enoughSteps = 3.0, 5.0
	jobStep               = 1 << 30
	mostSteps             = 11.0
	// Growth of safely times the largest give-back will not be given back.
	safely = 2.0
)

// Growth is the present growth at one scale. The zero Growth is none.
type Growth struct {
	Since, End time.Duration // first and last growth
	Base       stat.Bytes    // the level before it
	Retained   stat.Bytes    // since it began
	Levels     int           // that were reached and kept
	Rate       float64       // of the steady part, bytes per second
	Steady     int           // troughs of the steady part, the last ones
	SteadyBase stat.Bytes    // the level at which the steady part began
	Flat       float64       // share of the blocks that are kept without growth
	Step       float64       // mean difference of two levels, bytes
	// The confidence (0 to 1) in each respect: Form that the growth keeps its pace and is even, Kept
	// that it will not be given back, Waited that it has Lasted for as long as it Needs, because of Reason.
	Form, Kept, Waited float64
	Lasted, Need       time.Duration
	Reason             Withheld
	// ToCome is the growth still to come if it slows down as before, in bytes; MaxBytes where it does not.
	ToCome float64
}

// confidence returns that of the weakest respect.
func (g *Growth) confidence() float64 { return min(g.Form, g.Kept, g.Waited) }

// slows reports whether growth at the best scale, or at a wider one, slows down so much that it stops before the memory is full.
func (s *Series) slows() bool {
	if s.Capacity == 0 {
		return false
	}
	for i := range s.Growths[s.Leak.Best:] {
		if g := &s.Growths[int(s.Leak.Best)+i]; g.Levels > 0 && g.ToCome < float64(max(0, s.Left)) {
			return true
		}
	}
	return false
}

// judge finds the present growth in the troughs of scale i. It sets it in place: the table of
// reasons would put it on the heap.
func (s *Series) judge(i int) {
	e, g := &s.Scales[i], &s.Growths[i]
	*g = Growth{}
	r := &e.Run
	if r.Falling || float64(e.Level-r.Low) < s.cfg.MinGrowth || r.Ups < minLevels-1 {
		return
	}
	var in room
	pts := from(e.points(&in), r.LowAt)
	first, last := pts[0], pts[len(pts)-1]
	levels, _, _ := levelsAbove(math.MinInt64, pts)
	if levels < minLevels || e.MovedAt <= r.LowAt {
		return
	}
	moving := e.MovedAt - first.At
	*g = Growth{
		Since: r.LowAt, End: e.MovedAt, Base: r.Low, Retained: e.Level - r.Low, Levels: levels,
		Flat: 1 - stat.Clamp(float64(levels-1)*float64(e.Width)/float64(moving+e.Width)),
		Step: max(0, float64(last.V-first.V)) / float64(levels-1),
	}
	steady := steadiest(pts, s.below(pts), e.Width, s.cfg, g)
	g.Steady = len(steady)
	g.ToCome = min(stat.Slows(steady), stat.MaxBytes) // a state holds no infinity
	g.Rate = float64(last.V-steady[0].V) / max((last.At-steady[0].At).Seconds(), 1)
	if g.SteadyBase = g.Base; len(steady) < len(pts) {
		g.SteadyBase = steady[0].V // a load led there
	}
	g.Kept = s.kept(g.Retained, i)
	// Troughs stand at the end of their blocks: the last level is seen one and a half blocks late
	// in the mean, and the first growth half a block late.
	g.Lasted = max(0, g.End-g.Since-e.Width)
	s.wait(g)
}

// kept returns the confidence that growth of so many bytes at scale i will not be given back: it is held against the largest
// gradual rise that was given back at that scale or at a wider one.
func (s *Series) kept(retained stat.Bytes, i int) float64 {
	given := 1.0
	for ; i < numScales; i++ {
		given = max(given, s.Scales[i].Given)
	}
	return 0.25 + 0.75*stat.Clamp((float64(retained)/given-1)/(safely-1))
}

// from returns the points from the time t on, the last one at least.
func from(pts []stat.Point, t time.Duration) []stat.Point {
	for len(pts) > 1 && pts[0].At < t {
		pts = pts[1:]
	}
	return pts
}

// levelsAbove counts the levels above v that the troughs reached and kept until the last trough, or until they last were at v;
// highest and lowest are the first and the last one of them, the newest first.
func levelsAbove(v stat.Bytes, pts []stat.Point) (n int, highest, lowest stat.Bytes) {
	lowest = math.MaxInt64
	for _, p := range slices.Backward(pts) {
		if p.V <= v {
			break
		}
		if p.V <= lowest-quantum {
			if n == 0 {
				highest = p.V
			}
			lowest = p.V
			n++
		}
	}
	return n, highest, lowest
}

// below returns the number of the first troughs that are within the heights of enough earlier lives.
func (s *Series) below(pts []stat.Point) int {
	if !s.Prior.Sure {
		return 0
	}
	return max(0, slices.IndexFunc(pts, func(p stat.Point) bool { return float64(p.V) > s.Prior.Ceiling }))
}

// steadiest returns the last troughs, half of the time or more, over which growth is steadiest, and
// sets its form: a leak keeps its pace, and a warm-up or a cache
// that fills slows down. It leaves out other growth before, such as the load of a model, and the below first troughs.
func steadiest(pts []stat.Point, below int, width time.Duration, cfg *Config, g *Growth) []stat.Point {
	best := pts
	if len(pts) < 4 {
		g.Form = 1
		return best
	}
	for _, left := range [...]int{0, len(pts) / 8, 2 * len(pts) / 8, 3 * len(pts) / 8, 4 * len(pts) / 8, below} {
		rest := pts[left:]
		if left > 0 && (len(rest) < 8 || rest[len(rest)-1].At-rest[0].At < cfg.MinSpan) {
			break
		}
		if form := min(keeping(rest, slowed, held), evenness(rest), spread(rest, width)); form > g.Form {
			g.Form, best = form, rest
		}
		if g.Form == 1 {
			break
		}
	}
	return best
}

// keeping returns 1 if the ratio of the growth of the second half to that of the first one is full or more, and less down to 0 at
// none. It is 1 where the first half has not grown.
func keeping(pts []stat.Point, none, full float64) float64 {
	first, middle, last := pts[0], pts[len(pts)/2], pts[len(pts)-1]
	if middle.V <= first.V {
		return 1
	}
	early := float64(middle.V-first.V) / float64(middle.At-first.At)
	late := float64(last.V-middle.V) / float64(max(last.At-middle.At, 1))
	return stat.Clamp((late/early - none) / (full - none))
}

// evenness returns 1 if each part of the time has its share of the growth, and less down to 0 where one
// has next to nothing: jobs come in jumps. It is 0 where nothing has grown.
func evenness(pts []stat.Point) float64 {
	last := len(pts) - 1
	span, total := pts[last].At-pts[0].At, float64(pts[last].V-pts[0].V)
	if total <= 0 {
		return 0
	}
	least, i, before := 1.0, 1, float64(pts[0].V)
	for part := range evenParts {
		at := pts[0].At + span*time.Duration(part+1)/evenParts
		for i < last && pts[i].At < at {
			i++
		}
		v := between(pts[i-1], pts[i], at)
		least = min(least, (v-before)/total)
		before = v
	}
	return stat.Clamp((least*evenParts - unevenShare) / (evenShare - unevenShare))
}

// spread returns 1 if the growth came in enoughSteps of like size or more, and less down to 0 at
// fewSteps: jobs that come, however long their memory takes to settle. Their number is that of equal
// steps with the same self-normalised sum, (Σd)²/Σd², and their size that of the average byte's step,
// Σd²/Σd. Growth over a gap of several widths is taken for one step in each.
func spread(pts []stat.Point, width time.Duration) float64 {
	sum, squares := float64(pts[len(pts)-1].V-pts[0].V), 0.0
	for i := 1; i < len(pts); i++ {
		d := float64(pts[i].V - pts[i-1].V)
		squares += d * d / float64(max(1, (pts[i].At-pts[i-1].At)/width)) // in so many steps
	}
	most := min(mostSteps, enoughSteps+2*math.Log2(max(1, squares/sum/jobStep)))
	return stat.Clamp((sum*sum/squares - fewSteps) / (most - fewSteps))
}

// between returns the level at a time on the line between two troughs.
func between(a, b stat.Point, at time.Duration) float64 {
	return float64(a.V) + float64(b.V-a.V)*stat.Clamp(float64(at-a.At)/float64(b.At-a.At))
}
