// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package workloads

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	minute = 60.0
	hour   = 3600.0
	gib    = 1024.0 // in MiB, the unit of all memory in here
)

// memory is a process that takes memory: MiB as a function of seconds. at is
// called with times that grow by the interval of the series.
type memory interface {
	at(t float64) float64
}

// filler is memory that fills in a straight line now and then: as the memory of a leak
// does, as long as it lasts.
type filler interface {
	// fills says whether the moment of the last call of at is part of a straight fill of
	// more than straightFrom.
	fills() bool
}

// straightFrom is how long a straight fill is, in seconds, that is not told from a leak while
// it lasts.
const straightFrom = 15 * minute

// fills says whether m does; what is no filler does not.
func fills(m memory) bool {
	f, ok := m.(filler)
	return ok && f.fills()
}

// intervals are the times between samples in use.
var intervals = []time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second,
	15 * time.Second, 30 * time.Second, time.Minute,
}

// cards are the memories of cards that are sold, in GiB.
var cards = []float64{8, 11, 12, 16, 24, 32, 40, 48, 80, 96, 141, 180}

// draw draws the parameters of a series.
type draw struct {
	r        *rand.Rand
	interval time.Duration
	step     float64 // the interval in seconds
	capacity float64 // MiB
	length   float64 // seconds
	room     float64 // the most that a background takes, MiB
}

// newDraw returns what draws the parameters of one series. The two words of the
// seed hold the set and the kind, the length and the index: no two series share
// both.
func newDraw(k Kind, set Set, index int, length Length) *draw {
	h := fnv.New32a()
	h.Write([]byte(k.Name))
	d := &draw{r: rand.New(rand.NewPCG(mix(uint64(set)<<32|uint64(h.Sum32())), mix(uint64(length)<<56|uint64(index))))}
	d.interval = intervals[d.r.IntN(len(intervals))]
	d.step = d.interval.Seconds()
	// The driver keeps some for itself.
	d.capacity = math.Floor(cards[d.r.IntN(len(cards))]*gib*d.between(0.96, 0.995)/quantum) * quantum
	d.room = 0.95 * d.capacity
	if k.Leak {
		d.room = 0.6 * d.capacity
	}
	d.length = d.between(4*hour, 12*hour)
	if length == Long || (!k.Leak && index%longEvery == longEvery-1) {
		d.length = d.between(24*hour, 72*hour)
	}
	return d
}

// mix scatters seeds that are near to each other, and maps no two to one: the last
// step of splitmix64 (Steele, Lea, Flood 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// source returns a new generator for a process of its own.
func (d *draw) source() *rng { return &rng{rand.New(rand.NewPCG(d.r.Uint64(), d.r.Uint64()))} }

func (d *draw) between(lo, hi float64) float64    { return between(d.r, lo, hi) }
func (d *draw) logBetween(lo, hi float64) float64 { return logBetween(d.r, lo, hi) }
func (d *draw) chance(p float64) bool             { return d.r.Float64() < p }

// part returns an amount of memory that is a share of the room, log-uniform.
func (d *draw) part(lo, hi float64) float64 { return d.room * d.logBetween(lo, hi) }

// context returns what a CUDA context and its libraries take once.
func (d *draw) context() float64 { return d.between(250, 700) }

// rng is the generator of one process.
type rng struct{ *rand.Rand }

func (r *rng) between(lo, hi float64) float64    { return between(r.Rand, lo, hi) }
func (r *rng) logBetween(lo, hi float64) float64 { return logBetween(r.Rand, lo, hi) }
func (r *rng) exp(mean float64) float64          { return mean * r.ExpFloat64() }

// about returns x times 1 ± share, uniform.
func (r *rng) about(x, share float64) float64 { return x * (1 + share*(2*r.Float64()-1)) }

func between(r *rand.Rand, lo, hi float64) float64 { return lo + (hi-lo)*r.Float64() }

// logBetween returns a number whose logarithm is uniform.
func logBetween(r *rand.Rand, lo, hi float64) float64 {
	return lo * math.Pow(hi/lo, r.Float64())
}

// sum adds processes up.
type sum []memory

func (s sum) at(t float64) float64 {
	v := 0.0
	for _, m := range s {
		v += m.at(t)
	}
	return v
}

func (s sum) fills() bool { return slices.ContainsFunc(s, fills) }

// level is constant memory.
type level float64

func (l level) at(float64) float64 { return float64(l) }

// started is a process that starts at a moment and loads for a while.
type started struct {
	idle, start, load float64
	inner             memory
}

func (s *started) at(t float64) float64 {
	x := t - s.start
	if x < 0 {
		return s.idle
	}
	v := s.inner.at(x)
	if x < s.load {
		return s.idle + v*x/s.load
	}
	return s.idle + v
}

func (s *started) fills() bool { return fills(s.inner) }

// aged is a process that ran for a while before the series begins.
type aged struct {
	age   float64
	inner memory
}

func (a *aged) at(t float64) float64 { return a.inner.at(t + a.age) }
func (a *aged) fills() bool          { return fills(a.inner) }

// segments rounds up to whole segments of the allocator.
type segments struct {
	size  float64
	inner memory
}

func (s *segments) at(t float64) float64 { return math.Ceil(s.inner.at(t)/s.size) * s.size }
func (s *segments) fills() bool          { return fills(s.inner) }

// begin lets half of the series begin with the start of the program, at most
// 10 min in, and half in the middle of its life.
func (d *draw) begin(m memory) memory {
	if d.chance(0.5) {
		return &aged{d.logBetween(minute, 10*hour), m}
	}
	return d.fromIdle(m)
}

// fromIdle starts a program on an idle GPU; it loads for 2 s to a minute.
func (d *draw) fromIdle(m memory) memory {
	idle := 0.0
	if d.chance(0.5) {
		idle = d.between(2, 500)
	}
	return &started{idle, d.between(0, 10*minute), d.logBetween(2, minute), m}
}

// noise is an Ornstein-Uhlenbeck process about 0: mean-reverting, with the time
// constant tau and the standard deviation sd.
type noise struct {
	r        *rng
	x, keep  float64
	innovate float64
}

func (d *draw) noise(tau, sd float64) *noise {
	n := &noise{r: d.source(), keep: math.Exp(-d.step / tau)}
	n.innovate = sd * math.Sqrt(1-n.keep*n.keep)
	n.x = sd * n.r.NormFloat64()
	return n
}

func (n *noise) at(float64) float64 {
	n.x = n.keep*n.x + n.innovate*n.r.NormFloat64()
	return n.x
}
