// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package rivals

import (
	"math"
	"slices"
	"time"
)

const mib = 1 << 20

// The defaults of the study's prototype.
const (
	prototypeQ       = 4 * mib // the least move of a device's level
	prototypeMaxima  = 3       // c: the rate of new maxima in a high-water process is c/age
	prototypeYoung   = 30      // seconds: the least age at a window's begin
	prototypeLevels  = 4       // the least K
	prototypeVeto    = 6       // the least K of a coarser scale with a say on the shape
	prototypeSpan    = 180     // seconds
	prototypeAge     = 300     // seconds
	prototypeFullAge = 1800    // seconds
	prototypeGrowth  = 16 * mib
	prototypeDecay   = 0.9995 // per block
	prototypeEnter   = 0.6
	prototypeClear   = 0.4
	prototypeMoves   = 96 // the most blocks in a window
)

// prototype is the detector that the study behind this project recommends, as it
// was before its review: ratchets in the troughs at five block scales, two nulls,
// and a product of shape factors. It sees one device series, without utilisation
// and processes, so that c_idle is 1 and the age is the time since the first
// sample. It has one threshold.
//
// Where the study is silent or can be read in two ways:
//
//   - A block counts from one sample on, and its time is its end. "Now" is the end
//     of the block that closed.
//   - Jitter is what goes to and fro: of two successive changes in opposite
//     directions the smaller one. Were it any change, steps of 500 MiB would make
//     q 1500 MiB, and the study found such leaks. The median is that of the last
//     127.
//   - The stack is popped while top >= level - q, to the letter: a rise of exactly
//     q takes the place of what it rose from, although it is a move.
//   - The level at the begin of the window is the bottom of the stack only where
//     nothing of it was given back since: K counts the suffix minima of the n+1
//     levels from there on, as p_rw has it.
//   - Gaps, steps, their cv (with n-1) and the growth of the two halves are taken
//     after the first growth event, as mu is: over complete gaps. The halves are
//     those of the span.
//   - A scale's own shape always counts, however small K; a coarser one from K = 6
//     on.
//   - Flat before t_f is what lies between the last move before it and the begin
//     of the block that grew.
//   - A decays as D1 and D2 do.
//   - Two consecutive closes are two samples in a row of those that close a block
//     of whatever scale. A scale with K under 4 has confidence 0; the alarm stays
//     while another one holds it.
//   - The forecast is that of the scale with the highest confidence, its trough is
//     the level, and from the close on its seconds are counted down.
//   - Where the saturating model ends below the capacity the bounds are +Inf too.
type prototype struct {
	ladder         [5]rung
	jitter         jitter
	start, age     float64
	capacity       float64
	begun, alarm   bool
	closes         int // in a row with enough confidence
	lead           *rung
	prev, prevStep float64
}

// NewPrototype returns the rule of the study's prototype.
func NewPrototype() Rule {
	p := &prototype{}
	for i, block := range []float64{10, 40, 160, 640, 2560} {
		n := 96.0
		if block == 2560 {
			n = 64
		}
		p.ladder[i] = rung{block: block, window: n * block, shape: 1}
	}
	p.lead = &p.ladder[0]
	return p
}

// Observe implements Rule.
func (p *prototype) Observe(t time.Duration, used, capacity int64) {
	now, v := t.Seconds(), float64(used)
	if !p.begun {
		p.begun, p.start, p.prev = true, now, v
	}
	age := now - p.start
	gap := age - p.age
	p.age, p.capacity = age, float64(capacity)
	p.swing(v)
	closed := false
	// The coarse ones first: they have a say on the finer ones.
	for i := len(p.ladder) - 1; i >= 0; i-- {
		r := &p.ladder[i]
		if age < r.end && gap <= r.window/4 {
			r.low, r.high = min(r.low, v), max(r.high, v)
			continue
		}
		switch {
		case gap > r.window/4:
			*r = rung{block: r.block, window: r.window, shape: 1}
			closed = true
		case r.end > 0:
			r.close(p.q())
			p.evaluate(i)
			closed = true
		}
		r.low, r.high = v, v
		r.end = (math.Floor(age/r.block) + 1) * r.block
	}
	if closed {
		p.decide()
	}
}

