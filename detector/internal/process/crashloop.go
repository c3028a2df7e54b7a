// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// The numbers of deaths, alikeFactor and outlives were fitted by hand on generated series. keptLives
// and outliveLook are bounds of cost. The others are chosen.
const (
	// leastDeaths is the fewest deaths in a row that are a crash loop, alikeDeaths the same for lives
	// that grew at like rates, and keptLives the number of lives that are kept. Together they must
	// have grown for loopLasts, which is the shortest wait of growth from the start (series, shortSettle).
	leastDeaths = 3
	alikeDeaths = 2
	keptLives   = 8
	loopLasts   = 20 * time.Minute
	// alikeFactor is the largest ratio of the rates of like lives.
	alikeFactor = 1.5
	// sureLives is the fewest lives that leave no doubt. Each one less takes a tenth of the
	// confidence, three tenths at most.
	sureLives = 6
	// A process that lives for outlives times the longest life without growing removes the loop. It
	// is checked again each outliveLook-th of the longest life.
	outlives    = 1.5
	outliveLook = 8
	// A process that holds LoadedShare of the base of a loop may be its next life. One that
	// has also grown by growsAgain of the last life resumes a paused loop.
	LoadedShare = 0.5
	growsAgain  = 0.25
	// forgotten is the time after which a paused loop expires: a person may restart a job by hand the next day.
	forgotten = 24 * time.Hour
)

// Loop finds a crash loop: a process grows until it dies, is started again, and so on. Each death
// gives back all memory, so that neither the process, which lives too short, nor the sum of its
// group, whose troughs fall back, shows the leak. The zero Loop is empty.
type Loop struct {
	Lives   [keptLives]series.LifeGrowth // a ring: the n-th life is at n % keptLives
	N       int                          // lives in a row that grew until the memory was full
	Lasted  time.Duration                // the time for which they grew, together
	Longest time.Duration                // the longest life
	Since   time.Duration                // when the first one began
	Proven  bool                         // it is a crash loop
	Paused  bool                         // no process has resumed it for long
	Noted   time.Duration                // the frame with the last end of a process
	Look    time.Duration                // when a process that outlives them is checked again
	Trend   stat.Trend                   // the median of the rates of the lives, with its error
	Base    stat.Bytes                   // the median of their bases
}

// Reset removes all lives.
func (r *Loop) Reset() { *r = Loop{Noted: r.Noted} }

// RemoveLast removes the last life, which has not ended. A loop of enough others stays one.
func (r *Loop) RemoveLast() {
	if r.N <= leastDeaths {
		r.Reset()
		return
	}
	r.N--
}

// last returns the last life; there must be one.
func (r *Loop) last() *series.LifeGrowth { return &r.Lives[(r.N-1)%keptLives] }

// Add adds a life that grew until the memory was full. span is the shortest growth that can be a leak.
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

// settle sets Trend and Base.
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

// Held returns the memory of the last life at its end; 0 without one.
func (r *Loop) Held() stat.Bytes {
	if r.N == 0 {
		return 0
	}
	l := r.last()
	return l.Base + stat.Bytes(l.Trend.Rate*(l.To-l.Onset).Seconds())
}

// Ended returns when the last life ended; 0 without one.
func (r *Loop) Ended() time.Duration {
	if r.N == 0 {
		return 0
	}
	return r.last().To
}

// Follows reports whether a process that was first seen at the given time came after the last life.
func (r *Loop) Follows(first time.Duration) bool { return r.N == 0 || first > r.last().To }

// Next updates the loop in a frame at time t. s is the process that came after the last life, nil if none did, and others the
// memory of the largest process of the group, which may also be the next life. The loop is paused if no process came for Absence,
// or only small ones for outlives times the longest life more, and expires after forgotten.
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
	case used >= loaded: // it may still grow
	case idle >= max(wait, forgotten):
		r.Reset()
	case idle >= wait:
		r.Paused = true
	}
	if s == nil || !r.Proven || t < r.Look || float64(t-s.First) <= outlives*float64(r.Longest) {
		return
	}
	r.Look = t + r.Longest/outliveLook
	if _, grew := s.Lived(); !grew {
		r.Reset()
	}
}

// Check implements state.Checker.
func (r *Loop) Check(time.Duration) bool {
	return r.N >= 0 && r.N < math.MaxInt32 && r.Longest >= 0 && (r.Since > 0 || r.N == 0 && !r.Proven)
}
