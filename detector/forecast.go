// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/series"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// Evidence is what foretells that a memory will be full.
type Evidence uint8

// The evidence.
const (
	EvidenceNone    Evidence = iota
	EvidenceLeak             // it leaks
	EvidenceFilling          // it fills, for whatever reason
	numEvidence
)

var evidenceNames = [numEvidence]string{"", "leak", "filling"}

// String returns the evidence as the label value of the metric; "" for EvidenceNone.
func (e Evidence) String() string {
	if e >= numEvidence {
		return ""
	}
	return evidenceNames[e]
}

// horizon is when a memory is full, in seconds from now, with its 90 % interval. rate is its growth on average until
// then, and present that of now, in bytes per second; base is the use at which the growth began, 0 where that does not matter.
type horizon struct{ eta, lower, upper, rate, present, base float64 }

// ends reports whether there is an end at all.
func (h *horizon) ends() bool { return !math.IsInf(h.eta, 1) }

var never = horizon{eta: math.Inf(1), lower: math.Inf(1), upper: math.Inf(1)}

// forecast tells when the memory is full: by its leak, or because its crest grows. It is never while the memory was given back before
// from as high as it is. But a page that has begun goes on: one that is interrupted is two.
func (d *Domain[K]) forecast() {
	d.out.Headroom, d.out.Evidence, d.out.Rate, d.out.Page = Value{}, EvidenceNone, Value{}, false
	began := d.past.Paged
	if !d.known || !d.hasCapacity {
		return
	}
	headroom := float64(max(0, d.capacity-d.past.Top))
	d.out.Headroom = Of(headroom)
	leak, filling := d.leakEnds(headroom), d.fills(headroom)
	if !began || !d.wakes(&leak, &filling) {
		if leak.ends() && d.givenBack(leak.present, leakRate) {
			leak = never
		}
		if filling.ends() && (float64(d.used.Used) < filling.base || d.givenBack(filling.present, slopeOf)) {
			filling = never
		}
	}
	d.out.Page = d.wakes(&leak, &filling)
	d.past.Paged = d.out.Page
	h := leak
	switch {
	case leak.ends() && (!d.out.Page || d.wakes(&leak, &never)):
		d.out.Evidence, d.out.Rate = EvidenceLeak, Of(h.rate)
	case filling.ends():
		h = filling
		d.out.Evidence, d.out.Rate = EvidenceFilling, Of(h.rate)
	}
	d.tell(&h)
}

// wakes reports whether somebody is to be woken.
func (d *Domain[K]) wakes(leak, filling *horizon) bool {
	cfg := d.used.Config()
	return leak.eta < cfg.PageWithin.Seconds() || filling.eta < cfg.FillsWithin.Seconds() && !math.IsInf(filling.upper, 1)
}

