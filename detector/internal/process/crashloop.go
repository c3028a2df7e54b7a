// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// How many deaths, how alike, and what outlives them were fitted by hand on generated series. keptLives
// and outliveLook are bounds of cost, and the others are chosen.
const (
	// leastDeaths is the fewest deaths in a row that are a crash loop, alikeDeaths the same of lives
	// that grew at like rates, and keptLives how many of the last ones are kept. Together they must
	// have grown for loopLasts, which is the shortest wait of growth from the start (series, shortSettle).
	leastDeaths = 3
	alikeDeaths = 2
	keptLives   = 8
	loopLasts   = 20 * time.Minute
	// alikeFactor is by how much the rates of like lives may differ.
	alikeFactor = 1.5
	// sureLives is the fewest lives that leave no doubt. Each one less takes a tenth of the
	// confidence, three tenths at most.
	sureLives = 6
	// outlives is how many times as long as the longest life of a loop a process must live, without
	// growing, to end it; after that it is looked at again each outliveLook-th of the longest life.
	outlives    = 1.5
	outliveLook = 8
	// LoadedShare is the share of what the lives of a loop had when they began to grow from which one
	// that came after them may be the next, and growsAgain that of what the last one grew by at which
	// one that comes after a pause is known to do the same.
	LoadedShare = 0.5
	growsAgain  = 0.25
	// forgotten is after how long a loop that nobody goes on with is none: who restarts a job by hand
	// takes a while for it.
	forgotten = 24 * time.Hour
)

// Loop finds a crash loop: a process grows until it dies, is started again, and so on. Each death
// gives back all memory, so that neither the process, which lives too short, nor the sum of its
// group, whose troughs fall back, shows the leak. The chain is that of the last lives in a row that
// grew until the memory was full.
type Loop struct {
	Lives   [keptLives]series.LifeGrowth // a ring: the n-th life is at n % keptLives
	N       int                          // lives in the chain
	Lasted  time.Duration                // for how long they grew together
	Longest time.Duration                // of them
	Since   time.Duration                // when the first one began
	Proven  bool                         // it is a crash loop
	Paused  bool                         // nobody has come in place of the last life for long, or who has does not grow yet
	Noted   time.Duration                // the frame that noted the last end of a process
	Look    time.Duration                // when a process that outlives them is looked at again
	// What follows from the lives: the median of their rates with its error, and that of their bases.
	Trend stat.Trend
	Base  stat.Bytes
}

// Clear ends the chain.
func (r *Loop) Clear() { *r = Loop{Noted: r.Noted} }

// Revoke takes back that the last life ended. What is a loop without it goes on to be one.
func (r *Loop) Revoke() {
	if r.N <= leastDeaths {
		r.Clear()
		return
	}
	r.N--
}

// last returns the last life; there must be one.
func (r *Loop) last() *series.LifeGrowth { return &r.Lives[(r.N-1)%keptLives] }

// Add adds a life that grew until the memory was full. No growth can be a leak that is shorter than span.
func (r *Loop) Add(l *series.LifeGrowth, span time.Duration) {
	if r.N == 0 {
		r.Since = l.From
	}
	r.Lives[r.N%keptLives] = *l
	r.N++
	r.Lasted += l.Lasted
	r.Longest, r.Look = max(r.Longest, l.To-l.From), 0
	least := leastDeaths
	if r.alike() {
		least = alikeDeaths
	}
	r.Proven = r.Proven || r.N >= least && r.Lasted >= max(loopLasts, span)
	r.settle()
}

// alike reports whether the last two lives grew at like rates.
func (r *Loop) alike() bool {
	if r.N < 2 {
		return false
	}
	a, b := r.last().Trend.Rate, r.Lives[(r.N-2)%keptLives].Trend.Rate
	return a <= alikeFactor*b && b <= alikeFactor*a
}

// settle works out what follows from the lives.
func (r *Loop) settle() {
	var rates, bases [keptLives]float64
	n := min(r.N, keptLives)
	wander := 0.0
	for i, l := range r.Lives[:n] {
		rates[i], bases[i] = l.Trend.Rate, float64(l.Base)
		wander += l.Trend.Wander / float64(n)
	}
	r.Trend = stat.Trend{Rate: stat.Median(rates[:n]), Wander: wander, N: n}
	for _, rate := range rates[:n] {
		off := rate - r.Trend.Rate
		r.Trend.Variance += off * off / float64(max(n-1, 1))
	}
	r.Base = stat.Bytes(stat.Median(bases[:n]))
}

// Confidence returns how sure a leak is, 0 to 1.
func (r *Loop) Confidence() float64 {
	if !r.Proven || r.Paused {
		return 0
	}
	return float64(10-min(max(0, sureLives-r.N), 3)) / 10
}

// Held returns how much the last life of the chain held when it ended; 0 without one.
func (r *Loop) Held() stat.Bytes {
	if r.N == 0 {
		return 0
	}
	l := r.last()
	return l.Base + stat.Bytes(l.Trend.Rate*(l.To-l.Onset).Seconds())
}

// Ended returns when the last life of the chain ended; 0 without one.
func (r *Loop) Ended() time.Duration {
	if r.N == 0 {
		return 0
	}
	return r.last().To
}

// Follows reports whether a process that was first seen at the given time came after the last life of
// the chain had ended.
func (r *Loop) Follows(first time.Duration) bool { return r.N == 0 || first > r.last().To }

// Next follows the chain in a frame at time t, and who came after its last life, nil if nobody did: one
// that outlives the chain without growing ends it. The chain is paused where nobody came for Absence,
// or only one who holds little for outlives times the longest life more; and forgotten after a day.
// others is the most that one who was there before holds and that may be the next life of a pool.
func (r *Loop) Next(s *series.Series, others stat.Bytes, t time.Duration) {
	if r.N == 0 {
		return
	}
	idle, wait, used := t-r.last().To, Absence, stat.Bytes(0)
	loaded := stat.Bytes(LoadedShare * float64(r.Base))
	if s != nil {
		used = s.Used
	}
	if s != nil || others >= loaded {
		wait += time.Duration(outlives * float64(r.Longest))
	}
	switch {
	case float64(used) > float64(r.Base)+growsAgain*float64(r.Held()-r.Base):
		r.Paused = false
	case used >= loaded: // it may grow yet
	case idle >= max(wait, forgotten):
		r.Clear()
	case idle >= wait:
		r.Paused = true
	}
	if s == nil || !r.Proven || t < r.Look || float64(t-s.First) <= outlives*float64(r.Longest) {
		return
	}
	r.Look = t + r.Longest/outliveLook
	if _, grew := s.Lived(); !grew {
		r.Clear()
	}
}

// Check reports whether the loop can be one that was read from a state file: see state.Checker.
func (r *Loop) Check(time.Duration) bool {
	return r.N >= 0 && r.N < math.MaxInt32 && r.Longest >= 0 && (r.Since > 0 || r.N == 0 && !r.Proven)
}
