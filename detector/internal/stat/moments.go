// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import "time"

// Moments are the means and central sums from which a least-squares line follows, of samples
// (x, y): x a time and y an amount of memory. They are updated and merged without a difference
// of large numbers (Chan, Golub and LeVeque, Algorithms for computing the sample variance, The
// American Statistician 37, 1983), so that memory which hardly changes, far from zero, has a line
// as good as any.
type Moments struct {
	N          int64
	From       time.Duration // what times are counted from
	X, Y       float64       // means: seconds since From, bytes
	XX, XY, YY float64       // Σ(x−X)², Σ(x−X)(y−Y), Σ(y−Y)²
}

// momentsOf returns the moments of the points. Memory is counted from that of the first one, so that a line does not depend on it.
func momentsOf(pts []Point) (m Moments) {
	if len(pts) == 0 {
		return m
	}
	m = Moments{N: int64(len(pts)), From: pts[0].At}
	for _, p := range pts {
		x, y := m.seconds(p.At), float64(p.V-pts[0].V)
		m.X += x
		m.Y += y
		m.XX += x * x
		m.XY += x * y
		m.YY += y * y
	}
	n := float64(m.N)
	m.XX, m.XY, m.YY = m.XX-m.X*m.X/n, m.XY-m.X*m.Y/n, m.YY-m.Y*m.Y/n
	m.X, m.Y = m.X/n, m.Y/n
	return m
}

// seconds returns the time since From. Duration.Seconds is slower, because it is exact for years.
func (m *Moments) seconds(t time.Duration) float64 { return float64(t-m.From) / 1e9 }

// Add adds the sample (t, y).
func (m *Moments) Add(t time.Duration, y Bytes) {
	m.N++
	dx, dy := m.seconds(t)-m.X, float64(y)-m.Y
	m.X += dx / float64(m.N)
	m.Y += dy / float64(m.N)
	rest := float64(m.N-1) / float64(m.N)
	m.XX += dx * dx * rest
	m.XY += dx * dy * rest
	m.YY += dy * dy * rest
}

// Merge adds the samples of b.
func (m *Moments) Merge(b *Moments) {
	if m.N == 0 {
		*m = *b
		return
	}
	n, k := float64(m.N), float64(b.N)
	dx, dy := (b.From-m.From).Seconds()+b.X-m.X, b.Y-m.Y
	both := n * k / (n + k)
	m.N += b.N
	m.X += dx * k / (n + k)
	m.Y += dy * k / (n + k)
	m.XX += b.XX + dx*dx*both
	m.XY += b.XY + dx*dy*both
	m.YY += b.YY + dy*dy*both
}

// Line returns the least-squares slope of y over x in bytes per second and its coefficient of
// determination: XY/XX and XY²/(XX·YY). A constant y has slope 0 and R² 0. ok is false where less than
// two different times leave the slope undefined.
func (m *Moments) Line() (slope, r2 float64, ok bool) {
	switch {
	case m.N < 2 || m.XX <= 0:
		return 0, 0, false
	case m.YY <= 0:
		return 0, 0, true
	}
	slope = m.XY / m.XX
	return slope, min(1, slope*(m.XY/m.YY)), true
}
