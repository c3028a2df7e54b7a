// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"math"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// fact is what a frame tells of a process.
type fact struct {
	at    int // s
	sm    stat.Value
	cpu   stat.Value // s
	state State
}

// From when a process has done nothing, from when it is lost, and whether that is known, by frames of
// which one a second is typical.
func TestActivity(t *testing.T) {
	none, gap := stat.Value{}, int(factGap.Seconds())
	still := func(at int) fact { return fact{at, stat.Of(0), stat.Of(5), StateAlive} }
	with := func(f fact, change func(f *fact)) fact { change(&f); return f }
	state := func(at int, s State) fact { return with(still(at), func(f *fact) { f.state = s }) }
	for _, c := range []struct {
		name               string
		facts              []fact
		known, quiet, lost int // s; -1 not
	}{
		{"first seen", []fact{still(1)}, 1, 1, -1},
		{"still", []fact{still(1), still(30), still(60)}, 60, 1, -1},
		{"it computes", []fact{still(1), with(still(30), func(f *fact) { f.sm = stat.Of(0.01) }), still(60)}, 60, 30, -1},
		{"utilisation that is no number", []fact{still(1), with(still(30), func(f *fact) { f.sm = stat.Of(math.NaN()) })}, 30, 30, -1},
		{"a heartbeat", []fact{still(1), with(still(30), func(f *fact) { f.cpu.V += 0.05 })}, 30, 1, -1},
		{"work of a processor", []fact{still(1), with(still(30), func(f *fact) { f.cpu.V++ }), with(still(60), func(f *fact) { f.cpu.V++ })}, 60, 30, -1},
		{"less than before: another process", []fact{still(1), with(still(30), func(f *fact) { f.cpu.V = 1 })}, 30, 30, -1},
		{"no utilisation for a moment", []fact{still(1), with(still(30), func(f *fact) { f.sm = none }), still(60)}, 60, 1, -1},
		{"no utilisation at all", []fact{with(still(1), func(f *fact) { f.sm = none })}, -1, -1, -1},
		{"no processor time", []fact{still(1), with(still(30), func(f *fact) { f.cpu = none }), still(60)}, 60, 1, -1},
		{"processor time that is no number", []fact{with(still(1), func(f *fact) { f.cpu = stat.Of(math.NaN()) })}, -1, -1, -1},
		{"more than there can be", []fact{with(still(1), func(f *fact) { f.cpu = stat.Of(1e12) })}, -1, -1, -1},
		{"negative processor time", []fact{with(still(1), func(f *fact) { f.cpu = stat.Of(-1) })}, -1, -1, -1},
		{"an unknown state", []fact{state(1, StateUnknown)}, -1, -1, -1},
		{"facts are missing for as long as they may", []fact{still(1), still(1 + gap)}, 1 + gap, 1, -1},
		{"for longer", []fact{still(1), still(2 + gap)}, 2 + gap, 2 + gap, -1},
		{"it has exited, and holds nothing", []fact{still(1), state(30, StateZombieProcess)}, -1, 1, -1},

		{"an orphan", []fact{still(1), state(30, StateOrphaned), state(60, StateOrphaned)}, 60, 1, 30},
		{"an orphan that is unkillable at times", []fact{still(1), state(30, StateOrphaned), state(40, StateUnkillable), state(60, StateOrphaned)}, 60, 1, 30},
		{"adopted again", []fact{still(1), state(30, StateOrphaned), still(60)}, 60, 1, -1},
		{"unknown for a moment", []fact{still(1), state(30, StateOrphaned), state(40, StateUnknown), state(60, StateOrphaned)}, 60, 1, 30},
		{"an orphan of which nothing was known for long", []fact{state(1, StateOrphaned), state(2+gap, StateOrphaned)}, 2 + gap, 2 + gap, 2 + gap},
		{"unkillable, without utilisation", []fact{with(state(1, StateUnkillable), func(f *fact) { f.sm = none }), with(state(30, StateUnkillable), func(f *fact) { f.sm = none })}, 30, 1, 1},
		{"unkillable, and unknown for a moment", []fact{with(state(1, StateUnkillable), func(f *fact) { f.sm = none }), with(state(10, StateUnknown), func(f *fact) { f.sm = none }), state(30, StateUnkillable)}, 30, 1, 1},
		{"killable again, with utilisation", []fact{with(state(1, StateUnkillable), func(f *fact) { f.sm = none }), still(30)}, 30, 1, -1},
		{"killable again, without utilisation", []fact{with(state(1, StateUnkillable), func(f *fact) { f.sm = none }), with(still(30), func(f *fact) { f.sm = none })}, -1, 1, -1},
		{"unkillable, and utilisation is known at times", []fact{with(state(1, StateUnkillable), func(f *fact) { f.sm = none }), state(30, StateUnkillable)}, 30, 1, 1},
		{"unkillable, then gone, without utilisation", []fact{with(state(1, StateUnkillable), func(f *fact) { f.sm = none }), with(state(30, StateGone), func(f *fact) { f.sm, f.cpu = none, none })}, 30, 1, 1},
		{"unkillable, and it computes", []fact{state(1, StateUnkillable), with(state(30, StateUnkillable), func(f *fact) { f.sm = stat.Of(0.5) })}, 30, 30, 30},
		{"unkillable, and it uses a processor", []fact{state(1, StateUnkillable), with(state(30, StateUnkillable), func(f *fact) { f.cpu.V++ })}, 30, 30, 1},
		{"unkillable, without processor time", []fact{with(state(1, StateUnkillable), func(f *fact) { f.cpu = none })}, -1, -1, -1},
		{"an orphan, without utilisation", []fact{with(state(1, StateOrphaned), func(f *fact) { f.sm = none })}, -1, -1, -1},
		{"gone: it uses no more", []fact{still(1), with(state(30, StateGone), func(f *fact) { f.sm, f.cpu = none, none }), with(state(60, StateGone), func(f *fact) { f.sm, f.cpu = none, none })}, 60, 1, 30},
	} {
		var a Activity
		for _, f := range c.facts {
			a.Note(seconds(f.at), time.Second, 10*time.Minute, f.sm, f.cpu, f.state)
		}
		got := [3]time.Duration{a.Known, a.Quiet, a.Lost}
		var want [3]time.Duration
		for i, s := range []int{c.known, c.quiet, c.lost} {
			if s >= 0 {
				want[i] = seconds(s)
			}
		}
		testkit.Equal(t, got, want, "%s: since when it is known, quiet and lost", c.name)
	}
}

