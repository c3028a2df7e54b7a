// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package jobs is the exam whose families are stories of jobs: what a program
// does, how it comes to leak or why it grows without, and from when on it is
// recorded. Many of its leaks go with the traffic, and most of them kill the job
// within hours. Package exams says how the exams were made.
package jobs

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
)

const (
	mib     = 1 << 20
	quantum = exams.Quantum / mib // in MiB, as all sizes here
	minute  = 60.0
	hour    = 3600.0

	// longest is how long a recording may be.
	longest = 12 * time.Hour
)

// recording is a series while it is made and read.
type recording struct {
	exams.Labels
	late  *rand.Rand // of the times of the samples
	parts []part
	lost  part    // what leaked; nil without a leak
	gone  float64 // what had leaked by the last sample, in MiB
	n     int
}

// New returns a series of the set of a seed. The same arguments give the same
// series.
func New(seed uint64, index int) *exams.Series {
	r := build(seed, index)
	if r.Leak {
		r.foresee(build(seed, index))
	}
	return &exams.Series{Labels: r.Labels, Source: r}
}

// Kind returns the kind of the series with that index, without making it.
func Kind(index int) string { return families.At(index).Kind }

// foresee finds when memory runs out, with a copy of the series, and lets the
// recording last until the half-life if it can.
func (r *recording) foresee(run *recording) {
	plan := r.Length
	run.Length = exams.Horizon
	var gone []float64
	for {
		t, used := run.sample()
		gone = append(gone, run.gone)
		if t >= run.Length {
			break
		}
		if used > run.Capacity {
			r.RunsOut(t, gone)
			break
		}
	}
	if r.OOM == 0 {
		return
	}
	if half := r.HalfLife() + 5*time.Minute; half > plan && half <= longest {
		plan = half
	}
	r.Length = min(plan, r.OOM)
}

// Next implements exams.Source. The end is at the out-of-memory or when the
// recording stops.
func (r *recording) Next() (t time.Duration, used int64, ok bool) {
	t, used = r.sample()
	if t >= r.Length {
		return 0, 0, false
	}
	return t, min(used, r.Capacity), true
}

// sample returns the next sample, of a series that never ends. Samplers are late
// by some milliseconds.
func (r *recording) sample() (t time.Duration, used int64) {
	t = time.Duration(r.n)*r.Interval + time.Duration(r.late.Float64()*0.02*float64(time.Second))
	r.n++
	total := 0.0
	for _, p := range r.parts {
		total += p.at(t.Seconds())
	}
	total = max(total, 0)
	if r.lost != nil {
		r.gone = r.lost.at(t.Seconds())
	}
	return t, int64(math.Ceil((total+r.gone)/quantum)) * exams.Quantum
}
