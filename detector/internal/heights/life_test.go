// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package heights

import (
	"math"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

const (
	gib = 1 << 30
	// start is when the lives of the tests begin: 0 would mean "never" in many a field.
	start = 1000 * time.Hour
	// total is the capacity, and step the time between samples.
	total, step = 80.0 * gib, 15 * time.Second
)

// leg is a while in which a program holds so many GiB.
type leg struct {
	minutes int
	holds   float64
}

// live gives a life those legs, beside others that hold so many GiB, and returns when the last sample was.
func live(l *Life, r *Record, others float64, leaks bool, legs ...leg) time.Duration {
	t := max(start, l.Minute)
	for _, leg := range legs {
		for end := t + time.Duration(leg.minutes)*time.Minute; t < end; {
			t += step
			if l.Note(t, leg.holds*gib, (leg.holds+others)*gib/total) {
				l.Learn(t, r, math.Inf(1), leaks)
			}
		}
	}
	return t
}

// highest are the highest heights of a record by kind, in GiB.
func highest(r *Record, now time.Duration) (list [kinds]float64) {
	for k := range r.Given {
		list[k] = r.Given[k].Highest(math.Inf(-1), 0, now) / gib
	}
	return list
}

// A peak is closed at half of its height above the lowest use, and counts when its program has lived for a
// quarter of an hour more.
func TestPeaks(t *testing.T) {
	for _, c := range []struct {
		name  string
		legs  []leg
		given float64 // GiB, of crests
	}{
		{"nothing falls", []leg{{20, 10}, {60, 50}}, 0},
		{"it falls to half", []leg{{20, 10}, {20, 50}, {30, 30}}, 50},
		{"it falls to more than that", []leg{{20, 10}, {20, 50}, {30, 31}}, 0},
		{"half is taken above the lowest use", []leg{{20, 40}, {20, 50}, {30, 45}}, 50},
		{"a new lowest use is a fall", []leg{{20, 40}, {20, 50}, {30, 39}}, 50},
		{"it has not lived for long enough", []leg{{20, 10}, {20, 50}, {15, 10}}, 0},
		{"just for long enough", []leg{{20, 10}, {20, 50}, {17, 10}}, 50},
		{"it is soon as high again", []leg{{20, 10}, {20, 50}, {1, 10}, {16, 50}}, 50},
		{"it falls in two steps", []leg{{20, 10}, {20, 50}, {20, 35}, {20, 25}}, 50},
		{"the first one counts, the second not yet", []leg{{20, 10}, {20, 50}, {12, 10}, {2, 60}, {6, 10}}, 50},
		{"of two the higher one", []leg{{20, 10}, {20, 50}, {12, 10}, {2, 60}, {30, 10}}, 60},
		// A program begins with nothing: that is no height to fall to.
		{"it loads", []leg{{5, 1}, {20, 30}, {20, 50}, {30, 40}}, 50},
		{"what it held while it loaded", []leg{{5, 50}, {5, 10}, {60, 20}}, 50},
	} {
		var l Life
		var r Record
		end := live(&l, &r, 0, false, c.legs...)
		testkit.Equal(t, highest(&r, end)[Crest], c.given, "%s: GiB that were given back", c.name)
	}
}

// A low is that of half an hour: an evaluation of minutes is none.
func TestLows(t *testing.T) {
	for minutes, want := range map[int]float64{6: 0, 29: 0, 61: 50, 120: 50} {
		var l Life
		var r Record
		end := live(&l, &r, 0, false, leg{60, 10}, leg{minutes, 50}, leg{100, 10})
		testkit.Equal(t, highest(&r, end), [kinds]float64{50, want}, "it holds 50 GiB for %d minutes: GiB that were given back", minutes)
	}
}

// Crests and lows are two heights: a peak of seconds is one of crests alone.
func TestCrestsAndLows(t *testing.T) {
	var l Life
	var r Record
	end := time.Duration(0)
	for range 60 { // each minute holds both
		live(&l, &r, 0, false, leg{1, 20})
		end = l.Minute + step
		l.Note(end, 50*gib, 0)
	}
	end = live(&l, &r, 0, false, leg{30, 20})
	if got := highest(&r, end); got[Crest] != 50 || got[Low] > 20 {
		t.Errorf("%v GiB were given back, want crests of 50, and no low above 20", got)
	}
}

// What a program held is given back by its end, unless that may have been an out-of-memory.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		name   string
		others float64
		legs   []leg
		given  float64 // GiB
		known  bool    // it is told after the end that this was a good one
		lives  int
	}{
		{"in a memory that is not full", 0, []leg{{60, 50}}, 50, false, 1},
		{"at 92 %", 0, []leg{{60, 73.6}}, 73.6, false, 1},
		{"at 93 %", 0, []leg{{60, 74.4}}, 0, false, 0},
		{"others have filled it", 40, []leg{{60, 40}}, 0, false, 0},
		{"it was full, and is not for less than a quarter of an hour", 0, []leg{{60, 76}, {14, 50}}, 0, false, 0},
		{"and for a quarter of an hour", 0, []leg{{60, 76}, {16, 50}}, 76, false, 1},
		// So PyTorch dies: it gives back all that it can, and tries again.
		{"it falls below half and dies", 0, []leg{{60, 10}, {60, 79}, {2, 20}}, 0, false, 0},
		{"it was full, and is known to have ended well", 0, []leg{{60, 76}}, 76, true, 1},
		{"it falls below half, and is known to have ended well", 0, []leg{{60, 10}, {60, 79}, {2, 20}}, 79, true, 1},
		{"a short life", 0, []leg{{5, 50}}, 50, false, 0},
		{"a short life that was full, and is known to have ended well", 0, []leg{{5, 79}}, 79, true, 0},
		{"no minute was whole", 0, []leg{{1, 50}}, 50, false, 0},
		{"it never held anything", 0, nil, 0, false, 0},
	} {
		var l Life
		b := NewBook()
		var r *Record
		b.With(1, start, func(of *Record) { r = of })
		end := live(&l, r, c.others, false, c.legs...)
		l.End(end, r, false)
		if c.known && !b.Ended(1, end+30*time.Second) {
			t.Errorf("%s: nobody knows of its end", c.name)
		}
		if got := highest(r, end); got != [kinds]float64{c.given, c.given} || r.Lives != c.lives {
			t.Errorf("%s: %v GiB were given back in %d lives, want %v in %d", c.name, got, r.Lives, c.given, c.lives)
		}
	}
}

