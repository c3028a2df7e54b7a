// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPage pages as the mixin does: a leak, memory full within the hour, and that for three
// minutes.
func TestPage(t *testing.T) {
	leak := truth{leak: true, onset: time.Hour, oom: 4 * time.Hour, length: 4 * time.Hour}
	healthy := truth{length: 4 * time.Hour}
	from := func(at, until time.Duration) [][2]time.Duration { return [][2]time.Duration{{at, until}} }
	always := 9 * time.Hour
	for _, c := range []struct {
		name   string
		fake   fake
		is     truth
		paged  []time.Duration
		paging time.Duration
	}{
		{"within the hour", fake{alarms: from(90*minutes, always), eta: 3599}, leak, []time.Duration{93 * minutes}, 93 * minutes},
		{"in an hour", fake{alarms: from(90*minutes, always), eta: 3600}, leak, nil, never},
		{"never", fake{alarms: from(90*minutes, always), eta: math.Inf(1)}, leak, nil, never},
		{"without a forecast", fake{alarms: from(90*minutes, always), eta: nan}, leak, nil, never},
		{"a forecast without a leak", fake{eta: 60}, leak, nil, never},
		{"for two minutes", fake{alarms: from(90*minutes, 93*minutes), eta: 60}, leak, nil, never},
		{"ends before memory runs out", fake{alarms: from(90*minutes, 120*minutes), eta: 60}, leak, []time.Duration{93 * minutes}, never},
		{"at the out-of-memory", fake{alarms: from(237*minutes, always), eta: 60}, leak, nil, never},
		{"healthy, twice", fake{alarms: append(from(60*minutes, 64*minutes), from(80*minutes, always)...), eta: 60}, healthy, []time.Duration{63 * minutes, 83 * minutes}, 83 * minutes},
	} {
		o := c.fake.score(c.is)
		if !slices.Equal(o.paged, c.paged) || o.paging != c.paging {
			t.Errorf("%s: paged at %v, in the end since %v, want %v, %v", c.name, o.paged, o.paging, c.paged, c.paging)
		}
	}
}

// TestPages counts who was paged in time.
func TestPages(t *testing.T) {
	leak := truth{leak: true, onset: time.Hour, oom: 4 * time.Hour, length: 4 * time.Hour}
	healthy := truth{length: 4 * time.Hour}
	later := leak
	later.oom = 5 * time.Hour // the series ends before
	soon := func(at time.Duration) fake { return fake{alarms: [][2]time.Duration{{at, 9 * hours}}, eta: 60} }
	var p alerts
	for _, o := range []outcome{
		soon(227 * minutes).score(leak), soon(228 * minutes).score(leak), soon(50 * minutes).score(leak), silent().score(leak),
		soon(70 * minutes).score(later), soon(70 * minutes).score(healthy), silent().score(healthy),
	} {
		p.add(&o)
	}
	if p.ooms != 4 || p.ahead != 2 || p.early != 1 || p.paged != 1 || p.falsePages != 1 || p.ticketed != 1 || p.falseTickets != 1 || p.told != 4 {
		t.Errorf("%+v", p)
	}
	if want := []time.Duration{10 * minutes, 9 * minutes, 187 * minutes}; !slices.Equal(p.leads, want) {
		t.Errorf("%v before out-of-memories, want %v", p.leads, want)
	}
}

// TestAlertsAreTheMixins reads their conditions from the mixin.
func TestAlertsAreTheMixins(t *testing.T) {
	text, err := os.ReadFile("../../mixin/config.libsonnet")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("oomPageSeconds: %d * 60,", int(pageWithin.Minutes())), fmt.Sprintf("forOOM: '%dm',", int(pageFor.Minutes())),
		fmt.Sprintf("forLeak: '%dm',", int(ticketFor.Minutes())),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the mixin has another alert than %q", want)
		}
	}
}
