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

// Trend is the least-squares line through the points of a growth.
type Trend struct {
	Rate     float64 // bytes per second
	Variance float64 // of Rate
	Wander   float64 // variance of the growth about the line, bytes² per second
	N        int     // points
}

// The first was fitted by hand on generated series; mostCorrelated bounds a division.
const (
	// Growth slows down if the bend of a parabola is slowSure standard errors below zero or more, of slowPoints points or more:
	// waiting costs less than a false page.
	slowSure   = 4
	slowPoints = 8
	// mostCorrelated bounds the estimated correlation of neighbouring residuals.
	mostCorrelated = 0.95
)

// FitLine fits a line to the points; its rate is 0 for fewer than four. The variance of the rate allows for the correlation of
// the residuals of a wandering series, which follows from the changes of the residuals from point to point.
func FitLine(pts []Point) Trend {
	l := Trend{N: len(pts)}
	if l.N < 4 {
		return l
	}
	n := float64(l.N)
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
		return l
	}
	l.Rate = cxy / cxx
	var changes, last float64
	for i, p := range pts {
		x, y := at(p)
		residual := y - sy/n - l.Rate*(x-sx/n)
		if i > 0 {
			changes += (residual - last) * (residual - last)
		}
		last = residual
	}
	errors, span := max(0, cyy-cxy*l.Rate), (pts[l.N-1].At - pts[0].At).Seconds()
	correlated := correlation(errors, changes)
	l.Variance = errors / (n - 2) / cxx * (1 + correlated) / (1 - correlated)
	l.Wander = changes / span * correlated
	if math.IsNaN(l.Variance) {
		l.Variance = 0
	}
	return l
}

// Slows returns the bytes that a growth still brings if it slows down as an exponential does; +Inf
// where the points do not show that it slows down.
func Slows(pts []Point) float64 {
	if len(pts) < slowPoints {
		return math.Inf(1)
	}
	rate, bend, sure := parabola(pts)
	if !(sure < -slowSure) {
		return math.Inf(1)
	}
	rate = max(0, rate)
	return rate * rate / -bend
}

// parabola fits a least-squares parabola to the points, four at least: a line, and the part of the square of the time that is
// orthogonal to it, so that neither changes the other's coefficient. It returns the rate at the last point in bytes per second,
// how that changes in bytes per second², and how many standard errors the change is, which are those of FitLine.
func parabola(pts []Point) (rate, bend, sure float64) {
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
		return 0, 0, 0
	}
	slope, square := s1y/s2, (s2y-skew*s1y)/norm
	var errors, changes, last float64
	for i, p := range pts {
		dx := x(p) - mx
		residual := y(p) - my - slope*dx - square*(dx*dx-skew*dx-s2/n)
		errors += residual * residual
		if i > 0 {
			changes += (residual - last) * (residual - last)
		}
		last = residual
	}
	correlated := correlation(errors, changes)
	variance := errors / max(n-3, 1) * (1 + correlated) / (1 - correlated)
	end := x(pts[len(pts)-1]) - mx
	return slope + square*(2*end-skew), 2 * square, square / math.Sqrt(variance/norm)
}

// correlation returns the correlation of neighbouring residuals, 0 at least, from the sums of their
// squares and of the squares of their changes (Durbin and Watson).
func correlation(errors, changes float64) float64 {
	if errors <= 0 {
		return 0
	}
	return min(max(0, 1-changes/errors/2), mostCorrelated)
}

// Check implements state.Checker.
func (t *Trend) Check(time.Duration) bool { return min(t.Rate, t.Variance, t.Wander) >= 0 }
