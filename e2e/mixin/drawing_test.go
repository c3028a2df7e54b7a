// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// What Grafana is known to draw wrong, and what does not fit on a screen. The sizes are those of Grafana 10 to 12.
const (
	gridColumns  = 24
	gridUnit     = 30 // pixels of a unit of height, without the gap
	gridGap      = 8
	pageMargin   = 32 // left and right of the grid, with a scroll bar
	panelHeader  = 40
	timelineFoot = 60 // the axis and a line of legend
	leastRow     = 16 // of a timeline: a name that can be read
	tableEdges   = 16
	leastColumn  = 50 // of a column without a width
)

// interMedium are the widths of the characters from the blank to the tilde in Inter Medium, Grafana's font for titles, in
// thousandths of its size.
var interMedium = [...]int{
	265, 294, 400, 637, 643, 828, 651, 217, 378, 378, 522, 666, 288, 463, 283, 368,
	646, 473, 613, 644, 654, 620, 636, 579, 631, 636, 283, 288, 666, 666, 666, 526,
	968, 700, 654, 735, 722, 603, 586, 749, 742, 270, 552, 664, 564, 898, 747, 768,
	639, 768, 645, 643, 651, 738, 700, 978, 666, 685, 639, 378, 368, 378, 475, 460,
	497, 569, 626, 568, 626, 587, 369, 617, 602, 249, 249, 556, 249, 884, 597, 602,
	617, 617, 384, 536, 372, 594, 566, 825, 551, 566, 551, 378, 342, 378, 666,
}

// titleWidth returns how wide a title is, in pixels.
func titleWidth(title string) (pixels float64) {
	const size, others = 14, 650
	for _, r := range title {
		w := others
		if i := int(r - ' '); i >= 0 && i < len(interMedium) {
			w = interMedium[i]
		}
		pixels += size * float64(w) / 1000
	}
	return pixels
}

// panelWidth returns how wide a panel of w columns is on a screen, in pixels.
func panelWidth(screen, w int) float64 {
	column := float64(screen-pageMargin-gridGap*(gridColumns-1)) / gridColumns
	return column*float64(w) + gridGap*float64(w-1)
}

// mostRows returns how many series a query can have: those of the topk in it, or one where it has labels of none.
func mostRows(expr string) (n int, err error) {
	m := topk.FindStringSubmatch(expr)
	switch {
	case strings.HasPrefix(expr, "max(("): // the row of all others
		return 1, nil
	case m != nil:
		return strconv.Atoi(m[1])
	case strings.Contains(expr, `gpu_memory_pattern|gpu_mig_memory_pattern`):
		return 1, nil // of the GPU that the dashboard shows
	}
	return 0, fmt.Errorf("nothing bounds how many rows it has: %s", expr)
}

var topk = regexp.MustCompile(`topk\((\d+),`)

// fault returns what Grafana draws wrong of a panel; "" if it draws it well.
func (p *panel) fault() string {
	for _, screen := range []int{1366, 1600, 1920} {
		// The header has its margins, and the letter that shows the description.
		if room := panelWidth(screen, p.GridPos.W) - 2*gridGap - 24; titleWidth(p.Title) > room {
			return fmt.Sprintf("its title is cut at %d pixels: it takes %.0f of %.0f", screen, titleWidth(p.Title), room)
		}
	}
	switch p.Type {
	case "state-timeline":
		return p.timelineFault()
	case "timeseries":
		if p.FieldConfig.Defaults.NoValue != "" && !p.emptied("\u200b") {
			return "ticks between whole numbers have the text for no value"
		}
	case "table":
		if wide, room := p.columnsWidth(), panelWidth(1600, p.GridPos.W)-tableEdges; wide > room {
			return fmt.Sprintf("its columns take %.0f of %.0f pixels", wide, room)
		}
	}
	return ""
}

func (p *panel) timelineFault() string {
	d := p.FieldConfig.Defaults
	if len(d.Mappings) > 0 && (d.Color.Mode != "fixed" || d.Thresholds != nil) {
		return "states that are mapped need a fixed color mode, and no thresholds (grafana#41075, #71804)"
	}
	if d.NoValue != "" && !p.emptied("") {
		return "its legend has the text for no value"
	}
	rows := 0
	for _, q := range p.Targets {
		n, err := mostRows(q.Expr)
		if err != nil {
			return err.Error()
		}
		rows += n
	}
	if room := p.GridPos.H*gridUnit + (p.GridPos.H-1)*gridGap - panelHeader - timelineFoot; rows*leastRow > room {
		return fmt.Sprintf("%d rows do not fit into %d pixels", rows, room)
	}
	return ""
}

