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
	m := momentsOf(pts)
	if l.N < 4 || m.XX <= 0 {
		return l
	}
	l.Rate = m.XY / m.XX
	spread, changes, correlated := m.residuals(pts, 2, l.Rate, 0, 0)
	l.Variance = spread / m.XX
	l.Wander = changes / (pts[l.N-1].At - pts[0].At).Seconds() * correlated
	return l
}

// residuals returns what a parabola, of so many numbers, leaves of the points with these moments: the variance about it, which allows
// for the correlation of neighbours, the squares of the changes from point to point, and that correlation. A line has no square.
func (m *Moments) residuals(pts []Point, numbers, slope, square, skew float64) (variance, changes, correlated float64) {
	var errors, last float64
	for i, p := range pts {
		dx := m.seconds(p.At) - m.X
		residual := float64(p.V-pts[0].V) - m.Y - slope*dx - square*(dx*dx-skew*dx-m.XX/float64(m.N))
		errors += residual * residual
		if i > 0 {
			changes += (residual - last) * (residual - last)
		}
		last = residual
	}
	correlated = correlation(errors, changes)
	return errors / max(float64(m.N)-numbers, 1) * (1 + correlated) / (1 - correlated), changes, correlated
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
	m := momentsOf(pts)
	n := float64(m.N)
	var s3, s4, s2y float64
	for _, p := range pts {
		dx, dy := m.seconds(p.At)-m.X, float64(p.V-pts[0].V)-m.Y
		s3 += dx * dx * dx
		s4 += dx * dx * dx * dx
		s2y += dx * dx * dy
	}
	skew := s3 / m.XX
	norm := s4 - s3*skew - m.XX*m.XX/n // of dx² - skew·dx - XX/n
	if !(m.XX > 0 && norm > 0) {
		return 0, 0, 0
	}
	slope, square := m.XY/m.XX, (s2y-skew*m.XY)/norm
	variance, _, _ := m.residuals(pts, 3, slope, square, skew)
	end := m.seconds(pts[len(pts)-1].At) - m.X
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