// swing takes a sample for the jitter.
func (p *prototype) swing(v float64) {
	step := v - p.prev
	p.prev = v
	if step*p.prevStep < 0 {
		p.jitter.add(min(math.Abs(step), math.Abs(p.prevStep)))
	}
	p.prevStep = step
}

func (p *prototype) q() float64 { return max(prototypeQ, 3*p.jitter.median()) }

// decide is the state machine.
func (p *prototype) decide() {
	p.lead = &p.ladder[0]
	for i := range p.ladder {
		if p.ladder[i].confidence > p.lead.confidence {
			p.lead = &p.ladder[i]
		}
	}
	c := p.lead.confidence
	switch {
	case p.alarm:
		p.alarm = c >= prototypeClear
		p.closes = 0
	case c >= prototypeEnter:
		p.closes++
		p.alarm = p.closes >= 2
	default:
		p.closes = 0
	}
}

// Verdict implements Rule.
func (p *prototype) Verdict() (leak bool, eta, lower, upper float64) {
	if !p.alarm {
		return false, none, none, none
	}
	since := p.age - p.lead.at
	left := func(seconds float64) float64 { return max(0, seconds-since) }
	return true, left(p.lead.eta), left(p.lead.lower), left(p.lead.upper)
}

// jitter holds the last changes to and fro, by time and by size.
type jitter struct {
	ring, sorted []float64
	next         int
}

const jitters = 127

func (j *jitter) add(v float64) {
	if len(j.ring) < jitters {
		j.ring = append(j.ring, v)
	} else {
		at, _ := slices.BinarySearch(j.sorted, j.ring[j.next])
		j.sorted = slices.Delete(j.sorted, at, at+1)
		j.ring[j.next] = v
		j.next = (j.next + 1) % jitters
	}
	at, _ := slices.BinarySearch(j.sorted, v)
	j.sorted = slices.Insert(j.sorted, at, v)
}

func (j *jitter) median() float64 {
	if len(j.sorted) == 0 {
		return 0
	}
	return j.sorted[len(j.sorted)/2]
}

// ratchet is a level on the stack: since when, how much, which move it came by
// and for how long no other one came before.
type ratchet struct {
	t, v float64
	move int
	flat float64
}

// rung is one scale of the ladder: its open block, the level of the troughs and
// what was found at the last close.
type rung struct {
	block, window  float64
	end, low, high float64 // of the open block

	at, level float64
	amplitude float64   // A
	stack     []ratchet // the suffix minima of the levels in the window
	moves     []float64 // the times of those in the window
	total     int       // moves ever
	lastMove  float64

	// The level's last high and the low since, and the two largest give-backs.
	peak, trough, d1, d2 float64

	confidence, shape, q float64
	eta, lower, upper    float64
}

// close closes the block.
func (r *rung) close(q float64) {
	r.at, r.q = r.end, q
	r.amplitude = max(r.amplitude*prototypeDecay, r.high-r.low)
	r.d1 *= prototypeDecay
	r.d2 *= prototypeDecay
	switch {
	case len(r.stack) == 0:
		r.level, r.peak, r.trough, r.lastMove = r.low, r.low, r.low, r.at
		r.stack = append(r.stack, ratchet{t: r.at, v: r.low})
	case math.Abs(r.low-r.level) >= q:
		r.move(q)
	}
	for len(r.moves) > 0 && r.moves[0] <= r.at-r.window {
		r.moves = r.moves[1:]
	}
	// The level at the begin of the window came by the last move before it.
	for begin := r.total - len(r.moves); r.stack[0].move < begin; {
		r.stack = r.stack[1:]
	}
}

// move sets the level to the minimum of the block that closes.
func (r *rung) move(q float64) {
	r.level = r.low
	r.total++
	r.moves = append(r.moves, r.at)
	for len(r.stack) > 0 && r.stack[len(r.stack)-1].v >= r.level-q {
		r.stack = r.stack[:len(r.stack)-1]
	}
	r.stack = append(r.stack, ratchet{t: r.at, v: r.level, move: r.total, flat: r.at - r.block - r.lastMove})
	r.lastMove = r.at
	switch {
	case r.trough == r.peak && r.level >= r.peak:
		r.peak, r.trough = r.level, r.level
	case r.level < r.trough:
		r.trough = r.level
	case r.level >= r.trough+(r.peak-r.trough)/4:
		r.giveBack(r.peak - r.trough)
		r.peak, r.trough = r.level, r.level
	}
}

