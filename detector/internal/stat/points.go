// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"encoding/binary"
	"errors"
	"time"
)

// MaxPoints is the number of points that are kept of a series at one width of blocks: a bound of cost.
const MaxPoints = 88

// Points are the last points of a series, MaxPoints at most. The zero Points are empty. Each but the first is kept as its
// difference from the one before, which takes little more than half of the room.
type Points struct {
	first, last Point
	n           int
	rest        []byte // the points after the first
}

// Push adds a point. Beyond MaxPoints it removes the oldest one.
func (p *Points) Push(at Point) {
	if p.n == MaxPoints {
		rest, _ := p.first.next(p.rest)
		p.rest = p.rest[:copy(p.rest, rest)]
		p.n--
	}
	if p.n == 0 {
		p.first = at
	} else {
		p.rest = at.after(p.last, p.rest)
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
	for b := p.rest; len(b) > 0; list = append(list, at) {
		b, _ = at.next(b)
	}
	return list
}

// after appends to b the difference of a point from the one before.
func (p Point) after(before Point, b []byte) []byte {
	return binary.AppendVarint(binary.AppendVarint(b, int64(p.At-before.At)), int64(p.V-before.V))
}

// next adds to the point the difference that b begins with, and returns the bytes after that.
func (p *Point) next(b []byte) ([]byte, error) {
	at, n := binary.Varint(b)
	v, m := binary.Varint(b[max(n, 0):])
	if n <= 0 || m <= 0 {
		return nil, errors.New("no points")
	}
	p.At += time.Duration(at)
	p.V += Bytes(v)
	return b[n+m:], nil
}

// GobEncode returns all points as differences, the first one from the zero point.
func (p *Points) GobEncode() ([]byte, error) {
	if p.n == 0 {
		return nil, nil
	}
	return append(p.first.after(Point{}, nil), p.rest...), nil
}

// GobDecode replaces the points by those that GobEncode returned.
func (p *Points) GobDecode(b []byte) (err error) {
	*p = Points{}
	for at := (Point{}); len(b) > 0; p.Push(at) {
		if b, err = at.next(b); err != nil {
			return err
		}
		if p.n == MaxPoints {
			return errors.New("too many points")
		}
	}
	return nil
}
