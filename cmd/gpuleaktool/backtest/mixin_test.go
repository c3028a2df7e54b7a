// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
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
	testkit.Must(t, yaml.Unmarshal([]byte(testkit.Read(t, "../../../dashboards/alerts.yaml")), &file))
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
