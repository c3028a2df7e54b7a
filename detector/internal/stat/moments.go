// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

// moments are the sums from which a least-squares line follows: of samples
// (x, y), x a time in nanoseconds and y an amount of memory in bytes, both
// counted from an origin. They are integers, so they are exact: samples can be
// taken out again, as a sliding window must, for years and without a drift, and
// a series that is shifted in time or in memory has the very same line.
//
// No sum overflows 127 bits while |x−x0| < 2^48 ns (three days; MaxWindow is
// one), |y−y0| ≤ MaxBytes = 2^48 and n ≤ maxSamples = 2^27: the largest terms,
// n·y² and 2·y·Σy, stay below 2^124.
type moments struct {
	N             int64
	X0, Y0        int64
	SX, SY        int128
	SXX, SXY, SYY int128
}

const maxSamples = 1 << 27

// add adds the sample (x, y).
func (m *moments) add(x, y int64) {
	dx, dy := x-m.X0, y-m.Y0
	m.N++
	m.SX = m.SX.add(int128Of(dx))
	m.SY = m.SY.add(int128Of(dy))
	m.SXX = m.SXX.add(mul64(dx, dx))
	m.SXY = m.SXY.add(mul64(dx, dy))
	m.SYY = m.SYY.add(mul64(dy, dy))
}

// about returns the moments of the same samples counted from (x0, y0):
// Σ(x−d)² = Σx² − 2dΣx + nd², and so on.
func (m *moments) about(x0, y0 int64) moments {
	dx, dy := x0-m.X0, y0-m.Y0
	return moments{
		N: m.N, X0: x0, Y0: y0,
		SX:  m.SX.sub(mul64(m.N, dx)),
		SY:  m.SY.sub(mul64(m.N, dy)),
		SXX: m.SXX.sub(m.SX.mul(2 * dx)).add(mul64(dx, dx).mul(m.N)),
		SXY: m.SXY.sub(m.SX.mul(dy)).sub(m.SY.mul(dx)).add(mul64(dx, dy).mul(m.N)),
		SYY: m.SYY.sub(m.SY.mul(2 * dy)).add(mul64(dy, dy).mul(m.N)),
	}
}

// merge adds the samples of b.
func (m *moments) merge(b *moments) {
	c := b.about(m.X0, m.Y0)
	m.N += c.N
	m.SX = m.SX.add(c.SX)
	m.SY = m.SY.add(c.SY)
	m.SXX = m.SXX.add(c.SXX)
	m.SXY = m.SXY.add(c.SXY)
	m.SYY = m.SYY.add(c.SYY)
}

// remove takes the samples of b, which were added before, out again.
func (m *moments) remove(b *moments) {
	c := b.about(m.X0, m.Y0)
	m.N -= c.N
	m.SX = m.SX.sub(c.SX)
	m.SY = m.SY.sub(c.SY)
	m.SXX = m.SXX.sub(c.SXX)
	m.SXY = m.SXY.sub(c.SXY)
	m.SYY = m.SYY.sub(c.SYY)
}

// line returns the least-squares slope of y over x in bytes per nanosecond and
// its coefficient of determination:
//
//	slope = Cxy/Cxx,  R² = Cxy²/(Cxx·Cyy),  Cxy = Σxy − ΣxΣy/n, …
//
// A constant y has slope 0 and R² 0. ok is false where less than two different
// times leave the slope undefined.
func (m *moments) line() (slope, r2 float64, ok bool) {
	if m.N < 2 {
		return 0, 0, false
	}
	// About the mean, rounded to integers, Σx and Σy are smaller than n, so the
	// corrections ΣxΣy/n are small and known exactly.
	c := m.about(m.X0+m.SX.floorDiv(m.N), m.Y0+m.SY.floorDiv(m.N))
	sx, sy := int64(c.SX.Lo), int64(c.SY.Lo)
	cxx := central(c.SXX, sx, sx, c.N)
	cyy := central(c.SYY, sy, sy, c.N)
	if cxx <= 0 {
		return 0, 0, false
	}
	if cyy <= 0 {
		return 0, 0, true
	}
	cxy := central(c.SXY, sx, sy, c.N)
	slope = cxy / cxx
	return slope, min(1, slope*(cxy/cyy)), true
}

// central returns s − a·b/n with a relative error of a few units in the last
// place, however small the difference: the nearest integer to a·b/n is
// subtracted exactly, and what remains of it is at most a half.
func central(s int128, a, b, n int64) float64 {
	p := a * b // 0 ≤ a, b < n ≤ 2^27
	q := (p + n/2) / n
	return s.sub(int128Of(q)).float() - float64(p-q*n)/float64(n)
}
