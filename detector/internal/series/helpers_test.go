// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

const (
	mib = stat.Bytes(1 << 20)
	gib = stat.Bytes(1 << 30)
	// start is when the series of the tests begin: 0 would mean "never" in many a field.
	start = 1000 * time.Hour
	total = 80 * gib // capacity
)

// equal checks that got is want, part by part. The format tells of what they are.
func equal[T any](t testing.TB, got, want T, format string, args ...any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s: got %+v, want %+v", fmt.Sprintf(format, args...), got, want)
	}
}

// mibs are levels in MiB, one after another.
func mibs(levels ...float64) []float64 { return levels }

// ramp is n levels from one on, step apart.
func ramp(n int, from, step float64) (levels []float64) {
	for i := range n {
		levels = append(levels, from+float64(i)*step)
	}
	return levels
}

// flat is n times the same level.
func flat(n int, level float64) []float64 { return slices.Repeat(mibs(level), n) }

// steps is n levels from one on, size apart, each for so many blocks.
func steps(n, blocks int, from, size float64) (levels []float64) {
	for _, v := range ramp(n, from, size) {
		levels = append(levels, flat(blocks, v)...)
	}
	return levels
}

// join puts parts one after another.
func join(parts ...[]float64) []float64 { return slices.Concat(parts...) }

// block is when the n-th block of a test ends.
func block(n int) time.Duration { return start + time.Duration(n)*narrowest }

// troughs are those of narrowest blocks, the first one at block 1.
func troughs(levels []float64) (pts []stat.Point) {
	for i, v := range levels {
		pts = append(pts, stat.Point{At: block(i + 1), V: inMiB(v)})
	}
	return pts
}

func inMiB(v float64) stat.Bytes { return stat.Bytes(math.Round(v * float64(mib))) }

// climbing returns a scale of narrowest blocks that has those troughs.
func climbing(levels []float64, full *Fullness) *Scale {
	e := &Scale{Width: narrowest, Least: 1}
	for _, p := range troughs(levels) {
		e.close(p, full)
	}
	return e
}

// alter gives a trough another value.
func (e *Scale) alter(i int, v stat.Bytes) {
	pts := e.Troughs.Append(nil)
	pts[i].V = v
	e.Troughs = pointsOf(pts...)
}

// told returns a series of five hours at 20 of 80 GiB that has computed all the time, and to which a test
// tells the rest.
func told(cfg *Config) *Series {
	s := New(cfg)
	s.First, s.Began, s.WorkedAt = start, start, start
	s.Last = start + 5*time.Hour
	s.BusyAt, s.Used, s.Capacity, s.Left = s.Last, 20*gib, total, total-20*gib
	for i := range s.Scales {
		e := &s.Scales[i]
		e.Closed, e.Level = 1000, s.Used
		e.Troughs = pointsOf(stat.Point{At: s.Last, V: s.Used})
	}
	return s
}

func defaults() *Config {
	cfg := DefaultConfig()
	return &cfg
}

// watcher gives samples to a series.
type watcher struct {
	*Series
	full   Fullness
	now    time.Duration // since start
	sample Sample        // what all of them have
	others stat.Bytes    // held beside the series
	look   func()        // after each
}

// watching returns a watcher of a new series, sampled every so often, that computes.
func watching(cfg *Config, every time.Duration) *watcher {
	return &watcher{
		Series: New(cfg), look: func() {},
		sample: Sample{Interval: every, Capacity: total, Started: start - time.Hour, SM: stat.Of(0.9)},
	}
}

// watch goes on for a while with what is used so long after start, in MiB.
func (w *watcher) watch(length time.Duration, used func(t time.Duration) float64) {
	for end := w.now + length; w.now < end; w.now += w.sample.Interval {
		o := w.sample
		o.T, o.Used, o.Full = start+w.now, inMiB(used(w.now)), &w.full
		o.Left = o.Capacity - o.Used - w.others
		w.full.Note(o.T, o.Used+w.others, o.Capacity)
		w.Observe(&o)
		w.look()
	}
}

// leaking is a memory of base MiB that grows by rate MiB/s from a time on.
func leaking(base float64, from time.Duration, rate float64) func(time.Duration) float64 {
	return func(t time.Duration) float64 { return base + rate*max(0, (t-from).Seconds()) }
}

func steadily(level float64) func(time.Duration) float64 { return leaking(level, 0, 0) }

// about fails where two numbers differ by more than rounding.
func about(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-6*max(1, math.Abs(want))) {
		t.Errorf("%s: %.9g, want %.9g", what, got, want)
	}
}

// pointsOf returns those points.
func pointsOf(list ...stat.Point) (p stat.Points) {
	for _, at := range list {
		p.Push(at)
	}
	return p
}
