// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// The methods Check implement state.Checker.

// Check reports whether the Series is possible.
func (s *Series) Check(last time.Duration) bool {
	return len(s.Windows) <= MaxWindows && s.Samples >= 0 && s.First <= s.Last && s.Last <= last &&
		s.Used >= 0 && s.Used <= stat.MaxBytes && s.Capacity >= 0 && s.Capacity <= stat.MaxBytes
}

// Check reports whether the Scale is possible.
func (e *Scale) Check(last time.Duration) bool {
	var in room
	for _, p := range e.points(&in) {
		if p.V < 0 || p.V > stat.MaxBytes || p.At < 0 || p.At > last {
			return false
		}
	}
	return e.Width > 0 && e.Least >= 1 && e.N >= 0 && e.N < math.MaxInt32 && e.Min >= 0 && e.Closed >= 0 && e.Closed < math.MaxInt64/2 &&
		int64(e.Troughs.Len()) == min(e.Closed, scaleBlocks) && e.Given >= 0 && e.Run.Ups >= 0
}

// Check reports whether the Growth is possible.
func (g *Growth) Check(time.Duration) bool {
	return g.Levels >= 0 && g.Steady >= 0 && g.Steady <= scaleBlocks && g.Reason < numWithheld &&
		g.Rate >= -stat.MaxBytes && g.Rate <= stat.MaxBytes &&
		g.ToCome >= 0 && g.ToCome <= stat.MaxBytes && share(g.Form) && share(g.Kept) && share(g.Waited) && share(g.Flat)
}

// Check reports whether the Cycles is possible.
func (c *Cycles) Check(time.Duration) bool {
	return c.Size >= 0 && c.Length >= 0 && c.N >= 0 && c.Ended.V >= 0
}

// Check reports whether the Steps is possible.
func (s *Steps) Check(time.Duration) bool { return s.N >= 0 && s.N <= countedSteps }

// Check reports whether the Leak is possible.
func (l *Leak) Check(last time.Duration) bool {
	return l.Best < numScales && l.TrendScale < numScales && share(l.Confidence) &&
		l.Since >= 0 && l.Since <= last && (!l.On || l.Since > 0)
}

// Check reports whether the Shape is possible.
func (h *Shape) Check(time.Duration) bool { return h.Pattern < numPatterns }

func share(v float64) bool { return v >= 0 && v <= 1 }
