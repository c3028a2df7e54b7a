// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

func family(t *testing.T, name string) *Family {
	t.Helper()
	list := Families()
	i := slices.IndexFunc(list, func(f Family) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("no family %s", name)
	}
	return &list[i]
}

// TestChainIsOneClock lives a chain of each kind with a family of its own: samples are in order, also over the pauses, no process
// is there twice, the lives follow each other, and what leaks does so in the lives that are meant.
func TestChainIsOneClock(t *testing.T) {
	for i, name := range []string{
		"serve_plain", "sorted_batches", "kept_outputs", "native_library", "train_fixed_length", "prefetch_queue", "kept_autograd_graph", "kept_autograd_graph", "index_build", "kept_outputs",
	} {
		k, f := kinds[i], family(t, name)
		if !k.Takes(f) {
			t.Errorf("%s does not take %s", k.Name, name)
		}
		c := k.Chain(f, uint64(i))
		if !follow(t, i, &c.Scenario, math.MaxInt) {
			t.Errorf("%s: no end", k.Name)
		}
		checkTruth(t, i, Family{Class: f.Class}, &c.Scenario)
		end, leaky := c.Truth.Start, 0
		for _, l := range c.Lives {
			if l.From < end+l.Pause || l.Until <= l.From {
				t.Errorf("%s: life %d from %v to %v, after %v", k.Name, l.Number, l.From, l.Until, end)
			}
			leaks := slices.ContainsFunc(c.Truth.Leaks, func(x LeakTruth) bool { return end < x.From && x.Until <= l.Until && x.Retained > 0 })
			if want := f.Class == Leak && !l.Healthy; leaks != want {
				t.Errorf("%s: life %d leaks: %t", k.Name, l.Number, leaks)
			} else if want {
				leaky++
			}
			end = l.Until
		}
		if c.Truth.Start+c.Truth.Length != end || len(c.Truth.Leaks) != leaky || len(c.Lives) != k.Count {
			t.Errorf("%s: %d leaks in %d lives, %d of them leak", k.Name, len(c.Truth.Leaks), len(c.Lives), leaky)
		}
	}
}

// TestLifeIsTheSameProgram looks at what a life has in common with the first one.
func TestLifeIsTheSameProgram(t *testing.T) {
	f := family(t, "serve_plain")
	for name, c := range map[string]struct {
		change func(l *Life)
		same   bool
	}{
		"the same again": {func(*Life) {}, true}, "in another pod": {func(l *Life) { l.Place = 1 }, true},
		"more data": {func(l *Life) { l.Data = 1.2 }, true}, "another batch": {func(l *Life) { l.Batch = 0.5 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			again := first
			c.change(&again)
			chain := f.Chain(3, []Life{first, again})
			ids := map[bool]map[string]uint64{false: {}, true: {}}
			totals := map[gpu.Opt[uint64]]bool{}
			var s gpu.Sample
			for chain.Next(&s) {
				totals[s.Memory.Total] = true
				for _, p := range s.Processes {
					ids[s.T >= chain.Lives[1].From && chain.Lives[1].From > 0][p.Owner.Process] = p.Owner.Runs
				}
			}
			if len(totals) != 1 || len(ids[true]) == 0 || len(ids[false]) != len(ids[true]) {
				t.Fatalf("totals %v, programs %v", totals, ids)
			}
			for program, was := range ids[false] {
				if is := ids[true][program]; is == 0 || (is == was) != c.same {
					t.Errorf("%s: %d after %d", program, is, was)
				}
			}
		})
	}
}

func TestSeedGivesTheSameChain(t *testing.T) {
	f := family(t, "kept_autograd_graph")
	a, b, other := kinds[2].Chain(f, 7), kinds[2].Chain(f, 7), kinds[2].Chain(f, 8)
	var s, u gpu.Sample
	for a.Next(&s) {
		if !b.Next(&u) || !reflect.DeepEqual(s, u) {
			t.Fatalf("%+v and %+v", s, u)
		}
	}
	for other.Next(&u) {
		continue
	}
	if !reflect.DeepEqual(a.Truth, b.Truth) == b.Next(&u) || reflect.DeepEqual(a.Truth, other.Truth) {
		t.Error("the same seed gives another truth, or another seed the same")
	}
}
