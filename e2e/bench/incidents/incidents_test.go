// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package incidents

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// TestIncidents lives each report to its end: it is complete, ends as it was told, and the same seed gives the same story.
func TestIncidents(t *testing.T) {
	all := All()
	kinds := map[string]bool{}
	for i := range all {
		one := &all[i]
		t.Run(one.Kind, func(t *testing.T) {
			t.Parallel()
			s, again := one.Family().Draw(1), one.Family().Draw(1)
			watchStory(t, s, again)
			checkEnding(t, one.Ending, &s.Truth)
			if !reflect.DeepEqual(s.Truth, again.Truth) {
				t.Error("the same seed gives another story")
			}
		})
		if kinds[one.Kind] || one.Told == "" || one.Assumed == "" || !strings.HasPrefix(one.Thread, "https://") || strings.Count(one.Thread, "/") < 6 {
			t.Errorf("%+v is not complete, or there twice", one)
		}
		kinds[one.Kind] = true
	}
	if len(all) != 148 {
		t.Errorf("%d reports", len(all))
	}
}

// watchStory reads a story to its end.
func watchStory(t *testing.T, s, again *fleet.Scenario) {
	t.Helper()
	var a, b gpu.Sample
	last := time.Duration(0)
	for s.Next(&a) {
		if !again.Next(&b) || a.T != b.T || a.Memory != b.Memory || len(a.Processes) != len(b.Processes) {
			t.Fatalf("%v and %v", a, b)
		}
		sum := uint64(0)
		for _, p := range a.Processes {
			sum += p.Used.V
		}
		if a.T <= last || a.Memory.Used.V > a.Memory.Total.V || sum > a.Memory.Used.V {
			t.Fatalf("at %v after %v: %d MiB of processes, %d in use of %d", a.T, last, sum/mib, a.Memory.Used.V/mib, a.Memory.Total.V/mib)
		}
		last = a.T
	}
	if again.Next(&b) || last < epoch+s.Truth.Length-s.Interval {
		t.Errorf("ends at %v, or the same seed gives a longer story", last-epoch)
	}
}

// checkEnding checks that a story ends as its report does: with leaks, out-of-memories and what is held for nobody, or without.
func checkEnding(t *testing.T, ending string, truth *fleet.Truth) {
	t.Helper()
	leaks, ooms, stuck := len(truth.Leaks) > 0, len(truth.OOMs) > 0, len(truth.Zombies)+len(truth.Unreleased) > 0
	want, known := map[string][3]bool{
		"fills": {true, true, false}, "goes on": {true, ooms, false}, "holds": {false, false, true}, "was none": {},
	}[ending]
	if !known || want != [3]bool{leaks, ooms, stuck} {
		t.Errorf("%q: leaks %t, out-of-memories %t, held %t", ending, leaks, ooms, stuck)
	}
}

// TestDraw reads quantities as the comment of the package says.
func TestDraw(t *testing.T) {
	s := newStory(&Incident{GPU: 24, Hours: 1}, 1)
	for text, want := range map[string][2]float64{
		"": {0, 0}, "5": {5, 5}, "2..4": {2, 4}, "3~50": {3, 50}, "1..2h": {3600, 7200}, "10m~2h": {600, 7200}, "free/4": {250, 250},
		"free-100..200": {800, 900}, "free*0.5": {500, 500}, "1000g": {1000 - s.driver, 1000 - s.driver}, "0.5c": {0.45 * 24 * 1024, 0.5 * 24 * 1024},
	} {
		if got := s.draw(text, 1000); got < want[0] || got > want[1] {
			t.Errorf("%q is %g", text, got)
		}
	}
	if a, b := s.draw("100-1000", 0), s.draw("100-1000", 0); b < 0.94*a || b > 1.06*a {
		t.Errorf("what is drawn once is %g, and %g", a, b)
	}
	defer func() {
		if recover() == nil {
			t.Error("a word is a quantity")
		}
	}()
	s.draw("many", 0)
}
