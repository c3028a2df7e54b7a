// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

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
	n             int64
	x0, y0        int64
	sx, sy        int128
	sxx, sxy, syy int128
}

const maxSamples = 1 << 27

// add adds the sample (x, y).
func (m *moments) add(x, y int64) {
	dx, dy := x-m.x0, y-m.y0
	m.n++
	m.sx = m.sx.add(int128Of(dx))
	m.sy = m.sy.add(int128Of(dy))
	m.sxx = m.sxx.add(mul64(dx, dx))
	m.sxy = m.sxy.add(mul64(dx, dy))
	m.syy = m.syy.add(mul64(dy, dy))
}

// about returns the moments of the same samples counted from (x0, y0):
// Σ(x−d)² = Σx² − 2dΣx + nd², and so on.
func (m *moments) about(x0, y0 int64) moments {
	dx, dy := x0-m.x0, y0-m.y0
	return moments{
		n: m.n, x0: x0, y0: y0,
		sx:  m.sx.sub(mul64(m.n, dx)),
		sy:  m.sy.sub(mul64(m.n, dy)),
		sxx: m.sxx.sub(m.sx.mul(2 * dx)).add(mul64(dx, dx).mul(m.n)),
		sxy: m.sxy.sub(m.sx.mul(dy)).sub(m.sy.mul(dx)).add(mul64(dx, dy).mul(m.n)),
		syy: m.syy.sub(m.sy.mul(2 * dy)).add(mul64(dy, dy).mul(m.n)),
	}
}

// merge adds the samples of b.
func (m *moments) merge(b *moments) {
	c := b.about(m.x0, m.y0)
	m.n += c.n
	m.sx = m.sx.add(c.sx)
	m.sy = m.sy.add(c.sy)
	m.sxx = m.sxx.add(c.sxx)
	m.sxy = m.sxy.add(c.sxy)
	m.syy = m.syy.add(c.syy)
}

// remove takes the samples of b, which were added before, out again.
func (m *moments) remove(b *moments) {
	c := b.about(m.x0, m.y0)
	m.n -= c.n
	m.sx = m.sx.sub(c.sx)
	m.sy = m.sy.sub(c.sy)
	m.sxx = m.sxx.sub(c.sxx)
	m.sxy = m.sxy.sub(c.sxy)
	m.syy = m.syy.sub(c.syy)
}

// line returns the least-squares slope of y over x in bytes per nanosecond and
// its coefficient of determination:
//
//	slope = Cxy/Cxx,  R² = Cxy²/(Cxx·Cyy),  Cxy = Σxy − ΣxΣy/n, …
//
// A constant y has slope 0 and R² 0. ok is false where less than two different
// times leave the slope undefined.
func (m *moments) line() (slope, r2 float64, ok bool) {
	if m.n < 2 {
		return 0, 0, false
	}
	// About the mean, rounded to integers, Σx and Σy are smaller than n, so the
	// corrections ΣxΣy/n are small and known exactly.
	c := m.about(m.x0+m.sx.floorDiv(m.n), m.y0+m.sy.floorDiv(m.n))
	sx, sy := int64(c.sx.lo), int64(c.sy.lo)
	cxx := central(c.sxx, sx, sx, c.n)
	cyy := central(c.syy, sy, sy, c.n)
	if cxx <= 0 {
		return 0, 0, false
	}
	if cyy <= 0 {
		return 0, 0, true
	}
	cxy := central(c.sxy, sx, sy, c.n)
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
