// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package plot

import (
	"math"
	"time"
)

const (
	// maxBins is the most that an Envelope holds: about one a pixel.
	maxBins = 1024
	// finest is the width with which an Envelope begins. Nobody samples much more often, and
	// of a narrower one a process that lives for seconds would fill all bins: a page may be
	// made of hundreds of thousands of them.
	finest = time.Second
	// gapSamples is how many times the typical interval a series pauses where its
	// line is interrupted.
	gapSamples = 5
)

// Envelope keeps the lowest and the highest value of each stretch of a series, at
// most maxBins of them however long it is: no spike is lost, and the memory is
// bounded. The zero Envelope is empty.
type Envelope struct {
	start, last time.Duration
	width       time.Duration
	samples     int64
	bins        []bin
}

type bin struct {
	low, high float64
	filled    bool
}

// Add adds a value at a time that is not before the one of the last call.
func (e *Envelope) Add(t time.Duration, v float64) { e.AddRange(t, v, v) }

// AddRange is Add for the lowest and the highest value of a stretch around t.
func (e *Envelope) AddRange(t time.Duration, low, high float64) {
	if e.samples == 0 {
		e.start, e.width = t, finest
	}
	e.samples++
	e.last = t
	i := (t - e.start) / e.width
	for i >= maxBins {
		e.halve()
		i = (t - e.start) / e.width
	}
	for len(e.bins) <= int(i) {
		e.bins = append(e.bins, bin{})
	}
	e.bins[i].add(bin{low, high, true})
}

// halve joins every two neighbours.
func (e *Envelope) halve() {
	e.width *= 2
	for i := range e.bins {
		b := e.bins[i]
		e.bins[i] = bin{}
		e.bins[i/2].add(b)
	}
	e.bins = e.bins[:(len(e.bins)+1)/2]
}

func (b *bin) add(other bin) {
	switch {
	case !other.filled:
	case !b.filled:
		*b = other
	default:
		b.low, b.high = math.Min(b.low, other.low), math.Max(b.high, other.high)
	}
}

// stretch is a part of the series without a gap.
type stretch []extreme

type extreme struct {
	t         time.Duration
	low, high float64
}

// stretches returns the series, cut where nothing came for long.
func (e *Envelope) stretches() []stretch {
	if e == nil || e.samples == 0 {
		return nil
	}
	longest := max(gapSamples*(e.last-e.start)/time.Duration(max(e.samples-1, 1)), 2*e.width)
	var out []stretch
	var current stretch
	for i, b := range e.bins {
		if !b.filled {
			continue
		}
		t := min(e.start+time.Duration(i)*e.width+e.width/2, e.last)
		if n := len(current); n > 0 && t-current[n-1].t > longest {
			out, current = append(out, current), nil
		}
		current = append(current, extreme{t, b.low, b.high})
	}
	return append(out, current)
}

// Extremes returns the lowest and the highest value of all; ok is false if there is none.
func (e *Envelope) Extremes() (low, high float64, ok bool) {
	var all bin
	for _, b := range e.bins {
		all.add(b)
	}
	return all.low, all.high, all.filled
}