// giveBack notes a completed give-back.
func (r *rung) giveBack(d float64) {
	r.d1, r.d2 = max(r.d1, d), max(min(r.d1, d), r.d2)
}

// evaluate finds the confidence and the forecast of a scale that closed a block.
func (p *prototype) evaluate(i int) {
	r := &p.ladder[i]
	r.confidence, r.shape = 0, 1
	k := len(r.stack)
	if k < prototypeLevels {
		return
	}
	g := r.growth()
	r.shape = g.shape()
	if g.span < prototypeSpan || g.total < prototypeGrowth || r.at < prototypeAge {
		return
	}
	shape := r.shape
	for j := i + 1; j < len(p.ladder); j++ {
		if coarse := &p.ladder[j]; len(coarse.stack) >= prototypeVeto {
			shape = min(shape, coarse.shape)
		}
	}
	recent := clamp(1 - ((r.at-r.stack[k-1].t)/g.gap-3)/3)
	spread := clamp((g.share - 0.25) / 0.75)
	dominance := clamp((1 - g.largest/g.total) / 0.5)
	amplitude := g.total / (g.total + r.amplitude/4)
	product := math.Pow(clamp(r.evidence(&g)/7), 0.35) * math.Pow(recent, 0.20) * math.Pow(spread, 0.15) *
		math.Pow(dominance, 0.05) * math.Pow(amplitude, 0.10)
	r.confidence = product * r.reversal(g.total) * r.maturity() * (0.25 + 0.75*shape)
	if r.confidence >= prototypeClear {
		r.forecast(&g, p.capacity)
	}
}

func clamp(x float64) float64 { return max(0, min(1, x)) }

// reversal returns c_rev.
func (r *rung) reversal(growth float64) float64 {
	switch {
	case growth < 1.2*r.d2:
		return 0.3
	case growth < 1.2*r.d1:
		return 0.6
	}
	return 1
}

// maturity returns c_age.
func (r *rung) maturity() float64 {
	if r.stack[1].flat >= prototypeAge {
		return 1
	}
	return max(0.3, clamp(0.3+0.7*(r.at-prototypeAge)/(prototypeFullAge-prototypeAge)))
}

// growth is what the stack of a scale holds, from K = 4 on.
type growth struct {
	total, span, largest, share float64
	gap, step                   float64 // means of the complete gaps and their steps
	cvGap, cvStep               float64
	g1, g2, s1, s2, half        float64 // growth in the halves of the span, variances per block, blocks
}

func (r *rung) growth() growth {
	s := r.stack
	k := len(s)
	first := s[1].t
	n := float64(k - 2)
	g := growth{total: s[k-1].v - s[0].v, span: r.at - first, largest: s[1].v - s[0].v}
	g.gap, g.step = (s[k-1].t-first)/n, (s[k-1].v-s[1].v)/n
	middle := first + g.span/2
	quarters := uint(1) // t_f is in the first
	var gaps, steps, sq1, sq2 float64
	for i := 2; i < k; i++ {
		gap, step := s[i].t-s[i-1].t, s[i].v-s[i-1].v
		gaps += (gap - g.gap) * (gap - g.gap)
		steps += (step - g.step) * (step - g.step)
		g.largest = max(g.largest, step)
		quarters |= 1 << min(3, int(4*(s[i].t-first)/g.span))
		if s[i].t <= middle {
			g.g1 += step
			sq1 += step * step
		} else {
			g.g2 += step
			sq2 += step * step
		}
	}
	for ; quarters > 0; quarters >>= 1 {
		g.share += float64(quarters&1) / 4
	}
	g.cvGap = math.Sqrt(gaps/(n-1)) / g.gap
	g.cvStep = math.Sqrt(steps/(n-1)) / g.step
	g.gap = max(g.gap, r.block)
	g.half = g.span / r.block / 2
	g.s1 = max(0, sq1/g.half-(g.g1/g.half)*(g.g1/g.half))
	g.s2 = max(0, sq2/g.half-(g.g2/g.half)*(g.g2/g.half))
	return g
}

