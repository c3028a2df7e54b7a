// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"time"
)

// pageWithin and pageFor are those of the page of the mixin, GPUOutOfMemoryPredicted: memory
// is full within the hour, and that is said for three minutes. TicketFor is that of its ticket,
// GPUMemoryLeakDetected.
const (
	pageWithin = time.Hour
	pageFor    = 3 * time.Minute
	ticketFor  = 30 * time.Minute
)

// alert follows whether an alert is on.
type alert struct {
	hold time.Duration // for which its condition must have been true
	met  time.Duration // since when it is, or never
	on   time.Duration // since when the alert is on, or never
}

func newAlert(hold time.Duration) alert { return alert{hold, never, never} }

// observe takes whether the condition is true at t, and reports whether the alert begins with it.
func (a *alert) observe(t time.Duration, condition bool) bool {
	switch {
	case !condition:
		a.met, a.on = never, never
		return false
	case a.met == never:
		a.met = t
	}
	if a.on == never && t >= a.met+a.hold {
		a.on = t
		return true
	}
	return false
}

// pages reports whether the page's condition is true of what a rule says.
func pages(leak bool, eta float64) bool { return leak && eta < pageWithin.Seconds() }

// alerts are the scores of the alerts that the verdicts of one rule make.
type alerts struct {
	ooms, ahead  int             // out-of-memories, and those with a page 10 min before
	leads        []time.Duration // from the begin of a page to the out-of-memory at which it was on
	early        int             // leaks with a page before the onset
	told         int             // leaks with a page or a ticket after it
	paged        int             // healthy series with a page
	ticketed     int             // ... with a ticket
	falsePages   int             // of healthy series
	falseTickets int
}

// outOfMemory counts one at that time, and the page that had been on since then, or never.
func (a *alerts) outOfMemory(since, at time.Duration) {
	a.ooms++
	if since == never {
		return
	}
	a.leads = append(a.leads, at-since)
	count(&a.ahead, at-since >= held)
}

// add takes the outcome of a series.
func (a *alerts) add(o *outcome) {
	if !o.leak {
		count(&a.paged, len(o.paged) > 0)
		count(&a.ticketed, len(o.ticketed) > 0)
		a.falsePages += len(o.paged)
		a.falseTickets += len(o.ticketed)
		return
	}
	count(&a.early, len(o.paged) > 0 && o.paged[0] < o.onset)
	count(&a.told, slices.ContainsFunc(slices.Concat(o.paged, o.ticketed), func(t time.Duration) bool { return t >= o.onset }))
	if o.oom > 0 && o.oom <= o.length {
		a.outOfMemory(o.paging, o.oom)
	}
}
