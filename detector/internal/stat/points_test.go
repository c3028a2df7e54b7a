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

// Points are kept to the nanosecond and the byte, however far apart they are, and the oldest one goes. They take bounded room.
func TestPointsAreKeptAsTheyAre(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	in := func(step Bytes) func(Point) Point { // levels that are so many bytes apart
		return func(last Point) Point {
			return Point{last.At + 10*time.Second + time.Duration(rng.Int64N(1e6)), Bytes(rng.Int64N(3)) * step}
		}
	}
	for name, c := range map[string]struct {
		next func(last Point) Point
		most int // bytes a point
	}{
		"it stays":  {in(0), 12},
		"2 MiB":     {in(2 * mib), 12},
		"gigabytes": {in(4 << 30), 14},
		"any":       {func(Point) Point { return Point{time.Duration(rng.Uint64()), Bytes(rng.Uint64())} }, 32},
		"extremes":  {func(last Point) Point { return Point{math.MaxInt64 ^ last.At, math.MinInt64 ^ last.V} }, 32},
	} {
		var p Points
		var want []Point
		for range 3 * MaxPoints {
			at := c.next(p.Last())
			p.Push(at)
			want = append(want, at)
			want = want[max(0, len(want)-MaxPoints):]
			if got := p.Append(nil); !slices.Equal(got, want) || p.Len() != len(want) || p.First() != want[0] || p.Last() != at {
				t.Fatalf("%s: %v\nwant %v", name, got, want)
			}
		}
		if bytes := cap(p.all); bytes > MaxPoints*c.most {
			t.Errorf("%s: a point takes %d bytes, more than %d", name, bytes/MaxPoints, c.most)
		}
	}
}

// FuzzPoints: whatever the bytes are, they are refused or are those of what was read.
func FuzzPoints(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte{0x88, 1, 2, 0x83})
	for _, n := range []int{1, MaxPoints, MaxPoints + 1} {
		f.Add(make([]byte, 2*n)) // so many points
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var p, again Points
		if p.GobDecode(b) != nil {
			return
		}
		if saved, _ := p.GobEncode(); again.GobDecode(saved) != nil || !reflect.DeepEqual(p, again) {
			t.Errorf("%v, then %v", p.Append(nil), again.Append(nil))
		}
	})
}

// What ends within a point, or has one too many, is refused.
func TestPointsThatCannotBe(t *testing.T) {
	for n, ok := range map[int]bool{0: true, 1: false, 2: true, 2 * MaxPoints: true, 2*MaxPoints + 2: false} {
		var p Points
		if err := p.GobDecode(make([]byte, n)); (err == nil) != ok || ok && p.Len() != n/2 {
			t.Errorf("%d bytes: %d points, %v", n, p.Len(), err)
		}
	}
	if err := new(Points).GobDecode([]byte{0, 0x80}); err == nil {
		t.Error("a number without an end is accepted")
	}
}