// rho is the growth of the second half over that of the first one.
func (g *growth) rho() float64 {
	if g.g1 == 0 {
		return math.Inf(1)
	}
	return g.g2 / g.g1
}

// shape returns c_shape of the scale itself.
func (g *growth) shape() float64 {
	if g.g2 >= g.g1 {
		return 1
	}
	z := math.Inf(-1)
	if d := math.Sqrt((g.s1 + g.s2) / g.half); d > 0 {
		z = (g.g2 - g.g1) / g.half / d
	}
	return 1 - clamp((-z-1)/2)*clamp((0.9-g.rho())/0.3)
}

// evidence returns ev: what speaks against both nulls, and the bonus.
func (r *rung) evidence(g *growth) float64 {
	k := len(r.stack)
	walk := recordsOf(len(r.moves), k)
	lambda := prototypeMaxima * math.Log(r.at/max(r.at-r.window, prototypeYoung))
	water := poissonTail(lambda, k-1)
	bonus := 0.6 * float64(k-2) * max(0, 1-g.cvGap) * max(0, 1-g.cvStep)
	if water > 0.05 {
		bonus /= 2
	}
	return bonus - math.Log10(max(walk, water))
}

// forecast sets the seconds to out-of-memory and their bounds, from the close.
func (r *rung) forecast(g *growth, capacity float64) {
	k := len(r.stack)
	headroom := capacity - r.level - r.amplitude
	if rho := g.rho(); rho < 0.9 && g.g2*rho/(1-rho) < headroom {
		r.eta, r.lower, r.upper = math.Inf(1), math.Inf(1), math.Inf(1)
		return
	}
	if headroom <= 0 {
		r.eta, r.lower, r.upper = 0, 0, 0
		return
	}
	period := r.stack[k-1].t - r.stack[1].t
	mu := (r.stack[k-1].v - r.stack[1].v) / period
	r.eta = headroom / mu
	w2 := g.step * g.step / g.gap * (g.cvStep*g.cvStep + g.cvGap*g.cvGap)
	se2 := (w2*period+g.step*g.step/6+r.q*r.q/6)/(period*period) + 0.05*mu*0.05*mu
	z := 1.645 * (1 + 1.5/float64(k-2))
	a := mu*mu - z*z*se2
	b := 2*headroom*mu + z*z*w2
	root := math.Sqrt(max(0, b*b-4*a*headroom*headroom))
	r.lower = 2 * headroom * headroom / (b + root)
	r.upper = math.Inf(1)
	if a > 0 {
		r.upper = (b + root) / (2 * a)
	}
}

// recordTable holds p_rw by n and K.
var recordTable = func() (table [prototypeMoves + 1][]float64) {
	for n := range table {
		table[n] = make([]float64, n+2)
		sum := 0.0
		for j := n + 1; j >= 1; j-- {
			m := 2*n - j + 1
			sum += math.Exp(lgamma(m+1) - lgamma(n+1) - lgamma(m-n+1) - float64(m)*math.Ln2)
			table[n][j] = min(1, sum)
		}
		table[n][0] = 1
	}
	return table
}()

// recordsOf returns p_rw, the probability of K records or more in n moves of a
// driftless random walk.
func recordsOf(n, k int) float64 {
	n = min(n, prototypeMoves)
	return recordTable[n][min(k, n+1)]
}

func lgamma(n int) float64 {
	v, _ := math.Lgamma(float64(n))
	return v
}

// poissonTail returns the probability of k or more.
func poissonTail(lambda float64, k int) float64 {
	if k <= 0 {
		return 1
	}
	if lambda <= 0 {
		return 0
	}
	// The terms below k where these are the smaller part, else those from k on.
	term, sum := math.Exp(-lambda), 0.0
	if float64(k) <= lambda {
		for j := range k {
			sum += term
			term *= lambda / float64(j+1)
		}
		return 1 - sum
	}
	for j := range k {
		term *= lambda / float64(j+1)
	}
	for j := k + 1; term > 1e-9*sum; j++ {
		sum += term
		term *= lambda / float64(j)
	}
	return sum
}
