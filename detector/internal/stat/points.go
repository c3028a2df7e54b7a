// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"bytes"
	"encoding/binary"
	"errors"
	"time"
)

// MaxPoints is the number of points that are kept of a series at one width of blocks: a bound of cost.
const MaxPoints = 88

// Points are the last points of a series, MaxPoints at most. The zero Points are empty. Each is kept as its difference from the
// one before, the first from the zero Point, which takes little more than half of the room.
type Points struct {
	first, last Point
	n           int
	all         []byte
}

// Push adds a point. Beyond MaxPoints it removes the oldest one.
func (p *Points) Push(at Point) {
	if p.n == MaxPoints {
		rest := new(Point).next(p.all)
		rest = p.first.next(rest)
		p.all = append(p.first.after(Point{}, p.all[:0]), rest...) // a sum takes no more bytes than its parts
		p.n--
	}
	if p.n == 0 {
		p.first = at
	}
	p.all = at.after(p.last, p.all)
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
	at := Point{}
	for b := p.all; len(b) > 0; list = append(list, at) {
		b = at.next(b)
	}
	return list
}

// after appends to b the difference of a point from the one before.
func (p Point) after(before Point, b []byte) []byte {
	return binary.AppendVarint(binary.AppendVarint(b, int64(p.At-before.At)), int64(p.V-before.V))
}

// next adds to the point the difference that b begins with, and returns the bytes after that.
func (p *Point) next(b []byte) []byte {
	at, n := binary.Varint(b)
	v, m := binary.Varint(b[n:])
	p.At, p.V = p.At+time.Duration(at), p.V+Bytes(v)
	return b[n+m:]
}

// GobEncode returns the differences. They belong to the points.
func (p *Points) GobEncode() ([]byte, error) { return p.all, nil }

// GobDecode replaces the points by those that GobEncode returned.
func (p *Points) GobDecode(b []byte) error {
	*p = Points{}
	for r := bytes.NewReader(b); r.Len() > 0; {
		at, err := binary.ReadVarint(r)
		v, err2 := binary.ReadVarint(r)
		switch {
		case err != nil || err2 != nil:
			return errors.Join(err, err2)
		case p.n == MaxPoints:
			return errors.New("too many points")
		}
		p.Push(Point{p.last.At + time.Duration(at), p.last.V + Bytes(v)})
	}
	return nil
}
