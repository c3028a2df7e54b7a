// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import "math"

// trend is the line through the troughs of a growth.
type trend struct {
	rate     float64 // now, bytes per second
	bend     float64 // its growth, bytes per second²; 0 where chance would explain it
	variance float64 // of rate
	wander   float64 // variance of the growth about the line, bytes² per second
	n        int     // troughs
}

const (
	// bendSure is how many standard deviations, and bendRatio how many times, the
	// growth must be faster in the second half for a leak to accelerate.
	bendSure  = 4
	bendRatio = 1.25
	// mostCorrelated bounds the estimated correlation of neighbouring residuals.
	mostCorrelated = 0.95
)

// line is a least-squares line through troughs.
type line struct {
	rate     float64 // bytes per second
	variance float64 // of rate
	wander   float64
	span     float64 // seconds
}

// fitTrend fits the troughs of a growth.
func fitTrend(pts []point) trend {
	if len(pts) < 4 {
		return trend{n: len(pts)}
	}
	all := fitLine(pts)
	t := trend{rate: all.rate, variance: all.variance, wander: all.wander, n: len(pts)}
	if len(pts) < 12 {
		return t
	}
	early, late := fitLine(pts[:len(pts)/2]), fitLine(pts[len(pts)/2:])
	change := late.rate - early.rate
	if early.rate > 0 && late.rate > bendRatio*early.rate && change*change > bendSure*bendSure*(early.variance+late.variance) {
		t.bend = change / (all.span / 2)
		t.rate = late.rate + t.bend*late.span/2
		t.variance = late.variance
	}
	return t
}

// fitLine fits a least-squares line to the troughs, three at least, and tells how
// sure its slope is: residuals of a wandering series are correlated, and the changes
// of the residuals from block to block tell by how much (Durbin and Watson).
func fitLine(pts []point) line {
	n := float64(len(pts))
	x0, y0 := pts[0].at, pts[0].v
	at := func(p point) (x, y float64) {
		return float64(p.at-x0) * float64(tick) / 1e9, (float64(p.v) - float64(y0)) * unit
	}
	var sx, sy, sxx, sxy, syy float64
	for _, p := range pts {
		x, y := at(p)
		sx += x
		sy += y
		sxx += x * x
		sxy += x * y
		syy += y * y
	}
	cxx, cxy, cyy := sxx-sx*sx/n, sxy-sx*sy/n, syy-sy*sy/n
	if cxx <= 0 {
		return line{}
	}
	l := line{rate: cxy / cxx}
	l.span, _ = at(pts[len(pts)-1])
	var changes, last float64
	for i, p := range pts {
		x, y := at(p)
		residual := y - sy/n - l.rate*(x-sx/n)
		if i > 0 {
			changes += (residual - last) * (residual - last)
		}
		last = residual
	}
	errors, correlated := max(0, cyy-cxy*l.rate), 0.0
	if errors > 0 {
		correlated = min(max(0, 1-changes/errors/2), mostCorrelated)
	}
	l.variance = errors / max(n-2, 1) / cxx * (1 + correlated) / (1 - correlated)
	l.wander = changes / l.span * correlated
	if math.IsNaN(l.variance) {
		l.variance = 0
	}
	return l
}
