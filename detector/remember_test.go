// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"testing"
	"time"

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

// A process that runs over a restart is still held against its earlier lives; the life of one that ended
// meanwhile, listed or awaited before, is noted as of its last sample.
func TestLivesOverARestart(t *testing.T) {
	const begin, end, back = 3600, 7200, 9000 // seconds
	id := lives.ID{Exact: 1, Kin: 2, Basis: lives.BasisProgram, Program: "train.py"}
	member := func() Member[int] {
		m := proc(1, 20*gib)
		m.Lives, m.Started = id, second(begin)
		return m
	}
	for _, c := range []struct {
		name      string
		lost      int  // frames before the end that lack it, though its memory is in use
		complete  bool // the lists after the restart are
		stays     bool
		ended     int // when its life is noted to have ended; 0 not at all
		remembers bool
	}{
		{"it stays", 0, true, true, 0, true},
		{"it is gone", 0, true, false, end, true},
		{"it is gone, and lists are not complete", 0, false, false, end, true},
		{"it was awaited", 1, true, false, end - 10, true},
		{"nothing is remembered", 0, true, false, 0, false},
	} {
		before := newDomain(t)
		before.Remember(lives.NewBook())
		for s := begin; s <= end; s += 10 {
			if f := frame(s, gib, member()); s > end-10*c.lost {
				f.Members, f.Used = nil, Of(21*gib)
				show(t, before, f)
			} else {
				show(t, before, f)
			}
		}
		saved := before.Save(nil)
		book, after := lives.NewBook(), newDomain(t)
		for d := range 3 {
			book.Add(id, &lives.Life{Ended: lives.SecondsOf(start - time.Duration(d)*time.Hour), Height: 30 * gib, Peak: 30 * gib}, start)
		}
		if c.remembers {
			after.Remember(book)
		}
		if err := after.Restore(saved, anyone); err != nil {
			t.Fatal(err)
		}
		var j *Judgement[int]
		for s := back; s < back+120; s += 10 {
			f := frame(s, gib)
			if c.stays {
				f = frame(s, gib, member())
			}
			f.Complete = c.complete
			j = show(t, after, f)
		}
		if c.stays && (j.Members[0].Earlier.Lives != 3 || math.Abs(j.Members[0].Earlier.Ceiling.V-1.03*30*gib) > gib/100) {
			t.Errorf("%s: %+v is known of it", c.name, j.Members[0].Earlier)
		}
		all := book.Programs()[0].Lives
		if last := all[len(all)-1]; (len(all) == 4) != (c.ended > 0) || c.ended > 0 && (last.Ended != lives.SecondsOf(second(c.ended)) || last.Lasted < 3590 || last.Height < 19*gib) {
			t.Errorf("%s: %d lives, the last one %+v", c.name, len(all), last)
		}
	}
}
