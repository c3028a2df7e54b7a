// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// Steps of like size that are never given back are a leak, however far apart they are: a model that is loaded anew and keeps
// a copy of itself, a graph for each new shape, a run that keeps its results.
const (
	// countedSteps is how many of them are evidence.
	countedSteps = 4
	// likeSteps is by which factor their sizes may differ.
	likeSteps = 1.25
	// standsFor is for how many minutes a level must stand to be one.
	standsFor = 5
	// stepShare is the least height of a step, as a share of the capacity: less is what an allocator does each day.
	stepShare = 0.005
	// stepsApart is the least time between two: programs that load, and requests, come sooner one after the other.
	stepsApart = 15 * time.Minute
)

// Steps counts the steps of a series. The zero Steps has none.
type Steps struct {
	Begun bool               // there was a level
	Level stat.Bytes         // that the memory stood at last
	Try   stat.Bytes         // that it may stand at now
	TryAt time.Duration      // when that was first seen
	Stood int                // for how many minutes
	Taken [countedSteps]Step // the last N steps, oldest first
	N     int
}

// Step is one from a level to a higher one.
type Step struct {
	At       time.Duration // when the higher one was first seen
	From, To stat.Bytes
}

// add takes the lowest use of a minute. least is the least height of a step.
func (s *Steps) add(p stat.Point, least stat.Bytes) {
	if off := p.V - s.Try; s.Stood == 0 || off > least/4 || off < -least/4 {
		s.Try, s.TryAt, s.Stood = p.V, p.At, 1
		return
	}
	s.Stood++
	if s.Stood != standsFor {
		return
	}
	rise := s.Try - s.Level
	switch {
	case !s.Begun || rise < -least/4: // it begins, or something was given back
		*s = Steps{Begun: true, Level: s.Try, Try: s.Try, TryAt: s.TryAt, Stood: s.Stood}
		return
	case rise < least:
		s.Level = s.Try // it drifts
		return
	}
	if s.N == countedSteps {
		copy(s.Taken[:], s.Taken[1:])
		s.N--
	}
	s.Taken[s.N] = Step{s.TryAt, s.Level, s.Try}
	s.N++
	s.Level = s.Try
}

// counted reports whether there are enough of like size, the first of which came not before that time.
func (s *Steps) counted(from time.Duration) bool {
	if s.N < countedSteps || s.Taken[0].At < from || s.Taken[countedSteps-1].At-s.Taken[0].At < shortSettle {
		return false
	}
	for i := 1; i < countedSteps; i++ {
		if s.Taken[i].At-s.Taken[i-1].At < stepsApart {
			return false
		}
	}
	least, most := stat.Bytes(math.MaxInt64), stat.Bytes(0)
	for _, p := range s.Taken {
		least, most = min(least, p.To-p.From), max(most, p.To-p.From)
	}
	return float64(most) <= likeSteps*float64(least)
}

// trend is the line from the first of the steps to the last.
func (s *Steps) trend() stat.Trend {
	pts := make([]stat.Point, 0, countedSteps)
	for _, p := range s.Taken {
		pts = append(pts, stat.Point{At: p.At, V: p.To})
	}
	l := stat.FitLine(pts)
	return stat.Trend{Rate: l.Rate, Variance: l.Variance, Wander: l.Wander, N: countedSteps}
}
