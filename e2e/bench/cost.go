// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "time"

// The fleet for which the cost is told.
const (
	fleetDays  = 1000 // node-days without a leak
	fleetLeaks = 20   // leaks that end in an out-of-memory
)

// ahead is how long before the out-of-memory a page is worth the most.
const ahead = 30 * time.Minute

// prices are what the outcomes cost, in one unit of the reader's choice.
type prices struct {
	oom       float64 // an out-of-memory without a page
	paged     float64 // one with a page 30 minutes ahead or more
	falsePage float64
	ticket    float64 // a false one
}

// defaultPrices are those that the plan of the benchmark sets.
var defaultPrices = prices{oom: 100, paged: 5, falsePage: 10, ticket: 1}

// ofOOM returns the cost of an out-of-memory with so long a lead: linear between no page and a page 30 minutes ahead.
func (p prices) ofOOM(lead time.Duration) float64 {
	if lead == never {
		return p.oom
	}
	return p.oom + (p.paged-p.oom)*min(float64(lead)/float64(ahead), 1)
}

// ofFleet returns the cost of 1,000 node-days without a leak and 20 leaks that end in an out-of-memory. A leak costs what its
// out-of-memories cost on average, however many they are.
func (p prices) ofFleet(perLeak, falsePages, falseTickets float64) float64 {
	return fleetLeaks*perLeak + p.falsePage*falsePages + p.ticket*falseTickets
}
