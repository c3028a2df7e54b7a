// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package layers is the exam whose families lay parts over one another: a shape of
// leak, such as stairs, over a background, such as training in epochs; and the
// backgrounds alone. Package exams says how the exams were made.
package layers

import (
	"math"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

// series is a series while it is read.
type series struct {
	exams.Labels
	plan *plan
	n    int64
}

// New returns a series of the set of a seed. The same arguments give the same
// series.
func New(seed uint64, index int) *exams.Series {
	p := draw(seed, index)
	s := &series{Labels: exams.Labels{
		Kind: Kind(index), Leak: p.leak != nil, Steady: p.steady, FromStart: p.fromStart,
		Length: seconds(p.length), Interval: seconds(p.interval), Capacity: int64(p.capacity),
	}}
	if s.Leak {
		s.Onset, s.Rate = seconds(p.onset), p.rate
		s.live(p)
		p = draw(seed, index)
	}
	s.plan = p
	return &exams.Series{Labels: s.Labels, Source: s}
}

// Kind returns the kind of the series with that index, without making it.
func Kind(index int) string { return families.At(index).Kind }

// live lives the series once, to see when it runs out of memory. A series goes on
// beyond its half-life, if it has one, but not beyond its end.
func (s *series) live(p *plan) {
	var gone []float64
	for t := time.Duration(0); t <= exams.Horizon; t += s.Interval {
		used := p.used(t.Seconds())
		gone = append(gone, p.gone)
		if used > p.ceiling {
			s.RunsOut(t, gone)
			s.Length = min(max(s.Length, s.HalfLife()+30*time.Minute), s.OOM)
			return
		}
	}
}

// Next implements exams.Source.
func (s *series) Next() (t time.Duration, used int64, ok bool) {
	t = time.Duration(s.n) * s.Interval
	if t > s.Length || (s.OOM > 0 && t >= s.OOM) {
		return 0, 0, false
	}
	s.n++
	v := max(min(s.plan.used(t.Seconds()), s.plan.ceiling), 0)
	return t, int64(v/exams.Quantum) * exams.Quantum, true
}

func seconds(s float64) time.Duration { return time.Duration(math.Round(s)) * time.Second }

// draw makes the plan of a series: the same each time.
func draw(seed uint64, index int) *plan {
	p := newPlan(exams.NewRandom(seed, uint64(index)+1))
	families.At(index).Build(p)
	return p
}
