// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detectorconfig

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/alertmanager/pkg/labels"
)

// scopeLabel is the label that tells what a series is about.
const scopeLabel = "scope"

// scope is what a series can be about.
type scope struct {
	name   string
	labels []string
}

var (
	gpuLabels      = []string{"gpu", "uuid", "name"}
	instanceLabels = slices.Concat(gpuLabels, []string{"gpu_instance", "profile"})
)

var scopes = []scope{
	{"gpu", gpuLabels},
	{"mig", instanceLabels},
	{"process", slices.Concat(instanceLabels, []string{"pid", "process", "namespace", "pod", "container", "slurm_job"})},
	{"workload", slices.Concat(instanceLabels, []string{"namespace", "pod", "slurm_job"})},
	{"residual", instanceLabels},
}

// Labels returns the names of the labels by which rules can match: those that the
// series of the detector have in the metrics, and
//
//	scope    gpu, mig (a GPU instance), process, workload, or residual (what no
//	         process of a GPU or GPU instance accounts for)
//	name     the model of the GPU
//	profile  that of the GPU instance
func Labels() []string {
	names := []string{scopeLabel}
	for _, s := range scopes {
		for _, l := range s.labels {
			if !slices.Contains(names, l) {
				names = append(names, l)
			}
		}
	}
	return names
}

// selectorSyntax is that of PromQL, without a metric's name. The library reads
// more than that: values without quotes or in single ones, of which it makes
// something else than PromQL does.
var selectorSyntax = func() *regexp.Regexp {
	const matcher = `\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(=~|!~|!=|=)\s*"(\\.|[^"\\])*"\s*`
	return regexp.MustCompile(`^\s*\{(` + matcher + `(,` + matcher + `)*(,\s*)?)?\s*\}\s*$`)
}()

// parseSelector reads label matchers in PromQL syntax. What can match no series is
// an error.
func parseSelector(text string) (selector, error) {
	if !selectorSyntax.MatchString(text) {
		return nil, errors.New(`is not a list of label matchers such as {namespace="serving", process=~"vllm.*"}: braces around it, values in double quotes`)
	}
	matchers, err := labels.ParseMatchers(strings.TrimSpace(text))
	if err != nil {
		return nil, err
	}
	s := selector(matchers)
	known := Labels()
	for _, m := range s {
		if !slices.Contains(known, m.Name) {
			return nil, fmt.Errorf("matches no series: none has a label %s, only %s", m.Name, strings.Join(known, ", "))
		}
	}
	if err := s.checkScope(); err != nil {
		return nil, err
	}
	if s.contradictory() {
		return nil, errors.New("matches no series: its matchers exclude each other")
	}
	return s, nil
}

// checkScope returns an error if no scope has series that s can match.
func (s selector) checkScope() error {
	if s.fitsScope() {
		return nil
	}
	var asked, why []string
	for _, sc := range scopes {
		if !s.wants(sc.name) {
			continue
		}
		asked = append(asked, sc.name)
		for _, m := range s {
			if !sc.has(m) {
				why = append(why, m.Name)
			}
		}
	}
	if len(asked) == 0 {
		var names []string
		for _, sc := range scopes {
			names = append(names, sc.name)
		}
		return fmt.Errorf("matches no series: scope is one of %s", strings.Join(names, ", "))
	}
	slices.Sort(why)
	return fmt.Errorf("matches no series: one of scope %s has no label %s", strings.Join(asked, " or "), strings.Join(slices.Compact(why), ", "))
}

// fitsScope reports whether there is a scope whose series all matchers can match.
func (s selector) fitsScope() bool {
	return slices.ContainsFunc(scopes, func(sc scope) bool {
		return s.wants(sc.name) && !slices.ContainsFunc(s, func(m *labels.Matcher) bool { return !sc.has(m) })
	})
}

// wants reports whether s can match a series of that scope.
func (s selector) wants(name string) bool {
	return !slices.ContainsFunc(s, func(m *labels.Matcher) bool { return m.Name == scopeLabel && !m.Matches(name) })
}

// has reports whether a series of the scope can have a label that m matches.
func (sc *scope) has(m *labels.Matcher) bool {
	return m.Name == scopeLabel || slices.Contains(sc.labels, m.Name) || m.Matches("")
}

// contradictory reports whether it is certain that no series matches. What two regular expressions have in common is not
// looked for.
func (s selector) contradictory() bool {
	return slices.ContainsFunc(s, func(a *labels.Matcher) bool {
		return a.Type == labels.MatchEqual && slices.ContainsFunc(s, func(b *labels.Matcher) bool { return a.Name == b.Name && !b.Matches(a.Value) })
	})
}
