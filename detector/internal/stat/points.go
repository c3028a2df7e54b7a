// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

// MaxPoints is the number of points that are kept of a series at one width of blocks: a bound of cost.
const MaxPoints = 88

// Points are the last points of a series, MaxPoints at most. The zero Points are empty.
type Points struct {
	first, last Point
	n           int
	rest        packed // the points after the first
}

// Push adds a point. Beyond MaxPoints it removes the oldest one.
func (p *Points) Push(at Point) {
	if p.n == MaxPoints {
		before := p.first
		p.rest.cut(p.first.unpack(p.rest, &before))
		p.n--
	}
	if p.n == 0 {
		p.first = at
	} else {
		var room [rowRoom]byte
		p.rest.add(at.pack(room[:0], &p.last))
	}
	p.last = at
	p.n++
}

// Len returns the number of points.
func (p *Points) Len() int { return p.n }

// First returns the oldest point, the zero one if there is none.
func (p *Points) First() Point { return p.first }

// Last returns the newest point, the zero one if there is none.
func (p *Points) Last() Point { return p.last }

// Append appends the points to a list, oldest first.
func (p *Points) Append(list []Point) []Point {
	if p.n == 0 {
		return list
	}
	at := p.first
	list = append(list, at)
	for b := []byte(p.rest); len(b) > 0; list = append(list, at) {
		before := at
		b = at.unpack(b, &before)
	}
	return list
}

// GobEncode returns the points as rows, the first one after the zero point.
func (p *Points) GobEncode() ([]byte, error) {
	if p.n == 0 {
		return nil, nil
	}
	return append(p.first.pack(nil, &Point{}), p.rest...), nil
}

// GobDecode replaces the points by those that GobEncode returned.
func (p *Points) GobDecode(b []byte) error {
	*p = Points{}
	for at := (Point{}); len(b) > 0; {
		if p.n == MaxPoints || !whole(b, pointNumbers) {
			return errRows
		}
		before := at
		b = at.unpack(b, &before)
		p.Push(at)
	}
	return nil
}
