// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package mixin

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/template"
	"go.yaml.in/yaml/v2"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// rule is a rule as it is shipped, with what its expression parses to.
type rule struct {
	Record, Alert, Expr string
	For                 model.Duration
	KeepFiringFor       model.Duration `yaml:"keep_firing_for"`
	Labels, Annotations map[string]string

	expr parser.Expr
}

func (r *rule) name() string { return r.Record + r.Alert }

// shipped is the folder of what the mixin renders.
func shipped() string { return filepath.Join(harness.Root(), "dashboards") }

// readRules reads a rule file of dashboards/.
func readRules(t *testing.T, file string) []rule {
	t.Helper()
	return parseRules(t, file, harness.ReadFile(t, filepath.Join(shipped(), file)))
}

// parseRules parses the text of a rule file.
func parseRules(t *testing.T, file, text string) []rule {
	t.Helper()
	var content struct {
		Groups []struct {
			Name     string
			Interval model.Duration
			Rules    []rule
		}
	}
	if err := yaml.UnmarshalStrict([]byte(text), &content); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	var rules []rule
	for _, g := range content.Groups {
		for _, r := range g.Rules {
			r.expr = parse(t, r.Expr)
			rules = append(rules, r)
		}
	}
	if len(rules) == 0 {
		t.Fatalf("%s has no rules", file)
	}
	return rules
}

// TestMixinRules holds every rule against the series that there are: names and labels
// in expressions, and labels in the texts of alerts.
func TestMixinRules(t *testing.T) {
	t.Parallel()
	s := readSchema(t)
	for _, r := range slices.Concat(readRules(t, "rules.yaml"), readRules(t, "alerts.yaml")) {
		in := inference{schema: s}
		has := in.of(r.expr)
		for _, err := range in.errs {
			t.Errorf("%s: %v", r.name(), err)
		}
		if r.Alert == "" {
			continue
		}
		has = has.union(labelsNamed("alertname")).union(labelsNamed(slices.Collect(maps.Keys(r.Labels))...))
		for _, name := range []string{"summary", "description", "runbook_url"} {
			if r.Annotations[name] == "" {
				t.Errorf("%s has no %s", r.Alert, name)
			}
		}
		if link := r.Annotations["dashboard_url"]; link != "" {
			t.Errorf("%s has a link to %s, and no Grafana was named", r.Alert, link)
		}
		for name, text := range r.Annotations {
			if err := checkText(has, text); err != nil {
				t.Errorf("%s, %s: %v", r.Alert, name, err)
			}
		}
		if !slices.Contains([]string{"critical", "warning"}, r.Labels["severity"]) {
			t.Errorf("%s has severity %q", r.Alert, r.Labels["severity"])
		}
	}
}

// What a text does with labels but print them: it sets a variable, or asks whether there is one.
var silent = regexp.MustCompile(`{{-? *(?:\$\w+ *:=[^}]*|(?:with|if) \$labels\.\w+) *-?}}`)

var ofAlert = regexp.MustCompile(`\$labels\.(\w+)`)

// longestText is how many bytes an annotation may have.
const longestText = 700

// checkText expands the text of an alert that has these labels, once with all of them
// and once with those of the target alone. It is made of them and of the value: a query may find nothing, or fail.
func checkText(has labelSet, text string) error {
	var errs []error
	if len(text) > longestText {
		errs = append(errs, fmt.Errorf("%d bytes", len(text)))
	}
	for _, with := range []labelSet{has, targetLabels()} {
		values := map[string]string{}
		for l := range with {
			values[l] = l + "-1"
		}
		out, err := expand(text, values)
		if err != nil || strings.Contains(out, "<no value>") || strings.Contains(out, "%!") {
			errs = append(errs, fmt.Errorf("expands to %q: %w", out, err))
		}
	}
	for _, m := range ofAlert.FindAllStringSubmatch(silent.ReplaceAllString(text, ""), -1) {
		if !has[m[1]] {
			errs = append(errs, fmt.Errorf("the alert has no label %s", m[1]))
		}
	}
	return errors.Join(errs...)
}

// expand expands the text of an alert as Prometheus does, but for queries.
func expand(text string, of map[string]string) (string, error) {
	const begin = "{{$labels := .Labels}}{{$externalLabels := .ExternalLabels}}{{$externalURL := .ExternalURL}}{{$value := .Value}}"
	data := template.AlertTemplateData(of, nil, "http://prometheus", promql.Sample{F: 123456})
	none := func(context.Context, string, time.Time) (promql.Vector, error) {
		return nil, errors.New("a text asks for nothing")
	}
	return template.NewTemplateExpander(context.Background(), begin+text, "text", data, model.Now(), none,
		&url.URL{Scheme: "http", Host: "prometheus"}, []string{"missingkey=zero"}).Expand()
}

// TestMixinTextRefuses has mistakes in texts of which each has to be found.
func TestMixinTextRefuses(t *testing.T) {
	has := labelsNamed("uuid", "instance")
	for text, wrong := range map[string]bool{
		"{{ $labels.uuid }}": false, "{{ $labels.pid }}": true, "{{ .NoSuch }}": true,
		"{{ with $labels.pid }}{{ . }}{{ end }}": false, "{{ $a := $labels.pid }}": false, "{{ if $labels.uuid }}{{ $labels.pid }}{{ end }}": true, "{{ $value | humanize }}": false,
		"{{ with `a` | query }}{{ end }}": true, strings.Repeat("a", longestText+1): true,
	} {
		if err := checkText(has, text); (err != nil) != wrong {
			t.Errorf("%s: found %v, want something wrong: %v", text, err, wrong)
		}
	}
}

