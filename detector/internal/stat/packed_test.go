// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package stat

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"
)

// Whatever numbers a row has, it is read as it was written, also where nothing follows it.
func FuzzRow(f *testing.F) {
	f.Add(uint64(0), uint64(1), uint64(math.MaxUint64))
	f.Add(uint64(page), uint64(page-1), uint64(math.MaxUint64-page+1))
	f.Add(uint64(1)<<63, uint64(255), uint64(256))
	f.Fuzz(func(t *testing.T, a, b, c uint64) {
		want := []uint64{a, b, c, a ^ b, b ^ c}
		row := appendRow(nil, want)
		for _, after := range [][]byte{nil, {1}, make([]byte, 20)} {
			got := make([]uint64, len(want))
			if rest := readRow(append(slices.Clone(row), after...), got); !slices.Equal(got, want) || len(rest) != len(after) {
				t.Fatalf("%x as %x: %x, and %d bytes left of %d", want, row, got, len(rest), len(after))
			}
		}
	})
}

// Points are kept to the nanosecond and the byte, however far apart they are, and the oldest one goes.
func TestPointsAreKeptAsTheyAre(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, next := range map[string]func(last Point) Point{
		"steady":   func(last Point) Point { return Point{last.At + 10*time.Second, last.V} },
		"in pages": func(last Point) Point { return Point{last.At + time.Second, Bytes(rng.Int64N(1<<25)) * page} },
		"any":      func(Point) Point { return Point{time.Duration(rng.Uint64()), Bytes(rng.Uint64())} },
		"extremes": func(last Point) Point { return Point{math.MaxInt64 ^ last.At, math.MinInt64 ^ last.V} },
	} {
		var p Points
		var want []Point
		for range 3 * MaxPoints {
			at := next(p.Last())
			p.Push(at)
			want = append(want, at)
			want = want[max(0, len(want)-MaxPoints):]
			if got := p.Append(nil); !slices.Equal(got, want) || p.Len() != len(want) || p.First() != want[0] || p.Last() != at {
				t.Fatalf("%s: %v\nwant %v", name, got, want)
			}
		}
		var again Points
		if b, _ := p.GobEncode(); again.GobDecode(b) != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%s: restored as %v, want %v", name, again.Append(nil), want)
		}
	}
}

// A window that is restored goes on as it would have.
func TestWindowIsRestored(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	w := Window{Span: 5 * time.Minute}
	for i := range 1000 {
		var again Window
		if b, _ := w.GobEncode(); again.GobDecode(b) != nil || again.Span != w.Span || again.open != w.open || again.Closed != w.Closed || !slices.Equal(again.closed(nil), w.closed(nil)) {
			t.Fatalf("sample %d: %+v, want %+v", i, again, w)
		}
		at := start + time.Duration(i)*time.Second
		if i > 700 {
			at += 4 * time.Minute
		}
		w.Add(at, Bytes(rng.Int64N(1<<40)), time.Second, rng.IntN(2))
	}
}

// What is no row, or one too many, is refused.
func TestRowsThatCannotBe(t *testing.T) {
	rows := func(n int, b []byte, numbers int) []byte {
		for range n {
			b = appendRow(b, make([]uint64, numbers))
		}
		return b
	}
	span := appendRow(nil, []uint64{uint64(time.Hour)})
	for name, c := range map[string]struct {
		to interface{ GobDecode(b []byte) error }
		b  []byte
		ok bool
	}{
		"no points":                  {&Points{}, nil, true},
		"all points":                 {&Points{}, rows(MaxPoints, nil, pointNumbers), true},
		"too many points":            {&Points{}, rows(MaxPoints+1, nil, pointNumbers), false},
		"a point without its end":    {&Points{}, []byte{0x88, 1, 2, 3}, false},
		"no window":                  {&Window{}, nil, false},
		"a span without its end":     {&Window{}, span[:len(span)-1], false},
		"a window without a block":   {&Window{}, span, true},
		"all blocks":                 {&Window{}, rows(MaxBlocks, span, blockNumbers), true},
		"too many blocks":            {&Window{}, rows(MaxBlocks+1, span, blockNumbers), false},
		"a block without its end":    {&Window{}, append(slices.Clone(span), 0, 0, 0, 0, 1), false},
		"the half of a block's head": {&Window{}, append(slices.Clone(span), 0, 0), false},
	} {
		if err := c.to.GobDecode(c.b); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzRows: whatever the bytes are, they are refused or are those of what was read.
func FuzzRows(f *testing.F) {
	var p Points
	w := Window{Span: time.Hour}
	for i := range 300 {
		at := start + time.Duration(i)*time.Minute
		p.Push(Point{at, Bytes(i) << 20})
		w.Add(at, Bytes(i)<<20, time.Minute, 0)
	}
	points, _ := p.GobEncode()
	window, _ := w.GobEncode()
	f.Add(points)
	f.Add(window)
	f.Fuzz(func(t *testing.T, b []byte) {
		var p, samePoints Points
		if p.GobDecode(b) == nil {
			again, _ := p.GobEncode()
			if samePoints.GobDecode(again) != nil || !reflect.DeepEqual(p, samePoints) {
				t.Errorf("%v, then %v", p.Append(nil), samePoints.Append(nil))
			}
		}
		var w, sameWindow Window
		if w.GobDecode(b) == nil && w.Check(start) && w.open.N > 0 {
			again, _ := w.GobEncode()
			if sameWindow.GobDecode(again) != nil || !reflect.DeepEqual(w, sameWindow) {
				t.Errorf("%+v, then %+v", w, sameWindow)
			}
		}
	})
}

// A point takes half of its 16 bytes.
func TestRoomOfPoints(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for name, c := range map[string]struct {
		move int64 // pages
		most int
	}{"it stays": {0, 6}, "a page": {1, 8}, "2 MiB": {512, 8}, "gigabytes": {1 << 20, 10}} {
		var p Points
		for i := range 1000 {
			p.Push(Point{start + time.Duration(i)*10*time.Second + time.Duration(rng.Int64N(1e6)), Bytes(rng.Int64N(3)*c.move) * page})
		}
		if bytes := cap(p.rest); bytes > 88*(c.most+2) {
			t.Errorf("%s: a point takes %d bytes, more than %d", name, bytes/88, c.most+2)
		}
	}
}