// Threads that look at a clock for hours are a heartbeat; twice as much is work, soon. Who seldom has frames is not unknown in between.
func TestHeartbeat(t *testing.T) {
	for _, c := range []struct {
		share float64
		every int // s
		quiet bool
	}{{0, 5, true}, {0, 300, true}, {heartbeat, 5, true}, {2 * heartbeat, 5, false}} {
		var a Activity
		for s := 0; s < 3600; s += c.every {
			a.Note(seconds(s), time.Duration(c.every)*time.Second, 10*time.Minute, stat.Of(0), stat.Of(c.share*float64(s)), StateAlive)
		}
		testkit.Equal(t, a.Quiet == start, c.quiet, "%g of a processor: whether it is quiet", c.share)
		// What was not used for long does not make up for work.
		a.Note(seconds(3600), 5*time.Second, 10*time.Minute, stat.Of(0), stat.Of(a.CPU+1), StateAlive)
		testkit.Equal(t, a.Quiet, seconds(3600), "%g of a processor, and then work: quiet since", c.share)
	}
	// However soon a process is a zombie, a few ticks of the clock are no work.
	for used, quiet := range map[float64]bool{0.9 * minHeartbeat: true, 1.1 * minHeartbeat: false} {
		var a Activity
		for s := range 2 {
			a.Note(seconds(s), time.Millisecond, time.Second, stat.Of(0), stat.Of(1+float64(s)*(used+heartbeat)), StateAlive)
		}
		testkit.Equal(t, a.Quiet == start, quiet, "%g s: whether it is quiet", used)
	}
}
