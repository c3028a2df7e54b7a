// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/process"
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
	// A process that holds loadedShare of the base of a loop may be its next life. One that
	// has also grown by growsAgain of the last life resumes a paused loop.
	loadedShare = 0.5
	growsAgain  = 0.25
	// forgotten is the time after which a paused loop expires: a person may restart a job by hand the next day.
	forgotten = 24 * time.Hour
)

// crashLoop finds a crash loop: a process grows until it dies, is started again, and so on. Each death
// gives back all memory, so that neither the process, which lives too short, nor the sum of its
// group, whose troughs fall back, shows the leak. The zero crashLoop is empty.
type crashLoop struct {
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

// reset removes all lives.
func (r *crashLoop) reset() { *r = crashLoop{Noted: r.Noted} }

// removeLast removes the last life, which has not ended. A loop of enough others stays one.
func (r *crashLoop) removeLast() {
	if r.N <= leastDeaths {
		r.reset()
		return
	}
	r.N--
}

// last returns the last life; there must be one.
func (r *crashLoop) last() *series.LifeGrowth { return &r.Lives[(r.N-1)%keptLives] }

// add adds a life that grew until the memory was full. span is the shortest growth that can be a leak.
func (r *crashLoop) add(l *series.LifeGrowth, span time.Duration) {
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
func (r *crashLoop) alike() bool {
	if r.N < 2 {
		return false
	}
	a, b := r.last().Trend.Rate, r.Lives[(r.N-2)%keptLives].Trend.Rate
	return a <= alikeFactor*b && b <= alikeFactor*a
}

// settle sets Trend and Base.
func (r *crashLoop) settle() {
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

// confidence returns how sure a leak is, 0 to 1.
func (r *crashLoop) confidence() float64 {
	if !r.Proven || r.Paused {
		return 0
	}
	return float64(10-min(max(0, sureLives-r.N), 3)) / 10
}

// held returns the memory of the last life at its end; 0 without one.
func (r *crashLoop) held() stat.Bytes {
	if r.N == 0 {
		return 0
	}
	l := r.last()
	return l.Base + stat.Bytes(l.Trend.Rate*(l.To-l.Onset).Seconds())
}

// ended returns when the last life ended; 0 without one.
func (r *crashLoop) ended() time.Duration {
	if r.N == 0 {
		return 0
	}
	return r.last().To
}

// follows reports whether a process that was first seen at the given time came after the last life.
func (r *crashLoop) follows(first time.Duration) bool { return r.N == 0 || first > r.last().To }

// next updates the loop in a frame at time t. s is the process that came after the last life, nil if none did, and others the
// memory of the largest process of the group, which may also be the next life. The loop is paused if no process came for process.Absence,
// or only small ones for outlives times the longest life more, and expires after forgotten.
func (r *crashLoop) next(s *series.Series, others stat.Bytes, t time.Duration) {
	if r.N == 0 {
		return
	}
	idle, wait, used := t-r.last().To, process.Absence, stat.Bytes(0)
	loaded := stat.Bytes(loadedShare * float64(r.Base))
	if s != nil {
		used = s.Used
	}
	if s != nil || others >= loaded {
		wait += time.Duration(outlives * float64(r.Longest))
	}
	switch {
	case float64(used) > float64(r.Base)+growsAgain*float64(r.held()-r.Base):
		r.Paused = false
	case used >= loaded: // it may still grow
	case idle >= max(wait, forgotten):
		r.reset()
	case idle >= wait:
		r.Paused = true
	}
	if s == nil || !r.Proven || t < r.Look || float64(t-s.First) <= outlives*float64(r.Longest) {
		return
	}
	r.Look = t + r.Longest/outliveLook
	if _, grew := s.Lived(); !grew {
		r.reset()
	}
}

// Check implements state.Checker.
func (r *crashLoop) Check(time.Duration) bool { return r.N > 0 || !r.Proven }

// addLife adds the life of a member of g that has ended to the crash loop. Growth until the memory was full is a death. Other
// lives reset the loop: also one that stood in a full memory for long, as a program does that takes all there is. Helpers do not
// count, nor do lives in a memory that others have filled. Several ends in one frame, as when a pod is killed, have no
// order: deaths among them are one death.
//
// The processes of a program need not belong together: those that began before the last life ended do not count.
func (d *Domain[K]) addLife(key K, g *group[K], m *member) {
	r, f := &g.Loop, &d.past.Fullness
	apart := r.follows(m.First)
	least := helperShare * float64(r.held())
	if apart {
		least = min(least, loadedShare*float64(r.Base)) // it may have been the next life
	}
	if m.Held.V <= max(least, helperShare*float64(g.company(m))) || m.Group.Program && !apart {
		return
	}
	life, grew := m.Lived()
	full := f.Was(m.Last)
	late := m.Last - (m.Last-m.First)/5 // a life that grows to its end reaches its top later
	same := r.Noted == d.past.Last
	r.Noted = d.past.Last
	switch {
	case grew && full:
		if !same {
			r.add(&life, m.Config().MinSpan)
			g.Culprit, g.Accused, g.Runs = key, true, m.Runs
		}
	case full && f.Since > late: // it died, but its growth was not seen
	default:
		r.reset()
	}
}

// inherit moves to a pod, whose process has just begun, the loop of the last pod that ran the same and has no process: each retry
// of a Kubernetes Job has a pod of another name.
func (d *Domain[K]) inherit(g *group[K]) {
	heir := g.frame.heir
	if heir == nil || heir.Runs == 0 {
		return
	}
	var from *group[K]
	var last time.Duration
	for name, old := range d.groups {
		ended := old.Loop.ended()
		if !name.Program && old.frame.members == 0 && ended > last && old.Runs == heir.Runs && old.Loop.follows(heir.First) {
			from, last = old, ended
		}
	}
	if from == nil {
		return
	}
	g.Loop, g.Culprit, g.Accused, g.Runs = from.Loop, from.Culprit, from.Accused, from.Runs
	from.Loop, from.Accused = crashLoop{}, false
}
