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
	// bendSure is how many standard errors the bend of a parabola must be for a leak to
	// accelerate: traffic that comes and goes bends growth by a few.
	bendSure = 8
	// bendLeast is the share of the mean rate by which the rate must have changed.
	bendLeast = 0.25
	// bendPoints is the fewest troughs that a parabola is laid through.
	bendPoints = 12
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

// parabola is a least-squares parabola through troughs.
type parabola struct {
	rate     float64 // at the last trough, bytes per second
	bend     float64 // change of the rate, bytes per second²
	sure     float64 // bend in standard errors
	variance float64 // of rate
	wander   float64
}

// fitTrend fits the troughs of a growth: a line, or a parabola if it accelerates.
func fitTrend(pts []point) trend {
	if len(pts) < 4 {
		return trend{n: len(pts)}
	}
	l := fitLine(pts)
	t := trend{rate: l.rate, variance: l.variance, wander: l.wander, n: len(pts)}
	if len(pts) < bendPoints {
		return t
	}
	if p := fitParabola(pts); p.sure > bendSure && p.bend*l.span > bendLeast*l.rate {
		t.rate, t.bend, t.variance, t.wander = p.rate, p.bend, p.variance, p.wander
	}
	return t
}

// fitLine fits a least-squares line to the troughs, three at least, and tells how
// sure its slope is: residuals of a wandering series are correlated, and the changes
// of the residuals from block to block tell by how much.
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
	errors := max(0, cyy-cxy*l.rate)
	correlated := correlation(errors, changes)
	l.variance = errors / max(n-2, 1) / cxx * (1 + correlated) / (1 - correlated)
	l.wander = changes / l.span * correlated
	if math.IsNaN(l.variance) {
		l.variance = 0
	}
	return l
}

// fitParabola fits a least-squares parabola to the troughs, four at least: a line, and what
// of the square of the time is orthogonal to it, so that neither changes the other's
// coefficient. Standard errors are those of fitLine.
func fitParabola(pts []point) parabola {
	n := float64(len(pts))
	var mx, my float64
	x := func(p point) float64 { return float64(p.at-pts[0].at) * float64(tick) / 1e9 }
	y := func(p point) float64 { return (float64(p.v) - float64(pts[0].v)) * unit }
	for _, p := range pts {
		mx += x(p) / n
		my += y(p) / n
	}
	var s2, s3, s4, s1y, s2y float64
	for _, p := range pts {
		dx, dy := x(p)-mx, y(p)-my
		s2 += dx * dx
		s3 += dx * dx * dx
		s4 += dx * dx * dx * dx
		s1y += dx * dy
		s2y += dx * dx * dy
	}
	skew := s3 / s2
	norm := s4 - s3*skew - s2*s2/n // of dx² - skew·dx - s2/n
	if !(s2 > 0 && norm > 0) {
		return parabola{}
	}
	rate, square := s1y/s2, (s2y-skew*s1y)/norm
	var errors, changes, last float64
	for i, p := range pts {
		dx := x(p) - mx
		residual := y(p) - my - rate*dx - square*(dx*dx-skew*dx-s2/n)
		errors += residual * residual
		if i > 0 {
			changes += (residual - last) * (residual - last)
		}
		last = residual
	}
	span := x(pts[len(pts)-1])
	correlated := correlation(errors, changes)
	variance := errors / max(n-3, 1) * (1 + correlated) / (1 - correlated)
	slope := 2*(span-mx) - skew
	return parabola{
		rate: rate + square*slope, bend: 2 * square, sure: square / math.Sqrt(variance/norm),
		variance: variance/s2 + slope*slope*variance/norm, wander: changes / span * correlated,
	}
}

// correlation returns that of neighbouring residuals, 0 at least, from the sums of their
// squares and of those of their changes (Durbin and Watson).
func correlation(errors, changes float64) float64 {
	if errors <= 0 {
		return 0
	}
	return min(max(0, 1-changes/errors/2), mostCorrelated)
}
