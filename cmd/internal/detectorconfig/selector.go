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

// scope is the kind of a series. residual is the memory that no process of a GPU or GPU instance accounts for.
type scope struct {
	name   string
	labels []string
}

var (
	// gpuLabels has those of a fleet, too: exporters of nodes and of a fleet may share a file.
	gpuLabels      = []string{"gpu", "uuid", "name", "namespace", "pod", "container", "instance", "node", "Hostname"}
	instanceLabels = slices.Concat(gpuLabels, []string{"gpu_instance", "profile"})
	processLabels  = slices.Concat(instanceLabels, []string{"pid", "process", "slurm_job"})
)

var scopes = []scope{
	{"gpu", gpuLabels},
	{"mig", instanceLabels},
	{"process", processLabels},
	{"workload", slices.Concat(instanceLabels, []string{"slurm_job"})},
	{"residual", instanceLabels},
}

// labelNames are those by which rules can match: those that the series of the detector have in the metrics, the scope, name
// (the model of the GPU), and profile (of the GPU instance).
var labelNames = slices.Concat([]string{scopeLabel}, processLabels)

// selectorSyntax is that of PromQL, without a metric's name. The library reads
// more than that: values without quotes or in single ones, of which it makes
// something else than PromQL does.
var selectorSyntax = func() *regexp.Regexp {
	const matcher = `\s*[a-zA-Z_][a-zA-Z0-9_]*\s*(=~|!~|!=|=)\s*"(\\.|[^"\\])*"\s*`
	return regexp.MustCompile(`^\s*\{(` + matcher + `(,` + matcher + `)*(,\s*)?)?\s*\}\s*$`)
}()

// parseSelector reads label matchers in PromQL syntax. What can match no series is
// an error. places are more labels that any may have.
func parseSelector(text string, places []string) (selector, error) {
	if !selectorSyntax.MatchString(text) {
		return nil, errors.New(`is not a list of label matchers such as {namespace="serving", process=~"vllm.*"}: braces around it, values in double quotes`)
	}
	matchers, err := labels.ParseMatchers(strings.TrimSpace(text))
	if err != nil {
		return nil, err
	}
	s := selector(matchers)
	for _, m := range s {
		if !slices.Contains(labelNames, m.Name) && !slices.Contains(places, m.Name) {
			return nil, fmt.Errorf("matches no series: none has a label %s, only %s; a fleet those of its --source.config, too", m.Name, strings.Join(labelNames, ", "))
		}
	}
	if !slices.ContainsFunc(scopes, s.fits) {
		return nil, errors.New("matches no series: no scope has all of these labels (the scopes are gpu, mig, process, workload, residual)")
	}
	return s, nil
}

// fits reports whether a series of a scope can have what all matchers match.
func (s selector) fits(sc scope) bool {
	return !slices.ContainsFunc(s, func(m *labels.Matcher) bool {
		if m.Name == scopeLabel {
			return !m.Matches(sc.name)
		}
		return slices.Contains(labelNames, m.Name) && !slices.Contains(sc.labels, m.Name) && !m.Matches("")
	})
}
