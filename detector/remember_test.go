// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

// A program that grows for an hour in each of its lives, and then stays, is called a leak in its first
// one at most; what grows above that is told, and so is what grows as before, where nobody remembers.
func TestEarlierLives(t *testing.T) {
	const life, pause, grows = 3 * 3600, 600, 5400
	id := lives.ID{Exact: 1, Kin: 2}
	fills := func(n int) func(s int) float64 { // by how much life n differs
		return func(s int) float64 { return 20*gib + float64(min(s, grows))*4*mib*(1+0.02*float64(n%2)) }
	}
	leaks := func(s int) float64 { return 20*gib + float64(s)*4*mib }
	for _, c := range []struct {
		name  string
		book  bool
		last  func(s int) float64 // the memory of the fourth life
		alarm [4]bool
	}{
		{"healthy, remembered", true, fills(3), [4]bool{true, false, false, false}},
		{"healthy, forgotten", false, fills(3), [4]bool{true, true, true, true}},
		{"then it leaks", true, leaks, [4]bool{true, false, false, true}},
	} {
		d := newDomain(t)
		if c.book {
			d.Remember(lives.NewBook())
		}
		var alarm [4]bool
		told, height := 0.0, 20*gib+grows*4*mib*1.02
		for n := range alarm {
			memory := fills(n)
			if n == 3 {
				memory = c.last
			}
			begin := n * (life + pause)
			for s := 0; s < life; s += 5 {
				m := proc(n, memory(s))
				m.Lives, m.Started, m.Program = id, second(begin), "train.py"
				leak := show(t, d, frame(begin+s, 0, m)).Device.Leak
				if leak && n == 3 && told == 0 {
					told = memory(s)
				}
				alarm[n] = alarm[n] || leak
			}
			for s := life; s < life+pause; s += 5 {
				show(t, d, frame(begin+s, 0))
			}
		}
		if alarm != c.alarm {
			t.Errorf("%s: alarms in lives %v, want %v", c.name, alarm, c.alarm)
		}
		if c.book && told > 0 && (told < height || told > 1.03*height+15*60*4*mib) {
			t.Errorf("%s: told at %.1f GiB, above %.1f", c.name, told/gib, height/gib)
		}
	}
}
