// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/plot"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// renderedRule is a rule of dashboards/alerts.yaml.
type renderedRule struct {
	Alert, Expr string
	For         model.Duration
	Keep        model.Duration `yaml:"keep_firing_for"`
	Labels      struct{ Severity string }
}

// TestAlertsAreTheMixins holds the thresholds here against the rendered rules.
func TestAlertsAreTheMixins(t *testing.T) {
	var file struct {
		Groups []struct{ Rules []renderedRule }
	}
	rendered, err := os.ReadFile("../../../dashboards/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(rendered, &file); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		alert, severity string
		holds           string // in the expression
	}{
		{"GPUOutOfMemoryPredicted", "critical", fmt.Sprintf("[2m]) < %g or", detector.DefaultConfig().PageWithin.Seconds())},
		{"GPUOutOfMemoryPredicted", "critical", fmt.Sprintf("} < %g", detector.DefaultConfig().FillsWithin.Seconds())},
		{"GPUOutOfMemoryPredicted", "warning", fmt.Sprintf("[2m]) < %g", finding.TicketWithin.Seconds())},
		{"GPUMemoryLeakDetected", "warning", "[2m]) > 0"},
		{"GPUMemoryHeldByNobody", "warning", fmt.Sprintf("[2m]) > %d", finding.HeldTicket)},
	} {
		found := false
		for _, g := range file.Groups {
			for _, r := range g.Rules {
				found = found || r.Alert == c.alert && r.Labels.Severity == c.severity && strings.Contains(r.Expr, c.holds) &&
					r.For == 0 && 2*time.Minute+time.Duration(r.Keep) == alertLasts
			}
		}
		if !found {
			t.Errorf("the mixin has no %+v that fires at once and goes on for as long as the tool's", c)
		}
	}
}

// minutes are steps, one a minute: what set says of each.
func minutes(n int, set func(i int, s *step)) []step {
	steps := make([]step, n)
	for i := range steps {
		steps[i].t, steps[i].judged = time.Duration(i)*time.Minute, true
		set(i, &steps[i])
	}
	steps[n-1].last = true
	return steps
}

func TestRules(t *testing.T) {
	oom := func(from, to int, seconds float64) func(int, *step) {
		return func(i int, s *step) {
			if s.seconds = detector.Of(math.Inf(1)); i >= from && i < to {
				s.seconds, s.evidence, s.page = detector.Of(seconds), detector.EvidenceLeak, seconds < 3600
			}
		}
	}
	leak := func(from, to int) func(int, *step) {
		return func(i int, s *step) { s.leak = i >= from && i < to }
	}
	filling := func(page bool) func(int, *step) {
		return func(_ int, s *step) {
			s.seconds, s.upper, s.evidence, s.page = detector.Of(600), detector.Of(900), detector.EvidenceFilling, page
		}
	}
	for _, c := range []struct {
		name          string
		steps         []step
		pages, ticket time.Duration // when the first one fires, in minutes; -1 never
	}{
		{"nothing", minutes(100, func(int, *step) {}), -1, -1},
		{"out of memory within the hour", minutes(100, oom(10, 100, 3599)), 13, -1},
		{"in an hour", minutes(100, oom(10, 100, 3600)), -1, 40},
		{"in a day", minutes(100, oom(10, 100, 86400)), -1, -1},
		{"for a moment", minutes(100, oom(10, 11, 60)), -1, -1},
		{"for two minutes", minutes(100, oom(10, 12, 60)), -1, -1},
		{"for three", minutes(100, oom(10, 14, 60)), 13, -1},
		{"a leak", minutes(100, leak(10, 100)), -1, 40},
		{"a leak that was taken back", minutes(100, leak(10, 39)), -1, -1},
		{"again and again", minutes(100, func(i int, s *step) { s.leak = i%29 > 0 }), -1, -1},
		{"the record ends before", minutes(40, leak(10, 40)), -1, -1},
		{"it ends then", minutes(41, leak(10, 41)), -1, 40},
		{"fills up", minutes(100, filling(true)), 3, -1},
		{"nobody knows when", minutes(100, filling(false)), -1, -1},
		{"a reading that fails", minutes(100, func(i int, s *step) { s.leak, s.blind = i >= 10 && i != 20, i == 20 }), -1, 40},
		{"no samples for nine minutes", slices.DeleteFunc(minutes(100, leak(10, 100)), func(s step) bool { m := int(s.t.Minutes()); return m > 20 && m < 29 }), -1, 40},
		{"none for ten", slices.DeleteFunc(minutes(100, leak(10, 100)), func(s step) bool { m := int(s.t.Minutes()); return m > 20 && m < 30 }), -1, 60},
	} {
		x := &series{kind: kindMemory, all: true}
		for _, s := range c.steps {
			x.keep(s)
		}
		f := resultsOf([]*series{x})[0]
		for what, x := range map[string]struct {
			list []plot.Span
			want time.Duration
		}{"page": {f.pages, c.pages}, "ticket": {f.tickets, c.ticket}} {
			got := time.Duration(-1)
			if len(x.list) > 0 {
				got = x.list[0].From / time.Minute
			}
			if got != x.want {
				t.Errorf("%s: %s after %d minutes, want %d", c.name, what, got, x.want)
			}
		}
	}
}