// tell gives the forecast to the memory, and to all that take a tenth or more of its growth; the others end never.
func (d *Domain[K]) tell(h *horizon) {
	foretold := d.out.Evidence != EvidenceNone
	ends := func(v *Verdict, with bool) {
		of := h
		switch {
		case with && foretold:
		case v.Judged:
			of = &never
		default:
			return
		}
		v.SecondsToOOM, v.Lower, v.Upper = Of(of.eta), Of(of.lower), Of(of.upper)
	}
	part := func(v *Verdict) { ends(v, !v.Muted && (v.Leak || slopeOf(v) >= fillShare*h.present)) }
	v := &d.out.Device
	ends(v, true)
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

// leakEnds returns when what leaks has filled the memory.
func (d *Domain[K]) leakEnds(headroom float64) horizon {
	if len(d.grown) == 0 {
		return never
	}
	var sum drift
	for i := range d.grown {
		sum.add(d.grown[i].trend)
	}
	h := horizon{rate: sum.rate, present: sum.rate}
	if h.eta, h.lower, h.upper = sum.secondsTo(headroom); h.eta > 0 && h.ends() {
		h.rate = headroom / h.eta
	}
	return h
}

// fills returns when the crest has filled the memory.
func (d *Domain[K]) fills(headroom float64) horizon {
	f, ok := crestSeries{&d.past.Crest}.growth(max(d.used.Config().MinGrowth, fillLeast*float64(d.capacity)))
	if !ok {
		return never
	}
	if reached := float64(d.past.Reached); reached > 0 && d.used.Config().With(series.Reached) && float64(d.past.Top) <= reached+newHeight*float64(d.capacity) {
		return never // a height that these processes had before is not new: an epoch, a day
	}
	h := horizon{rate: f.rate, present: f.rate, base: f.base}
	h.eta, h.lower, h.upper = f.secondsTo(headroom)
	return h
}

func leakRate(v *Verdict) float64 {
	if !v.Leak {
		return 0
	}
	return v.Rate.V
}

// slopeOf returns how fast memory grew over the shortest window, in bytes per second.
func slopeOf(v *Verdict) float64 { return v.Windows[0].Slope.V }

// drift is growth that several series contribute to.
type drift struct {
	rate         float64 // bytes per second
	bend         float64 // bytes per second²
	variance     float64 // of the rate to come
	wander       float64 // bytes² per second
	points       int     // of the contributor with the fewest
	contributors int
}

// Leaks change until they have filled the memory. rateError is the share by which the rate
// of one does that is as even as can be. For another, the square root of its relative
// standard error is the typical share: so the errors of forecasts grew on generated series, from a
// rate that was known to 0.5 % to one known to 30 %.
const rateError = 0.05

// add adds the growth of one more leaking series.
func (d *drift) add(t *stat.Trend) {
	d.rate += t.Rate
	d.bend += t.Bend
	d.variance += t.Rate * (math.Sqrt(t.Variance) + rateError*rateError*t.Rate)
	d.wander += t.Wander
	if d.contributors == 0 || t.N < d.points {
		d.points = t.N
	}
	d.contributors++
}

// conformal is by how much wider an interval is than its model says, on the logarithmic scale: on the
// families for tuning (`make bench-detect`) nine tenths of |ln(true/foretold)| were within so many times
// the bound of the model. That is split conformal prediction (Lei, G'Sell, Rinaldo, Tibshirani and
// Wasserman, Distribution-free predictive inference for regression, 2018).
const conformal = 3.0

// secondsTo returns the time until headroom (bytes) is used up and its 90 % interval.
//
// The time t solves headroom = rate·t + bend·t²/2; r is the mean rate until then. Two things
// make it uncertain. The growth wanders: after t it has mean r·t and variance wander·t, and
// (headroom − r·t)² = z²·wander·t has one root before t and one after it, with
// z = 1.645·(1 + 1.5/(n−2)) for the few points that wander was estimated from. And the rate is
// another one, by a factor of e to the power of ±z·√variance/rate. The two are independent, so that
// the squares of their logarithms add up.
//
// An allocator that empties its cache when the memory is full gives a program more time than that; nobody sees from outside
// how much.
func (d *drift) secondsTo(headroom float64) (eta, lower, upper float64) {
	switch {
	case !(d.rate > 0):
		return math.Inf(1), math.Inf(1), math.Inf(1)
	case headroom <= 0:
		return 0, 0, 0
	}
	t, bound := d.timeTo(headroom)
	return t, t * math.Exp(-bound), t * math.Exp(bound)
}

// timeTo returns the time until so many bytes are used up, and the bound on its logarithm.
func (d *drift) timeTo(bytes float64) (t, bound float64) {
	t = 2 * bytes / (d.rate + math.Sqrt(d.rate*d.rate+2*d.bend*bytes))
	z := 1.645 * (1 + 1.5/float64(max(d.points-2, 1)))
	// The roots are t/x and t·x with (x + 1/x)/2 = 1 + z²·wander/(2·r·bytes).
	wandered := math.Acosh(1 + z*z*d.wander*t/(2*bytes*bytes))
	return t, conformal * math.Hypot(wandered, z*math.Sqrt(d.variance)/d.rate)
}
