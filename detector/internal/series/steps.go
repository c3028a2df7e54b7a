// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// Steps of like size that are never given back are a leak, however far apart they are: a model that is loaded again and keeps
// a copy of itself, a graph for each new shape, a run that keeps its results.
const (
	// countedSteps is the number of steps that are evidence.
	countedSteps = 4
	// likeSteps is the largest ratio of their sizes.
	likeSteps = 1.25
	// standsFor is the least number of minutes that a level stands.
	standsFor = 5
	// stepShare is the least height of a step, as a share of the capacity: allocators make smaller ones.
	stepShare = 0.005
	// stepsApart is the least time between two: programs that load, and requests, come sooner one after the other.
	stepsApart = 15 * time.Minute
)

// Steps counts the steps of a series. The zero Steps has none.
type Steps struct {
	Begun bool          // there was a level
	Level stat.Bytes    // the last level
	Try   stat.Bytes    // the present value, which may become a level
	TryAt time.Duration // when Try was first seen
	Stood int           // minutes since then
	Taken []Step        // the last steps, countedSteps at most, oldest first
}

// Step is a step from a level to a higher one.
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
	if len(s.Taken) == countedSteps {
		s.Taken = slices.Delete(s.Taken, 0, 1)
	}
	s.Taken = append(s.Taken, Step{s.TryAt, s.Level, s.Try})
	s.Level = s.Try
}

// counted reports whether there are countedSteps of like size, the first one at that time or later.
func (s *Steps) counted(from time.Duration) bool {
	if len(s.Taken) < countedSteps || s.Taken[0].At < from || s.Taken[countedSteps-1].At-s.Taken[0].At < shortSettle {
		return false
	}
	least, most := stat.Bytes(math.MaxInt64), stat.Bytes(0)
	for i, p := range s.Taken {
		if i > 0 && p.At-s.Taken[i-1].At < stepsApart {
			return false
		}
		least, most = min(least, p.To-p.From), max(most, p.To-p.From)
	}
	return float64(most) <= likeSteps*float64(least)
}

// trend returns the line through the steps.
func (s *Steps) trend() stat.Trend {
	pts := make([]stat.Point, 0, countedSteps)
	for _, p := range s.Taken {
		pts = append(pts, stat.Point{At: p.At, V: p.To})
	}
	return stat.FitLine(pts)
}

// Check implements state.Checker.
func (s *Steps) Check(time.Duration) bool { return len(s.Taken) <= countedSteps }
