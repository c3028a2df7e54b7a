// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"math"
	"testing"
	"time"
)

// Growth that slows down, and ends at 73 % of the memory, is no leak and wakes nobody, whether it begins with
// its program or an hour after it; the straight line that it begins as is a leak.
func TestSlowing(t *testing.T) {
	const (
		interval = 15 // seconds
		hour     = 3600
		// waits is for how long an alert of a page waits before it fires, and briefly how long a ticket may stand.
		waits, briefly = 3 * time.Minute, 20 * time.Minute
	)
	for _, c := range []struct {
		tau      float64 // minutes
		lead     int     // seconds until the growth begins
		straight bool
	}{
		{20, 0, false},
		{40, 0, false},
		{60, 0, false},
		{100, 0, false},
		{20, hour, false},
		{40, hour, false},
		{60, hour, false},
		{100, hour, false},
		{20, hour, true},
		{40, hour, true},
		{60, hour, true},
		{100, hour, true},
	} {
		d := newDomain(t)
		var leaks, pages, longest, unbounded, withheld time.Duration
		for s := 0; s < 10*hour; s += interval {
			x := float64(max(0, s-c.lead)) / 60 / c.tau
			grown := 1 - math.Exp(-x)
			if c.straight {
				grown = x
			}
			used := (19.5 + 39*grown) * gib
			if used > 79*gib {
				break
			}
			m := Member[int]{Key: 1, Used: Of(used), Started: start, SM: Of(0.5)}
			j := show(t, d, frame(s, gib/2, m))
			if j.Device.Withheld == WithheldSlowing {
				withheld += interval * time.Second
			}
			if j.Device.Leak {
				leaks += interval * time.Second
				if math.IsInf(j.Device.Upper.V, 1) {
					unbounded += interval * time.Second
				}
			}
			if pages += interval * time.Second; !j.Page {
				pages = 0
			}
			longest = max(longest, pages)
		}
		t.Logf("τ %v min after %d s, straight %t: a leak for %v, pages for up to %v", c.tau, c.lead, c.straight, leaks, longest)
		switch {
		case c.straight && (leaks < 10*time.Minute || longest < 10*time.Minute || unbounded > 0):
			t.Errorf("39 GiB in %v min: a leak for %v, without an upper end for %v, pages for up to %v", c.tau, leaks, unbounded, longest)
		case !c.straight && (leaks > briefly || longest >= waits || c.lead > 0 && withheld == 0):
			t.Errorf("τ = %v min, begun after %d s: a leak for %v, pages for up to %v, slowing for %v", c.tau, c.lead, leaks, longest, withheld)
		}
	}
}

// A straight leak is told beside a program whose growth slows down, by its own name and with an upper end.
func TestLeakBesideSlowing(t *testing.T) {
	const hour = 3600
	d := newDomain(t)
	var told, wrong, unbounded int // frames
	for s := 0; s < 6*hour; s += 15 {
		grown := 20 * (1 - math.Exp(-float64(max(0, s-hour))/hour)) * gib
		slow := Member[int]{Key: 1, Used: Of(10*gib + grown), Started: start, SM: Of(0.5)}
		leak := Member[int]{Key: 2, Used: Of(10*gib + leaked(s)), Started: start, SM: Of(0.5)}
		if slow.Used.V+leak.Used.V > 79*gib {
			break
		}
		j := show(t, d, frame(s, gib/2, slow, leak))
		told += btoi(j.Members[1].Leak)
		wrong += btoi(j.Members[0].Leak)
		unbounded += btoi(j.Members[1].Leak && math.IsInf(j.Members[1].Upper.V, 1))
	}
	if told < 4*hour/15 || wrong > 20*60/15 || unbounded > 0 {
		t.Errorf("the leak is told in %d frames, %d of them without an upper end, and the other one in %d", told, unbounded, wrong)
	}
}