// A life that is known to leak teaches the verdict nothing, whatever it gave back.
func TestLeaksTeachNoLows(t *testing.T) {
	for _, c := range []struct {
		name string
		legs []leg
		want [kinds]float64
	}{
		{"a peak", []leg{{20, 10}, {20, 50}, {30, 10}}, [kinds]float64{50, 0}},
		{"the end", []leg{{60, 50}}, [kinds]float64{50, 0}},
	} {
		var l Life
		var r Record
		end := live(&l, &r, 0, true, c.legs...)
		l.End(end, &r, true)
		if got := highest(&r, end); got != c.want || r.Lives != 0 {
			t.Errorf("%s: %v GiB in %d lives, want %v in none", c.name, got, r.Lives, c.want)
		}
	}
}

// What was as high as a full memory has not been given back by a fall: of a memory nobody knows who died.
func TestMost(t *testing.T) {
	for most, want := range map[float64]float64{50 * gib: 0, 51 * gib: 50} {
		var l Life
		var r Record
		end := live(&l, &Record{}, 0, false, leg{20, 10}, leg{20, 50}, leg{14, 10})
		end += 5 * time.Minute
		l.Learn(end, &r, most, false)
		testkit.Equal(t, highest(&r, end)[Crest], want, "at most %v GiB: GiB that were given back", most/gib)
	}
}

// What was given back of a peak is measured where it is closed; at the end of a program it is all.
func TestHowMuchWasGivenBack(t *testing.T) {
	var r Record
	var l Life
	live(&l, &r, 0, false, leg{20, 10}, leg{20, 50}, leg{5, 30}, leg{5, 25}, leg{20, 30})
	testkit.Equal(t, r.Given[Crest].Last[0].Fell, 20*gib, "what was given back of the peak")
	l.End(live(&l, &r, 0, false, leg{20, 40}), &r, false)
	testkit.Equal(t, r.Given[Crest].Last[r.Given[Crest].N-1].Fell, 40*gib, "what was given back at the end, which is all")
}
