// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// figures are the scores of one rule on many scenarios.
type figures struct {
	leaks, found, inTime, rated, named, listed, who, early int
	delays                                                 []time.Duration
	// By class: scenarios, and those that ever had an alarm.
	scenarios, alarmed         [fleet.Growing + 1]int
	episodes, pages, tickets   int
	freeHours                  float64
	alarmedHours, memoryHours  float64 // of scenarios without a leak
	ooms, paged, ahead, ahead3 int
	forecasts                  [2]forecasts
	warned                     int             // of the ooms, with an alarm for ten minutes before
	alarms                     []time.Duration // for how long one had been on before them
	costs                      []float64       // of the leaks that end in an out-of-memory
	zombies, unreleased        matched
}

// forecasts are the scores of many.
type forecasts struct {
	errors, widths []float64 // errors of those that were told
	due, covered   int
}

func (f *forecasts) add(p forecast) {
	if !p.due {
		return
	}
	if p.told {
		f.errors = append(f.errors, p.error)
	}
	f.widths = append(f.widths, p.width)
	count(&f.covered, p.covered)
	f.due++
}

// add takes how the rule did on a scenario.
func (f *figures) add(class fleet.Class, o *outcome) {
	f.scenarios[class]++
	count(&f.alarmed[class], o.alarmed)
	f.episodes, f.pages, f.tickets = f.episodes+o.episodes, f.pages+o.pages, f.tickets+o.tickets
	f.freeHours += o.free
	f.zombies.add(o.zombies)
	f.unreleased.add(o.unreleased)
	if class != fleet.Leak {
		f.alarmedHours, f.memoryHours = f.alarmedHours+o.alarmedHours, f.memoryHours+o.memoryHours
		return
	}
	count(&f.early, o.early)
	for i := range o.leaks {
		f.addLeak(&o.leaks[i])
	}
	f.addOOMs(o.ooms)
}

func (m *matched) add(o matched) {
	m.all, m.named, m.wrong = m.all+o.all, m.named+o.named, m.wrong+o.wrong
}

func (f *figures) addLeak(l *leakOutcome) {
	f.leaks++
	count(&f.rated, l.rated)
	count(&f.inTime, l.inTime)
	if l.found != never {
		f.found++
		f.delays = append(f.delays, l.delay)
		count(&f.listed, l.listed)
		count(&f.named, l.listed && l.named)
		count(&f.who, l.who)
	}
	for i, p := range l.forecasts {
		f.forecasts[i].add(p)
	}
}

// addOOMs counts out-of-memories, and what each leak costs on average.
func (f *figures) addOOMs(all []oomOutcome) {
	of := map[int][]oomOutcome{}
	for _, o := range all {
		f.ooms++
		count(&f.paged, o.lead != never)
		count(&f.ahead, o.lead >= held)
		count(&f.ahead3, o.lead >= ahead)
		count(&f.warned, o.alarm >= held)
		if o.alarm != never {
			f.alarms = append(f.alarms, o.alarm)
		}
		of[o.leak] = append(of[o.leak], o)
	}
	for _, leak := range slices.Sorted(maps.Keys(of)) {
		var cost []float64
		for _, o := range of[leak] {
			cost = append(cost, costOfOOM(o.lead))
		}
		f.costs = append(f.costs, mean(cost))
	}
}

// perDays returns n in 1,000 days without a leak.
func (f *figures) perDays(n int) float64 { return float64(n) / f.freeHours * 24 * fleetDays }

// The fleet for which the cost is told: node-days without a leak, and leaks that end in an out-of-memory.
const fleetDays, fleetLeaks = 1000, 20

// ahead is how long before the out-of-memory a page is worth the most.
const ahead = 30 * time.Minute

// What the outcomes cost, in one unit of the reader's choice, as the plan of the benchmark sets it: an out-of-memory without a page,
// one with a page 30 minutes ahead or more, a false page and a false ticket.
const unpagedOOM, pagedOOM, falsePage, falseTicket = 100, 5, 10, 1

// costOfOOM returns the cost of an out-of-memory with so long a lead: linear between no page and a page 30 minutes ahead.
func costOfOOM(lead time.Duration) float64 {
	if lead == never {
		return unpagedOOM
	}
	return unpagedOOM + (pagedOOM-unpagedOOM)*min(float64(lead)/float64(ahead), 1)
}

// cost returns that of a fleet. A leak costs what its out-of-memories cost on average, however many they are.
func (f *figures) cost() float64 {
	return fleetLeaks*mean(f.costs) + falsePage*f.perDays(f.pages) + falseTicket*f.perDays(f.tickets)
}

// mean returns that of the list, NaN of none.
func mean(list []float64) float64 {
	sum := 0.0
	for _, x := range list {
		sum += x
	}
	return sum / float64(len(list))
}

// quantile returns the value of sorted rank ceil(q n), the zero value of none.
func quantile[T cmp.Ordered](list []T, q float64) T {
	if len(list) == 0 {
		return *new(T)
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)]
}

// median is quantile 0.5 and the mean of the two in the middle.
func median[T ~int64 | ~float64](list []T) T {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	if a, b := sorted[(n-1)/2], sorted[n/2]; a != b {
		return a/2 + b/2
	}
	return sorted[n/2]
}
