// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// labelSet are the names of labels that series have.
type labelSet map[string]bool

func labelsNamed(names ...string) labelSet {
	s := labelSet{}
	for _, n := range names {
		s[n] = true
	}
	return s
}

func (s labelSet) union(other labelSet) labelSet {
	all := maps.Clone(s)
	maps.Copy(all, other)
	return all
}

// missing returns the names that are not in the set.
func (s labelSet) missing(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return s[n] })
}

// targetLabels are those that Prometheus adds, or may.
func targetLabels() labelSet { return labelsNamed("job", "instance", "cluster") }

// schema is which labels the series of a metric have, by its name.
type schema map[string]labelSet

// anywhere reports whether any series has the label.
func (s schema) anywhere(label string) bool {
	for _, has := range s {
		if has[label] {
			return true
		}
	}
	return false
}

// readSchema returns the series that the exporter declares, those of the table that
// its registry writes into collector/README.md; those that it shows with its defaults,
// which are some about its own process too; what Prometheus adds; and what our rules
// record.
func readSchema(t *testing.T) schema {
	t.Helper()
	s := declared(t)
	p := simulated(t, "node", "60")
	for _, series := range p.Scrape(t) {
		s[series.Name] = labelsNamed(slices.Collect(maps.Keys(series.Labels))...)
	}
	p.Stop(t)
	for _, name := range []string{"up", "scrape_duration_seconds", "scrape_samples_scraped", "scrape_samples_post_metric_relabeling", "scrape_series_added"} {
		s[name] = labelSet{}
	}
	all := slices.Concat(readRules(t, "rules.yaml"), readRules(t, "alerts.yaml"))
	alerts := labelsNamed("alertname", "alertstate", "severity")
	// Rules use what others record, and one may use what it recorded before.
	for range 4 {
		for _, r := range all {
			in := inference{schema: s}
			has := in.of(r.expr).union(labelsNamed(slices.Collect(maps.Keys(r.Labels))...))
			if r.Record != "" {
				s[r.Record] = has
			} else {
				alerts = alerts.union(has)
			}
		}
	}
	s["ALERTS"], s["ALERTS_FOR_STATE"] = alerts, alerts
	return s
}

// declared reads the tables of collector/README.md.
func declared(t *testing.T) schema {
	t.Helper()
	text := harness.ReadFile(t, filepath.Join(harness.Root(), "collector", "README.md"))
	scopes, s := map[string]labelSet{"node": {}}, schema{}
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) < 4 {
			continue
		}
		first, second := strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2])
		switch {
		case strings.HasPrefix(first, "`gpu_") && len(cells) >= 4:
			// One row may be of several scopes: names and scopes are in the same order.
			for i, of := range strings.Split(second, ", ") {
				scope, ok := scopes[strings.TrimSuffix(of, " that has ended")]
				if !ok {
					t.Fatalf("%s is of %q, and no line says which labels that has", first, of)
				}
				name, own, _ := strings.Cut(strings.Split(first, "`")[2*i+1], "{")
				s[name] = scope.union(labelsNamed(words(strings.TrimSuffix(own, "}"))...))
			}
		case strings.HasPrefix(first, "a") && strings.HasPrefix(second, "`"):
			// Such as: | a workload: a pod or job of two processes | `gpu`, `uuid`, … |
			// The column "of" calls it by its name alone.
			scope, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(first, "a "), "an "), ":")
			scope, _, _ = strings.Cut(scope, " (")
			scopes[scope] = labelsNamed(words(second)...)
		}
	}
	if len(s) < 100 {
		t.Fatalf("collector/README.md declares %d series", len(s))
	}
	return s
}

// words returns the names in a cell, however it separates and marks them.
func words(cell string) []string {
	return strings.FieldsFunc(cell, func(r rune) bool { return r == ',' || r == '`' || r == ' ' })
}

// inference finds out which labels the result of an expression has, and collects what
// is wrong with it on the way.
type inference struct {
	schema schema
	errs   []error
	// root are the labels of all metrics in the expression.
	root labelSet
}

