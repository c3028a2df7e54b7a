// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"fmt"
	"regexp"
	"slices"
	"testing"
)

// fault returns what Grafana 10 to 12 draw wrong of a panel; "" if they draw it well.
func (p *panel) fault() string {
	d := p.FieldConfig.Defaults
	switch {
	case p.Type == "state-timeline" && len(d.Mappings) > 0 && (d.Color.Mode != "fixed" || d.Thresholds != nil):
		return "states that are mapped need a fixed color mode, and no thresholds (grafana#41075, #71804)"
	case p.Type == "state-timeline" && d.NoValue != "" && !p.emptied(""):
		return "its legend has the text for no value"
	case p.Type == "timeseries" && d.NoValue != "" && !p.emptied("\u200b"):
		return "ticks between whole numbers have the text for no value"
	}
	return ""
}

// emptied reports whether the fields of a panel have a text for no value that shows nothing.
func (p *panel) emptied(text string) bool {
	return slices.ContainsFunc(p.FieldConfig.Overrides, func(o override) bool {
		return o.Matcher.Options == "/.*/" && len(o.Properties) == 1 && o.Properties[0].ID == "noValue" && o.Properties[0].Value == text
	})
}

// lasting finds a range or an offset of a fixed time.
var lasting = regexp.MustCompile(`\[\d+[a-z]+\]|offset \d+[a-z]+`)

// texts are what a panel says in place of values.
func (p *panel) texts() []any {
	all := []any{p.FieldConfig.Defaults.NoValue, p.FieldConfig.Defaults.Mappings}
	for _, o := range p.FieldConfig.Overrides {
		for _, property := range o.Properties {
			if property.ID == "mappings" || property.ID == "noValue" {
				all = append(all, property.Value)
			}
		}
	}
	return all
}

var goodNews = regexp.MustCompile(`(?i)\b(never|nothing|well)\b`)

// TestDashboardsAreDrawnWell holds the dashboards against what Grafana is known to draw wrong.
func TestDashboardsAreDrawnWell(t *testing.T) {
	timelines := 0
	for _, d := range readDashboards(t) {
		for _, row := range d.Panels {
			for _, p := range append(row.Panels, row) {
				if p.Type == "state-timeline" {
					timelines++
				}
				if fault := p.fault(); fault != "" {
					t.Errorf("%s, %q: %s", d.file, p.Title, fault)
				}
				// An alert goes on for minutes after its condition: what has no news says no good news.
				if said := goodNews.FindString(fmt.Sprint(p.texts()...)); said != "" {
					t.Errorf("%s, %q says %q", d.file, p.Title, said)
				}
			}
		}
		for _, a := range d.Annotations.List {
			// Grafana asks in steps that grow with the time range, and would lose marks.
			if m := lasting.FindString(a.Expr); m != "" {
				t.Errorf("%s, annotation %q: %s may be shorter than the step", d.file, a.Name, m)
			}
		}
	}
	if timelines < 4 {
		t.Errorf("only %d timelines were looked at", timelines)
	}
}
