// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/heights"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// Evidence is the reason to expect that a memory will be full.
type Evidence uint8

// The evidence.
const (
	EvidenceNone    Evidence = iota
	EvidenceLeak             // it leaks
	EvidenceFilling          // it fills, for whatever reason
)

var evidenceNames = []string{"", "leak", "filling"}

// String returns the evidence as the label value of the metric; "" for EvidenceNone.
func (e Evidence) String() string { return stat.Name(evidenceNames, e) }

// horizon is the time until a memory is full, in seconds, with its 90 % interval.
type horizon struct {
	eta, lower, upper float64
	rate              float64 // of growth, bytes per second
	base              float64 // the use at which the growth began, bytes; 0 where that does not matter
}

// ends reports whether the memory is ever full.
func (h *horizon) ends() bool { return !math.IsInf(h.eta, 1) }

var never = horizon{eta: math.Inf(1), lower: math.Inf(1), upper: math.Inf(1)}

// forecast foretells when the memory is full: by its leak, or because its crest grows. Neither counts while the memory is within a
// height that it gave back before. But a page that has started stays: if it stopped and started again, it would be two pages.
func (d *Domain[K]) forecast() {
	d.out.Headroom, d.out.Evidence, d.out.Rate, d.out.Page = Value{}, EvidenceNone, Value{}, false
	if !d.known || d.capacity == 0 {
		return
	}
	headroom := float64(max(0, d.capacity-d.past.Top))
	d.out.Headroom = Of(headroom)
	leak, filling := leakHorizon(&d.total.trend, headroom), d.filling(headroom)
	if !d.past.Paged || !d.wakes(&leak, &filling) {
		if leak.ends() && d.givenBack(leak.rate, leakRate) {
			leak = never
		}
		if filling.ends() && (float64(d.used.Used) < filling.base || d.givenBack(filling.rate, slopeOf)) {
			filling = never
		}
	}
	d.out.Page = d.wakes(&leak, &filling)
	d.past.Paged = d.out.Page
	h := &leak
	switch {
	case leak.ends() && (!d.out.Page || d.wakes(&leak, &never)):
		d.out.Evidence, d.out.Rate = EvidenceLeak, Of(leak.rate)
	case filling.ends():
		h = &filling
		d.out.Evidence, d.out.Rate = EvidenceFilling, Of(filling.rate)
	}
	d.setForecasts(h)
}

// wakes reports whether the memory is full so soon that it is a page.
func (d *Domain[K]) wakes(leak, filling *horizon) bool {
	cfg := d.used.Config()
	return leak.eta < cfg.PageWithin.Seconds() || filling.eta < cfg.FillsWithin.Seconds() && !math.IsInf(filling.upper, 1)
}

// setForecasts gives the forecast to the memory, and to all parts that contribute fillShare of its growth; the others are never full.
func (d *Domain[K]) setForecasts(h *horizon) {
	foretold := d.out.Evidence != EvidenceNone
	set := func(v *Verdict, contributes bool) {
		of := h
		switch {
		case contributes && foretold:
		case v.Judged:
			of = &never
		default:
			return
		}
		v.SecondsToOOM, v.Lower, v.Upper = Of(of.eta), Of(of.lower), Of(of.upper)
	}
	part := func(v *Verdict) { set(v, v.Leak || slopeOf(v) >= fillShare*h.rate) }
	v := &d.out.Device
	set(v, true)
	part(&d.out.Residual)
	for i := range d.out.Members {
		m := &d.out.Members[i]
		part(&m.Verdict)
		if rate := v.Rate.V; m.Leak && rate > 0 {
			m.Share = Of(stat.Clamp(m.Rate.V / rate))
		}
	}
	for i := range d.out.Groups {
		part(&d.out.Groups[i].Verdict)
	}
}

func leakRate(v *Verdict) float64 {
	if !v.Leak {
		return 0
	}
	return v.Rate.V
}

// slopeOf returns the growth over the shortest window, in bytes per second.
func slopeOf(v *Verdict) float64 { return v.Windows[0].Slope.V }

// conformal is the factor by which an interval is wider than its model says, on the logarithmic scale: on the
// families for tuning (`make bench-detect`) nine tenths of |ln(true/foretold)| were within so many times
// the bound of the model. That is split conformal prediction (Lei, G'Sell, Rinaldo, Tibshirani and
// Wasserman, Distribution-free predictive inference for regression, 2018).
const conformal = 3.0

// leakHorizon returns the time until leaks of that trend have used up headroom (bytes): headroom/rate. Two things make it
// uncertain. The growth wanders: after t it has mean rate·t and variance wander·t, and
// (headroom − rate·t)² = z²·wander·t has one root before t and one after it, with
// z = 1.645·(1 + 1.5/(n−2)) for the few points that wander was estimated from. And the rate
// changes by a factor of e to the power of ±z·√variance/rate. The two are independent, so that
// the squares of their logarithms add up.
//
// An allocator that empties its cache when the memory is full gives a program more time than that. It cannot be seen from outside
// how much.
func leakHorizon(l *stat.Trend, headroom float64) horizon {
	switch {
	case !(l.Rate > 0):
		return never
	case headroom <= 0:
		return horizon{rate: l.Rate}
	}
	eta := headroom / l.Rate
	z := 1.645 * (1 + 1.5/float64(max(l.N-2, 1)))
	// The roots are t/x and t·x with (x + 1/x)/2 = 1 + z²·wander/(2·rate·headroom).
	wandered := math.Acosh(1 + z*z*l.Wander*eta/(2*headroom*headroom))
	bound := conformal * math.Hypot(wandered, z*math.Sqrt(l.Variance)/l.Rate)
	return horizon{eta: eta, lower: eta * math.Exp(-bound), upper: eta * math.Exp(bound), rate: l.Rate}
}

// filling returns the time until the crest has filled the memory, if it keeps its growth. Nobody can mute that.
func (d *Domain[K]) filling(headroom float64) horizon {
	least := max(d.used.Config().MinGrowth, fillLeast*float64(d.capacity))
	return fills(&d.past.Crest, headroom, least)
}

// givenBack reports whether the memory is within a height that it gave back before. rate is its present growth, in bytes per
// second. Each process that contributes fillShare of it must be within the heights of its program, and these must fit into the
// memory at once. If no process contributes, the heights of the memory as a whole decide.
func (d *Domain[K]) givenBack(rate float64, grows func(*Verdict) float64) bool {
	if grows(&d.out.Residual) >= fillShare*rate {
		return false // its owner is unknown
	}
	free, known := float64(d.capacity-d.used.Used), false
	for i := range d.present {
		m := d.present[i].member
		if m == nil || grows(&d.out.Members[i].Verdict) < fillShare*rate {
			continue
		}
		if !m.Before.Holds(&m.Heights) {
			return false
		}
		known, free = true, free-max(0, m.Before.Given[heights.Crest]-float64(m.Used))
	}
	if known {
		return free >= 0
	}
	p := d.past.Given.Prior(&d.past.Heights, d.used.Grown(), float64(d.capacity), d.past.Last)
	return p.Holds(&d.past.Heights)
}