// emptied reports whether the fields of a panel have a text for no value that shows nothing.
func (p *panel) emptied(text string) bool {
	return slices.ContainsFunc(p.FieldConfig.Overrides, func(o override) bool {
		return o.Matcher.Options == "/.*/" && len(o.Properties) == 1 && o.Properties[0].ID == "noValue" && o.Properties[0].Value == text
	})
}

// columnsWidth returns how wide the columns of a table are at least.
func (p *panel) columnsWidth() (pixels float64) {
	widths := map[string]float64{}
	for _, t := range p.Transformations {
		for _, name := range t.Options.RenameByName {
			widths[name] = leastColumn
		}
	}
	for _, o := range p.FieldConfig.Overrides {
		for _, property := range o.Properties {
			switch property.ID {
			case "custom.width", "custom.minWidth":
				widths[o.Matcher.Options], _ = property.Value.(float64)
			case "custom.hidden":
				widths[o.Matcher.Options] = 0
			}
		}
	}
	for _, w := range widths {
		pixels += w
	}
	return pixels
}

// lasting finds a range or an offset of a fixed time.
var lasting = regexp.MustCompile(`\[\d+[a-z]+\]|offset \d+[a-z]+`)

// annotationFault returns why Grafana loses marks of an annotation: it asks in steps that grow with the time range.
func annotationFault(expr string) string {
	if m := lasting.FindString(expr); m != "" {
		return m + " may be shorter than the step"
	}
	return ""
}

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
			if fault := annotationFault(a.Expr); fault != "" {
				t.Errorf("%s, annotation %q: %s", d.file, a.Name, fault)
			}
		}
	}
	if timelines < 4 {
		t.Errorf("only %d timelines were looked at", timelines)
	}
}

// TestDrawingFaults has what was drawn wrong once.
func TestDrawingFaults(t *testing.T) {
	for text, says := range map[string]string{
		`{"type": "stat", "title": "Full within the day", "gridPos": {"w": 3, "h": 4}}`:                                                                                                      "its title is cut at 1366",
		`{"type": "stat", "title": "Full in a day", "gridPos": {"w": 3, "h": 4}}`:                                                                                                            "",
		`{"type": "state-timeline", "title": "A", "gridPos": {"w": 9, "h": 9}, "fieldConfig": {"defaults": {"mappings": [1], "color": {"mode": "thresholds"}}}}`:                             "fixed color mode",
		`{"type": "state-timeline", "title": "A", "gridPos": {"w": 9, "h": 9}, "fieldConfig": {"defaults": {"mappings": [1], "noValue": "none", "color": {"mode": "fixed"}}}}`:               "text for no value",
		`{"type": "timeseries", "title": "A", "gridPos": {"w": 9, "h": 9}, "fieldConfig": {"defaults": {"noValue": "none"}}}`:                                                                "ticks between",
		`{"type": "state-timeline", "title": "A", "gridPos": {"w": 9, "h": 9}, "targets": [{"expr": "gpu_up"}]}`:                                                                             "nothing bounds",
		`{"type": "state-timeline", "title": "A", "gridPos": {"w": 9, "h": 9}, "targets": [{"expr": "topk(30, gpu_up)"}]}`:                                                                   "30 rows do not fit",
		`{"type": "state-timeline", "title": "A", "gridPos": {"w": 9, "h": 9}, "targets": [{"expr": "topk(9, gpu_up)"}]}`:                                                                    "",
		`{"type": "table", "title": "A", "gridPos": {"w": 12, "h": 9}, "fieldConfig": {"overrides": [{"matcher": {"options": "A"}, "properties": [{"id": "custom.width", "value": 800}]}]}}`: "its columns take 800",
	} {
		var p panel
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		if got := p.fault(); (got == "") != (says == "") || !strings.Contains(got, says) {
			t.Errorf("%s: %q, want %q", text, got, says)
		}
	}
	for expr, wrong := range map[string]bool{"increase(a[1m])": true, "a unless a offset 1m": true, "increase(a[$__rate_interval])": false, "a offset $__interval": false} {
		if got := annotationFault(expr); (got != "") != wrong {
			t.Errorf("%s: %q", expr, got)
		}
	}
}
