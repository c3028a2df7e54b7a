// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"time"
)

const (
	// certain is the evidence (−log10 of the larger of the two null
	// probabilities) at which the confidence is not limited by chance any more.
	// The default leak threshold, 0.8 of it, is a probability of 4·10⁻⁷ a look.
	certain = 8
	// minLevels and minSpan are the fewest retained levels and the shortest
	// growth that can be a leak.
	minLevels = 4
	minSpan   = 3 * time.Minute
	// youngest stands in for an age of zero, at which new maxima would be
	// expected without end.
	youngest = 30 * time.Second
	// staircaseStep is the least typical step in bytes of a staircase; below it
	// the allocator's own granularity makes every leak one.
	staircaseStep = 8 << 20
)

// growth is what one envelope says about a leak.
type growth struct {
	confidence float64
	levels     int
	retained   int64   // bytes between the first and the last level
	base       int64   // the first level, bytes
	since, end int64   // first and last growth, ns
	rate       float64 // bytes per second over complete gaps
	// variance is that of the growth in bytes² per second, and rateVariance that
	// of rate: see forecast.go.
	variance, rateVariance float64
	recency, shape         float64 // factors of confidence
	flat                   float64 // share of blocks without growth
}

// judge looks for a leak in the envelope at time t. began is when the owner of
// the series started, both in ns.
func (e *envelope) judge(t, began int64, cfg *Config) growth {
	k := e.depth
	if k < minLevels {
		return growth{}
	}
	levels := e.stack[:k]
	g := growth{
		levels: k, base: levels[0].v, retained: levels[k-1].v - levels[0].v,
		since: levels[1].t, end: levels[k-1].t,
	}
	span := g.end - g.since
	if float64(g.retained) < cfg.MinGrowth || span < int64(minSpan) {
		return growth{}
	}
	g.rate = float64(levels[k-1].v-levels[1].v) / seconds(span)
	gap := float64(span) / float64(k-2)
	g.recency = clamp(1 - (float64(t-g.end)/max(gap, float64(e.width))-3)/3)
	g.shape = steadiness(levels)
	g.flat = 1 - clamp(float64(k-1)*float64(e.width)/float64(span+e.width))
	g.spread(levels)
	g.confidence = clamp(e.evidence(t, began)/certain) * g.recency * g.shape
	return g
}

// evidence is −log10 of the probability that the levels came about without a
// leak: under the more likely of a driftless walk and a high-water process.
func (e *envelope) evidence(t, began int64) float64 {
	walk := walkTail(e.numMoves, min(e.depth, e.numMoves+1))
	from := float64(max(e.stack[0].t-began, int64(youngest)))
	to := max(float64(t-began), from)
	return -math.Log10(max(walk, highWaterTail(e.depth-1, from, to), 1e-300))
}

// steadiness is 1 while growth goes on at the pace at which it began and falls
// to 0 as the second half of the span holds less than half of what the first
// does: a warm-up and a cache that fills slow down, a leak does not.
func steadiness(levels []ratchet) float64 {
	first, last := levels[1], levels[len(levels)-1]
	middle := first.t + (last.t-first.t)/2
	half := first.v
	for _, l := range levels[1:] {
		if l.t > middle {
			break
		}
		half = l.v
	}
	early, late := half-first.v, last.v-half
	if early <= 0 {
		return 1
	}
	return clamp((float64(late)/float64(early) - 0.5) / 0.4)
}

// spread estimates how irregular the growth is.
func (g *growth) spread(levels []ratchet) {
	n := float64(len(levels) - 2) // complete gaps
	span := seconds(g.end - g.since)
	var gap2, step2 float64
	for i := 2; i < len(levels); i++ {
		dt := seconds(levels[i].t - levels[i-1].t)
		dv := float64(levels[i].v - levels[i-1].v)
		gap2 += dt * dt
		step2 += dv * dv
	}
	gap, step := span/n, g.rate*span/n
	cvGap2 := max(0, gap2/n/(gap*gap)-1)
	cvStep2 := max(0, step2/n/(step*step)-1)
	g.variance = step * step / gap * (cvStep2 + cvGap2)
	g.rateVariance = (g.variance*span+step*step/6)/(span*span) + 0.0025*g.rate*g.rate
}

// step is what a level adds to the one before on average, in bytes.
func (g *growth) step() float64 { return float64(g.retained) / float64(max(g.levels-1, 1)) }

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
