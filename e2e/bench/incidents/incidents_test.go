// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package incidents

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// TestIncidents lives each report to its end: it is complete, ends as it was told, and the same seed gives the same story.
func TestIncidents(t *testing.T) {
	all, err := All()
	if err != nil || len(all) != 148 {
		t.Fatalf("%d reports, %v", len(all), err)
	}
	kinds := map[string]bool{}
	for i := range all {
		one := &all[i]
		t.Run(one.Kind, func(t *testing.T) {
			t.Parallel()
			s, again := New(one, 1), New(one, 1)
			watchStory(t, s, again)
			checkEnding(t, one.Ending, s)
			if !reflect.DeepEqual(s.Truth, again.Truth) {
				t.Error("the same seed gives another story")
			}
		})
		if kinds[one.Kind] || one.Told == "" || one.Assumed == "" || !strings.HasPrefix(one.Thread, "https://") || strings.Count(one.Thread, "/") < 6 {
			t.Errorf("%+v is not complete, or there twice", one)
		}
		kinds[one.Kind] = true
	}
}

// watchStory reads a story to its end.
func watchStory(t *testing.T, s, again *Story) {
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
	if again.Next(&b) {
		t.Error("the same seed gives a longer story")
	}
	if s.Err != nil || last < epoch+s.Truth.Length-s.Interval {
		t.Errorf("ends at %v, %v", last-epoch, s.Err)
	}
}

// checkEnding checks that a story ends as its report does.
func checkEnding(t *testing.T, ending string, s *Story) {
	t.Helper()
	leaks, ooms, stuck := len(s.Truth.Leaks), len(s.Truth.OOMs), len(s.Zombies)+len(s.Unreleased)
	switch ending {
	case "fills":
		if leaks == 0 || ooms == 0 || stuck > 0 {
			t.Errorf("%d leaks, %d out-of-memories, %d that are held", leaks, ooms, stuck)
		}
	case "goes on":
		if leaks == 0 || stuck > 0 {
			t.Errorf("%d leaks, %d that are held", leaks, stuck)
		}
	case "holds":
		if leaks > 0 || ooms > 0 || stuck == 0 {
			t.Errorf("%d leaks, %d out-of-memories, %d that are held", leaks, ooms, stuck)
		}
	case "was none":
		if leaks > 0 || ooms > 0 || stuck > 0 {
			t.Errorf("%d leaks, %d out-of-memories, %d that are held", leaks, ooms, stuck)
		}
	default:
		t.Errorf("ending %q", ending)
	}
}

// TestDraw reads quantities as the comment of the package says.
func TestDraw(t *testing.T) {
	s := New(&Incident{GPU: 24, Hours: 1}, 1)
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
	if s.Err != nil {
		t.Error(s.Err)
	}
	if s.draw("many", 0); s.Err == nil {
		t.Error("a word is a quantity")
	}
}