// selected returns the labels of all metrics in an expression.
func (in *inference) selected(e parser.Expr) labelSet {
	all := labelSet{}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			all = all.union((&inference{schema: in.schema}).metrics(s))
		}
		return nil
	})
	return all
}

func (in *inference) errorf(format string, args ...any) {
	in.errs = append(in.errs, fmt.Errorf(format, args...))
}

// of returns the labels of the result of an expression; none for a scalar.
func (in *inference) of(e parser.Expr) labelSet {
	if in.root == nil {
		in.root = in.selected(e)
	}
	switch e := e.(type) {
	case *parser.VectorSelector:
		return in.selector(e)
	case *parser.MatrixSelector:
		return in.of(e.VectorSelector)
	case *parser.SubqueryExpr:
		return in.of(e.Expr)
	case *parser.ParenExpr:
		return in.of(e.Expr)
	case *parser.StepInvariantExpr:
		return in.of(e.Expr)
	case *parser.UnaryExpr:
		return in.of(e.Expr)
	case *parser.AggregateExpr:
		return in.aggregation(e)
	case *parser.BinaryExpr:
		return in.binary(e)
	case *parser.Call:
		return in.call(e)
	}
	return labelSet{}
}

func (in *inference) selector(e *parser.VectorSelector) labelSet {
	has := in.metrics(e).union(targetLabels())
	for _, m := range e.LabelMatchers {
		// Series without the label are meant where the matcher takes an empty one.
		if m.Name != model.MetricNameLabel && !has[m.Name] && (!m.Matches("") || !in.schema.anywhere(m.Name)) {
			in.errorf("%s has no label %s", e, m.Name)
		}
	}
	return has
}

// metrics returns the labels of the metric that a selector names, or of those that it
// lists as alternatives, of which each has to be there.
func (in *inference) metrics(e *parser.VectorSelector) labelSet {
	names := []string{e.Name}
	for _, m := range e.LabelMatchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchRegexp {
			names = strings.Split(m.Value, "|")
		}
	}
	has := labelSet{}
	for _, name := range names {
		of, ok := in.schema[name]
		if !ok {
			in.errorf("there is no series %q", name)
		}
		has = has.union(of)
	}
	return has
}

func (in *inference) aggregation(e *parser.AggregateExpr) labelSet {
	has := in.of(e.Expr)
	if e.Param != nil {
		in.of(e.Param)
	}
	for _, l := range has.missing(e.Grouping) {
		// To group by a label that only other series of the expression have does no
		// harm. One that was there and has been taken away is a mistake.
		if !in.root[l] || in.selected(e.Expr)[l] {
			in.errorf("%s: there is no label %s", e, l)
		}
	}
	switch e.Op {
	case parser.TOPK, parser.BOTTOMK, parser.LIMITK, parser.LIMIT_RATIO:
		return has
	}
	out := labelsNamed(e.Grouping...)
	if e.Without {
		out = maps.Clone(has)
		for _, l := range e.Grouping {
			delete(out, l)
		}
	}
	if name, ok := e.Param.(*parser.StringLiteral); ok && e.Op == parser.COUNT_VALUES {
		out[name.Val] = true
	}
	return out
}

func (in *inference) binary(e *parser.BinaryExpr) labelSet {
	left, right := in.of(e.LHS), in.of(e.RHS)
	switch {
	case e.RHS.Type() == parser.ValueTypeScalar:
		return left
	case e.LHS.Type() == parser.ValueTypeScalar:
		return right
	}
	match := e.VectorMatching
	for _, l := range left.union(right).missing(match.MatchingLabels) {
		// To ignore what is not there does no harm, if there is such a label at all.
		if match.On || !in.schema.anywhere(l) {
			in.errorf("%s: neither side has the label %s", e, l)
		}
	}
	many, one := left, right
	if match.Card == parser.CardOneToMany {
		many, one = right, left
	}
	if missing := one.missing(match.Include); len(missing) > 0 {
		in.errorf("%s: there are no labels %v to include", e, missing)
	}
	switch {
	case e.Op == parser.LOR:
		return left.union(right)
	case match.Card == parser.CardOneToOne && match.On && !e.Op.IsComparisonOperator():
		return labelsNamed(match.MatchingLabels...)
	}
	return many.union(labelsNamed(match.Include...))
}

