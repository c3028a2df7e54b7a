// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math/rand/v2"
	"testing"
)

// What comes after an hour of a leak, of a MiB a second, that stands still then.
func TestLeakThatStoodStill(t *testing.T) {
	const begins, stands = 3600, 7200
	jitter := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name string
		then func(sec int) float64 // MiB above what it left, seconds since
		told int                   // how often, within six hours
		last [2]int                // the last time, or its end: seconds since
	}{
		{"nothing", func(int) float64 { return 0 }, 1, [2]int{360, 720}},
		{"a little more each half hour", func(sec int) float64 { return 2 * float64(min(sec/1800, 7)) }, 1, [2]int{360, 720}},
		{"a little of one block in three", func(int) float64 { return float64(4 * max(0, jitter.IntN(3)-1)) }, 1, [2]int{360, 3600}},
		{"a request now and then", func(sec int) float64 { return 500 * float64(max(0, sec%900-840)/59) }, 1, [2]int{360, 3600}},
		{"growth, after an hour", func(sec int) float64 { return max(0, float64(sec)-3600) }, 2, [2]int{3600, 4080}},
		{"given back, and growth from there, after two hours", func(sec int) float64 {
			if sec < 3600 {
				return 0
			}
			return -3600 + 8*max(0, float64(sec)-7200)
		}, 2, [2]int{7200, 8400}},
	} {
		changes := leaking(stands+6*3600, func(sec int) float64 {
			used := 10*gib + float64(max(0, min(sec, stands)-begins))*mib
			if sec >= stands {
				used += c.then(sec-stands) * mib
			}
			return used
		})
		told, last := (len(changes)+1)/2, changes[len(changes)-1]-stands
		if told != c.told || last < c.last[0] || last > c.last[1] {
			t.Errorf("%s: a leak from and to %v, want it %d times, and a change between %d and %d s after %d", c.name, changes, c.told, c.last[0], c.last[1], stands)
		}
	}
}

// While it stands still it is less and less sure, and foreseen until it is over.
func TestLeakThatStandsStillIsLessSure(t *testing.T) {
	const begins, stands = 3600, 3600 + 4*3600
	s := newSeries(DefaultConfig())
	var sure, ended int
	follow(s, 0, stands+3600, func(sec int) sample {
		return sample{used: 10*gib + float64(max(0, min(sec, stands)-begins))*mib}
	}, func(sec int) {
		if s.leak.on && s.leak.confidence == 1 {
			sure = sec - stands
		}
		if s.leak.on {
			ended = sec - stands
		}
		if sec > stands+900 && s.leak.confidence > 0 {
			t.Fatalf("confidence %g %d s after it stands still", s.leak.confidence, sec-stands)
		}
	})
	if sure < 340 || sure > 400 || ended < 570 || ended > 640 {
		t.Errorf("sure for %d s, a leak for %d s", sure, ended)
	}
}

// Under noise a leak that goes on does not stand still, however seldom it is seen at a new top.
func TestLeakUnderNoiseDoesNotStandStill(t *testing.T) {
	for _, sd := range []float64{0, 3, 30, 100} { // MiB
		for _, rate := range []float64{0.5, 2} { // MiB/s
			noise := rand.New(rand.NewPCG(3, 4))
			changes := leaking(6*3600, func(sec int) float64 {
				return 20*gib + sd*mib*noise.NormFloat64() + rate*mib*float64(max(0, sec-3600))
			})
			if len(changes) != 1 {
				t.Errorf("noise of %g MiB, %g MiB/s: a leak from and to %v", sd, rate, changes)
			}
		}
	}
}

// What passes the top of before on its way up does not stand still: after a request, or with a cache
// emptied, a leak needs hours to come back to it.
func TestLeakThatPassesItsOldTop(t *testing.T) {
	for _, c := range []struct {
		name string
		at   func(sec int) float64 // MiB, seconds after the leak began
	}{
		{"a request", func(sec int) float64 { return 0.2*float64(sec) + 600*float64(btoi(sec >= 4800 && sec < 4860)) }},
		{"a little given back", func(sec int) float64 { return 0.5*float64(sec) - 360*float64(btoi(sec > 7200)) }},
	} {
		changes := leaking(8*3600, func(sec int) float64 { return 10*gib + c.at(max(0, sec-7200))*mib })
		if len(changes) != 1 {
			t.Errorf("%s: a leak from and to %v", c.name, changes)
		}
	}
}

// What grows on from where it rested is no other growth, and its rests stay known: a leak that rests each
// other hour is told twice, and not every two hours.
func TestRestsStayKnown(t *testing.T) {
	changes := leaking(12*3600, func(sec int) float64 {
		sec = max(0, sec-7200)
		return 10*gib + 0.5*mib*float64(sec/7200*3600+min(sec%7200, 3600))
	})
	if len(changes) != 3 {
		t.Errorf("a leak from and to %v", changes)
	}
}

// A slow leak that was over, gives a tenth back and goes on is told when it is above its old top again, however
// long it took to get there; what a request holds for a minute ends no rest.
func TestSlowLeakGoesOn(t *testing.T) {
	const stands = 6 * 3600
	for _, c := range []struct {
		name string
		then func(sec int) float64 // MiB, seconds after the leak stood still
		told int
	}{
		{"a slow leak from below", func(sec int) float64 { return 0.3*float64(max(0, sec-900)) - 2160*float64(btoi(sec > 900)) }, 2},
		{"requests", func(sec int) float64 { return 300 * float64(btoi(sec > 1800 && sec%3600 > 3500)) }, 1},
	} {
		changes := leaking(16*3600, func(sec int) float64 {
			sec -= 7200
			return 10*gib + (float64(max(0, min(sec, stands)))+c.then(max(0, sec-stands)))*mib
		})
		if told := (len(changes) + 1) / 2; told != c.told {
			t.Errorf("%s: a leak from and to %v", c.name, changes)
		}
	}
}