// TestMixinRunbook holds the runbook against the alerts, both ways.
func TestMixinRunbook(t *testing.T) {
	text := harness.ReadFile(t, filepath.Join(harness.Root(), "mixin", "runbook.md"))
	headings, alerts := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^##+ (GPU\w+)$`).FindAllStringSubmatch(text, -1) {
		headings[m[1]] = true
	}
	for _, r := range readRules(t, "alerts.yaml") {
		if r.Alert == "" {
			continue
		}
		alerts[r.Alert] = true
		if want := "mixin/runbook.md#" + strings.ToLower(r.Alert); !strings.HasSuffix(r.Annotations["runbook_url"], want) {
			t.Errorf("runbook_url of %s is %s, want …%s", r.Alert, r.Annotations["runbook_url"], want)
		}
	}
	if !maps.Equal(headings, alerts) {
		t.Errorf("mixin/runbook.md has headings for %v, and the alerts are %v", headings, alerts)
	}
}

// ruleTest is what a test of mixin/tests says of alerts, in the order of time.
type ruleTest struct {
	AlertRuleTests []struct {
		Alertname string
		ExpAlerts []struct {
			ExpLabels      map[string]string `yaml:"exp_labels"`
			ExpAnnotations map[string]string `yaml:"exp_annotations"`
		} `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
}

// states returns what a test expects of an alert of this severity: 0 silent, 1 firing, 2 firing with its texts.
func (rt ruleTest) states(r *rule) (states []byte) {
	for _, c := range rt.AlertRuleTests {
		if c.Alertname != r.Alert {
			continue
		}
		state := byte('0')
		for _, a := range c.ExpAlerts {
			switch {
			case a.ExpLabels["severity"] != r.Labels["severity"]:
			case a.ExpAnnotations["description"] == "" || a.ExpAnnotations["summary"] == "":
				state = '1'
			default:
				state = '2'
			}
		}
		states = append(states, state)
	}
	return states
}

// TestMixinAlertsTested demands a test of each alert in which it is silent, then fires
// with its labels and annotations, and then ends.
func TestMixinAlertsTested(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(harness.Root(), "mixin", "tests", "*.yaml")) // fails only if the pattern is wrong
	var tests []ruleTest
	for _, file := range files {
		var content struct{ Tests []ruleTest }
		if err := yaml.Unmarshal([]byte(harness.ReadFile(t, file)), &content); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		tests = append(tests, content.Tests...)
	}
	wanted := regexp.MustCompile(`0.*2.*0`)
	for _, r := range readRules(t, "alerts.yaml") {
		if r.Alert != "" && !slices.ContainsFunc(tests, func(rt ruleTest) bool { return wanted.Match(rt.states(&r)) }) {
			t.Errorf("%s (%s): no test has it silent, then firing with its texts, then silent", r.Alert, r.Labels["severity"])
		}
	}
}

// podMonitor is what this test reads of a PodMonitor.
type podMonitor struct {
	Spec struct {
		PodMetricsEndpoints []struct {
			Port        string
			HonorLabels bool `yaml:"honorLabels"`
			Relabelings []*relabel.Config
		} `yaml:"podMetricsEndpoints"`
	}
}

// TestPodMonitor holds the example for the operator to the contract of a scrape: the
// labels that the operator gives a target, the exporter's own pod among them, are gone,
// and what the mixin selects is there.
func TestPodMonitor(t *testing.T) {
	text := harness.ReadFile(t, filepath.Join(harness.Root(), "examples/kubernetes/podmonitor.yaml"))
	// The operator writes these names for Prometheus.
	text = strings.NewReplacer("sourceLabels:", "source_labels:", "targetLabel:", "target_label:").Replace(text)
	var m podMonitor
	harness.Must(t, yaml.Unmarshal([]byte(text), &m))
	if len(m.Spec.PodMetricsEndpoints) != 1 || m.Spec.PodMetricsEndpoints[0].Port != "metrics" || !m.Spec.PodMetricsEndpoints[0].HonorLabels {
		t.Fatalf("endpoints %+v", m.Spec.PodMetricsEndpoints)
	}
	rules := m.Spec.PodMetricsEndpoints[0].Relabelings
	for _, r := range rules {
		harness.Must(t, r.Validate(model.UTF8Validation))
	}
	target := labels.FromStrings(
		"__address__", "10.0.0.7:9844", "__meta_kubernetes_pod_node_name", "gpu-node-07",
		"job", "gpu-leak-exporter/gpu-leak-exporter", "namespace", "gpu-leak-exporter",
		"pod", "gpu-leak-exporter-x2k4q", "container", "gpu-leak-exporter", "endpoint", "metrics",
	)
	b := labels.NewBuilder(target)
	keep := relabel.ProcessBuilder(b, rules...)
	got := b.Labels()
	want := labels.FromStrings(
		"__address__", "10.0.0.7:9844", "__meta_kubernetes_pod_node_name", "gpu-node-07",
		"job", "gpu_leak_exporter", "instance", "gpu-node-07",
	)
	if !keep || !labels.Equal(got, want) {
		t.Errorf("target %v, want %v", got, want)
	}
}
