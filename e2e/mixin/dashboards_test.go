// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"cmp"
	"crypto/md5" //nolint:gosec // Grafana's uid is no secret.
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// dashboard is what the tests need of Grafana's format.
type dashboard struct {
	UID, Title  string
	Panels      []panel
	Templating  struct{ List []variable }
	Annotations struct{ List []annotation }

	file, text string
}

type panel struct {
	ID            int
	Type          string
	Title         string
	Description   string
	GridPos       struct{ X, Y, W, H int }
	Targets       []target
	MaxDataPoints int
	FieldConfig   struct {
		Defaults struct {
			NoValue    string
			Color      struct{ Mode string }
			Mappings   []any
			Thresholds *struct{}
		}
		Overrides []override
	}
	Panels []panel
}

// override is what some fields of a panel have in place of the defaults.
type override struct {
	Matcher    struct{ Options string }
	Properties []struct {
		ID    string
		Value any
	}
}

type target struct {
	Expr, LegendFormat, RefID, Format string
	Instant                           bool
}

type variable struct {
	Name, Type, Label, Regex, AllValue string
	Query                              json.RawMessage
	IncludeAll, Multi                  bool
}

// annotation is a query whose results are drawn over the panels.
type annotation struct{ Name, Expr string }

// readDashboards reads dashboards/*.json.
func readDashboards(t *testing.T) []dashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(shipped(), "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d dashboards: %v", len(files), err)
	}
	var all []dashboard
	for _, file := range files {
		text := harness.ReadFile(t, file)
		d := dashboard{file: filepath.Base(file), text: text}
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, d)
	}
	return all
}

// panels returns all panels but the rows, those inside of rows too.
func (d dashboard) panels() []panel {
	var all []panel
	for _, p := range d.Panels {
		if p.Type == "row" {
			all = append(all, p.Panels...)
		} else {
			all = append(all, p)
		}
	}
	return all
}

// expressions returns the queries of a variable: PromQL, and the label whose values are
// wanted if that is what it asks for.
func (v variable) expression() (expr, label string, err error) {
	var query struct{ Query string }
	if err := json.Unmarshal(v.Query, &query); err != nil {
		return "", "", fmt.Errorf("query of variable %s: %w", v.Name, err)
	}
	function, rest, _ := strings.Cut(strings.TrimSpace(query.Query), "(")
	arguments, ok := strings.CutSuffix(rest, ")")
	switch {
	case ok && function == "query_result":
		return arguments, "", nil
	case ok && function == "label_values":
		if i := strings.LastIndex(arguments, ","); i >= 0 {
			return strings.TrimSpace(arguments[:i]), strings.TrimSpace(arguments[i+1:]), nil
		}
	}
	return "", "", fmt.Errorf("variable %s: %q is neither query_result(…) nor label_values(…, …)", v.Name, query.Query)
}

// used finds the variables that a text uses, as Grafana does.
var used = regexp.MustCompile(`\$(\w+)|\$\{(\w+)(?:[:.][^}]*)?\}|\[\[(\w+)(?::\w+)?\]\]`)

// builtIn are the variables that Grafana has by itself and that stand for a number or
// a duration in a query, with a value to parse it with.
func builtIn() map[string]string {
	return map[string]string{
		"__rate_interval": "1m", "__interval": "1m", "__range": "6h", "__range_s": "21600",
		"__interval_ms": "60000", "__range_ms": "21600000", "__from": "1000", "__to": "2000",
	}
}

// replaceVariables puts values in the place of variables, and otherwise in the place of those that have none.
func replaceVariables(text string, values map[string]string, otherwise string) string {
	return used.ReplaceAllStringFunc(text, func(match string) string {
		name := strings.Join(used.FindStringSubmatch(match)[1:], "")
		if strings.Trim(name, "0123456789") == "" {
			return match // of label_replace
		}
		return cmp.Or(values[name], otherwise)
	})
}