// call returns the labels of what a function makes of its vectors.
func (in *inference) call(e *parser.Call) labelSet {
	out, text := labelSet{}, []string(nil)
	for _, a := range e.Args {
		if s, ok := a.(*parser.StringLiteral); ok {
			text = append(text, s.Val)
			continue
		}
		if has := in.of(a); a.Type() != parser.ValueTypeScalar {
			out = out.union(has)
		}
	}
	switch e.Func.Name {
	case "absent", "absent_over_time":
		return equalities(e.Args[0])
	case "label_replace":
		in.sources(e, out, text[2:3])
		return out.union(labelsNamed(text[0]))
	case "label_join":
		in.sources(e, out, text[2:])
		return out.union(labelsNamed(text[0]))
	}
	return out
}

// sources checks that the labels which a function reads are there. The empty name is
// how a constant is put into a label.
func (in *inference) sources(e *parser.Call, has labelSet, names []string) {
	if missing := has.missing(names); len(missing) > 0 && !slices.Equal(missing, []string{""}) {
		in.errorf("%s: there are no labels %v", e, missing)
	}
}

// equalities are the labels of the result of absent: those that the selector fixes.
func equalities(e parser.Expr) labelSet {
	out := labelSet{}
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			for _, m := range s.LabelMatchers {
				if m.Type == labels.MatchEqual && m.Name != model.MetricNameLabel {
					out[m.Name] = true
				}
			}
		}
		return nil
	})
	return out
}

// TestInferenceRefuses has mistakes of which each has to be found.
func TestInferenceRefuses(t *testing.T) {
	s := schema{"a": labelsNamed("uuid", "x"), "b": labelsNamed("uuid", "pid")}
	for expr, wrong := range map[string]bool{
		`a`: false, `a{instance="i", x="1"}`: false, `a{pid="1"}`: true, `c`: true,
		`a{pid=""}`: false, `a{pod=""}`: true, `a{pid=~".*"}`: false, `a{pid!=""}`: true,
		`sum by (uuid) (a)`: false, `sum by (pid) (a)`: true, `sum by (uuid, pid) (a) or b`: false, `sum without (pid) (a)`: true,
		`sum by (x) (sum by (uuid) (a))`:                         true,
		`a * on (uuid) group_left (pid) b`:                       false,
		`sum by (pid) (a * on (uuid) group_left (pid) b)`:        false,
		`a * on (uuid) group_left (x) b`:                         true,
		`a * on (pod) b`:                                         true,
		`a and on (uuid, pid) b`:                                 false,
		`sum by (pid) (a or b)`:                                  false,
		`sum by (pid) (a unless on (uuid) b)`:                    true,
		`label_replace(a, "p", "$1", "x", "(.*)")`:               false,
		`label_replace(a, "p", "$1", "pid", "(.*)")`:             true,
		`sum by (p) (label_join(a, "p", ",", "x", "uuid"))`:      false,
		`sum by (x) (rate(a[5m]))`:                               false,
		`sum by (x) (max_over_time(b[5m:1m]))`:                   true,
		`sum by (job) (absent(a{job="j"}))`:                      false,
		`sum by (x) (absent(a{x=~"j"}))`:                         true,
		`topk(1, sum by (pid) (b)) * on (pid) group_left () (b)`: false,
	} {
		in := inference{schema: s}
		in.of(parse(t, expr))
		if (len(in.errs) > 0) != wrong {
			t.Errorf("%s: found %v, want something wrong: %v", expr, in.errs, wrong)
		}
	}
}

// parse parses PromQL as Prometheus does.
func parse(t *testing.T, expr string) parser.Expr {
	t.Helper()
	e, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return e
}
