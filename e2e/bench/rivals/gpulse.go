// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package rivals

import "time"

// The defaults of gpulse 2.2, from its configuration page: interval-seconds,
// analysis-window-hours, minimum-samples, min-r-squared, min-slope-mb-per-sec,
// confidence-threshold, and the spike of 20 % within 30 s.
const (
	gpulseInterval   = 30 * time.Second
	gpulseWindow     = time.Hour
	gpulseSamples    = 20
	gpulseR2         = 0.8
	gpulseSlope      = 1e6
	gpulseConfidence = 0.75
	gpulseSpike      = 0.2
)

// spikeConfidence is what a spike alone is worth.
const spikeConfidence = 0.5

// gpulse is the composite detector of gpulse with its defaults: a linear trend
// of at least 1 MB/s with R² of at least 0.8, or a rise by 20 % within 30 s, and
// of the two the one with the higher confidence.
//
// Its documents are silent on some things. A MB is taken for 10^6 bytes. The
// confidence of a trend is taken to be its R², so that each trend that passes
// also passes the confidence threshold; that of a spike alone, which is said to
// be lower, is taken for 0.5, so that it never passes by itself. The 20 % are
// taken of the memory at the begin of the 30 s.
type gpulse struct {
	record   record
	next     time.Duration
	capacity float64
}

// NewGpulse returns the rule of gpulse.
func NewGpulse() Rule { return &gpulse{record: record{age: gpulseWindow.Seconds()}} }

// Observe implements Rule: it samples each 30 s.
func (g *gpulse) Observe(t time.Duration, used, capacity int64) {
	g.capacity = float64(capacity)
	if t < g.next {
		return
	}
	g.next = t.Truncate(gpulseInterval) + gpulseInterval
	g.record.add(t, used)
}

// Verdict implements Rule: the forecast is (total - used) / slope, for a leak.
func (g *gpulse) Verdict() (leak bool, eta, lower, upper float64) {
	points := g.record.last()
	if len(points) < gpulseSamples {
		return false, none, none, none
	}
	f, _ := fitOf(points)
	confidence := 0.0
	if f.slope >= gpulseSlope && f.r*f.r >= gpulseR2 {
		confidence = f.r * f.r
	}
	from, now := points[len(points)-2].v, points[len(points)-1].v
	if from > 0 && (now-from)/from >= gpulseSpike {
		confidence = max(confidence, spikeConfidence)
	}
	if confidence < gpulseConfidence {
		return false, none, none, none
	}
	return true, until(g.capacity, now, f.slope), none, none
}
