// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"time"
)

// Point is a value of a series, such as the trough of a block.
type Point struct {
	At time.Duration
	V  Bytes
}

// Trend is the line through the points of a growth.
type Trend struct {
	Rate     float64 // now, bytes per second
	Bend     float64 // its growth, bytes per second²; 0 where chance would explain it
	Variance float64 // of Rate
	Wander   float64 // variance of the growth about the line, bytes² per second
	N        int     // points
}

// The first three were fitted by hand on generated series; the last one bounds a division.
const (
	// A leak accelerates if the bend of a parabola is bendSure standard errors or more:
	// traffic that comes and goes bends growth by a few.
	bendSure = 8
	// slowSure is the same for growth that slows down, and slowPoints the fewest points: waiting costs less than a false page.
	slowSure   = 4
	slowPoints = 8
	// bendLeast is the least change of the rate, as a share of the mean rate.
	bendLeast = 0.25
	// bendPoints is the fewest points of a parabola.
	bendPoints = 12
	// mostCorrelated bounds the estimated correlation of neighbouring residuals.
	mostCorrelated = 0.95
)

// Slows returns the bytes that a growth still brings if it slows down as an exponential does; +Inf
// where the points do not show that it slows down.
func Slows(pts []Point) float64 {
	if len(pts) < slowPoints {
		return math.Inf(1)
	}
	p := fitParabola(pts)
	if !(p.sure < -slowSure) {
		return math.Inf(1)
	}
	return max(0, p.rate) * max(0, p.rate) / -p.bend
}

// Line is a least-squares line.
type Line struct {
	Rate     float64 // bytes per second
	Variance float64 // of Rate
	Wander   float64
	Span     float64 // seconds
}

// Trend returns the line as a trend of n points.
func (l Line) Trend(n int) Trend {
	return Trend{Rate: l.Rate, Variance: l.Variance, Wander: l.Wander, N: n}
}

// parabola is a least-squares parabola through points.
type parabola struct {
	rate     float64 // at the last trough, bytes per second
	bend     float64 // change of the rate, bytes per second²
	sure     float64 // bend in standard errors
	variance float64 // of rate
	wander   float64
}

// FitTrend fits the points of a growth: a line, or a parabola if it accelerates.
func FitTrend(pts []Point) Trend {
	if len(pts) < 4 {
		return Trend{N: len(pts)}
	}
	l := FitLine(pts)
	t := l.Trend(len(pts))
	if len(pts) < bendPoints {
		return t
	}
	if p := fitParabola(pts); p.sure > bendSure && p.bend*l.Span > bendLeast*l.Rate {
		t.Rate, t.Bend, t.Variance, t.Wander = p.rate, p.bend, p.variance, p.wander
	}
	return t
}

// FitLine fits a least-squares line to the points, three at least. The variance of its slope allows for the correlation of
// the residuals of a wandering series, which follows from the changes of the residuals from point to point.
func FitLine(pts []Point) Line {
	n := float64(len(pts))
	at := func(p Point) (x, y float64) { return (p.At - pts[0].At).Seconds(), float64(p.V - pts[0].V) }
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
		return Line{}
	}
	l := Line{Rate: cxy / cxx}
	l.Span, _ = at(pts[len(pts)-1])
	var changes, last float64
	for i, p := range pts {
		x, y := at(p)
		residual := y - sy/n - l.Rate*(x-sx/n)
		if i > 0 {
			changes += (residual - last) * (residual - last)
		}
		last = residual
	}
	errors := max(0, cyy-cxy*l.Rate)
	correlated := correlation(errors, changes)
	l.Variance = errors / max(n-2, 1) / cxx * (1 + correlated) / (1 - correlated)
	l.Wander = changes / l.Span * correlated
	if math.IsNaN(l.Variance) {
		l.Variance = 0
	}
	return l
}

// fitParabola fits a least-squares parabola to the points, four at least: a line, and the part of
// the square of the time that is orthogonal to it, so that neither changes the other's
// coefficient. Standard errors are those of FitLine.
func fitParabola(pts []Point) parabola {
	n := float64(len(pts))
	var mx, my float64
	x := func(p Point) float64 { return (p.At - pts[0].At).Seconds() }
	y := func(p Point) float64 { return float64(p.V - pts[0].V) }
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

// correlation returns the correlation of neighbouring residuals, 0 at least, from the sums of their
// squares and of the squares of their changes (Durbin and Watson).
func correlation(errors, changes float64) float64 {
	if errors <= 0 {
		return 0
	}
	return min(max(0, 1-changes/errors/2), mostCorrelated)
}