var (
	quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	legend = regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`)
)

// parseQuery parses a query of a dashboard with the values of its variables: anything
// inside of quotes, and a number outside.
func parseQuery(query string) (parser.Expr, error) {
	query = quoted.ReplaceAllStringFunc(query, func(q string) string { return replaceVariables(q, nil, ".*") })
	return parser.NewParser(parser.Options{}).ParseExpr(replaceVariables(query, builtIn(), "1"))
}

// checkQuery holds a query against the series that there are, and returns the labels of
// its result.
func checkQuery(s schema, query string) (labelSet, error) {
	e, err := parseQuery(query)
	if err != nil {
		return labelSet{}, fmt.Errorf("%s: %w", query, err)
	}
	in := inference{schema: s}
	has := in.of(e)
	return has, errors.Join(in.errs...)
}

// TestDashboardQueries holds all queries of the dashboards, and the legends, against the
// series that there are.
func TestDashboardQueries(t *testing.T) {
	t.Parallel()
	s := readSchema(t)
	for _, d := range readDashboards(t) {
		for _, v := range d.Templating.List {
			if v.Type != "query" {
				continue
			}
			expr, label, err := v.expression()
			if err != nil {
				t.Errorf("%s: %v", d.file, err)
				continue
			}
			has, err := checkQuery(s, expr)
			if err != nil {
				t.Errorf("%s, variable %s: %v", d.file, v.Name, err)
			}
			if label != "" && !has[label] {
				t.Errorf("%s, variable %s: there is no label %s", d.file, v.Name, label)
			}
		}
		for _, a := range d.Annotations.List {
			if a.Expr == "" {
				continue
			}
			if _, err := checkQuery(s, a.Expr); err != nil {
				t.Errorf("%s, annotation %s: %v", d.file, a.Name, err)
			}
		}
		for _, p := range d.panels() {
			for _, q := range p.Targets {
				has, err := checkQuery(s, q.Expr)
				if err != nil {
					t.Errorf("%s, %q %s: %v", d.file, p.Title, q.RefID, err)
				}
				for _, m := range legend.FindAllStringSubmatch(q.LegendFormat, -1) {
					if m[1] == "job" {
						t.Errorf("%s, %q %s: the legend %q has the job of the scrapes", d.file, p.Title, q.RefID, q.LegendFormat)
					}
					if m[1] != "__name__" && !has[m[1]] {
						t.Errorf("%s, %q %s: the legend %q has a label that the series have not", d.file, p.Title, q.RefID, q.LegendFormat)
					}
				}
			}
		}
	}
}

// uids finds the data sources of a dashboard, and its own uid.
var uids = regexp.MustCompile(`"uid": "([^"]*)"`)

// TestDashboardForm holds what makes Grafana show the dashboards, and find them again, and what a reader needs. Grafana's linter, which
// make checkrules runs, holds the units of graphs.
func TestDashboardForm(t *testing.T) {
	for _, d := range readDashboards(t) {
		t.Run(d.file, func(t *testing.T) {
			sum := md5.Sum([]byte(d.file)) //nolint:gosec // as above
			if want := hex.EncodeToString(sum[:]); d.UID != want {
				t.Errorf("uid %s, want %s: links would break", d.UID, want)
			}
			for _, m := range uids.FindAllStringSubmatch(d.text, -1) {
				if m[1] != d.UID && m[1] != "${datasource}" {
					t.Errorf("it has the data source %s", m[1])
				}
			}
			ids := map[int]string{}
			for _, p := range slices.Concat(d.Panels, d.panels()) {
				if other, ok := ids[p.ID]; ok && other != p.Title || p.ID == 0 {
					t.Errorf("%q has the id %d of %q", p.Title, p.ID, other)
				}
				ids[p.ID] = p.Title
				if p.Title == "" || p.Description == "" && p.Type != "row" {
					t.Errorf("panel %d, %q, has no title or no description", p.ID, p.Title)
				}
			}
			checkGrid(t, d.Panels)
			for _, p := range d.Panels {
				checkGrid(t, p.Panels)
			}
			checkVariables(t, d)
		})
	}
}

// checkGrid fails the test where two panels overlap or one is outside of the grid of 24
// columns.
func checkGrid(t *testing.T, panels []panel) {
	t.Helper()
	for i, p := range panels {
		a := p.GridPos
		if a.W <= 0 || a.H <= 0 || a.X < 0 || a.X+a.W > 24 || a.Y < 0 {
			t.Errorf("%q is at %+v", p.Title, a)
		}
		for _, other := range panels[:i] {
			b := other.GridPos
			if a.X < b.X+b.W && b.X < a.X+a.W && a.Y < b.Y+b.H && b.Y < a.Y+a.H {
				t.Errorf("%q lies over %q", p.Title, other.Title)
			}
		}
	}
}

// checkVariables fails the test if a variable that all dashboards have is missing, or
// one is used that there is not.
func checkVariables(t *testing.T, d dashboard) {
	t.Helper()
	has := map[string]bool{}
	for _, v := range d.Templating.List {
		if has[v.Name] || v.Name == "" || v.Label == "" {
			t.Errorf("variable %q: another has its name, or it has no name or no label", v.Name)
		}
		has[v.Name] = true
	}
	for _, name := range []string{"datasource", "cluster", "node"} {
		if !has[name] {
			t.Errorf("there is no variable %s", name)
		}
	}
	if len(d.Templating.List) == 0 || d.Templating.List[0].Type != "datasource" {
		t.Error("the data source is not the first variable")
	}
	for _, m := range used.FindAllStringSubmatch(d.text, -1) {
		name := strings.Join(m[1:], "")
		if !has[name] && !strings.HasPrefix(name, "__") && strings.Trim(name, "0123456789") != "" {
			t.Errorf("%s is used, and there is no such variable", m[0])
		}
	}
}

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
