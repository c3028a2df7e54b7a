// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Command dashboardlint holds dashboards against the rules of Grafana's linter.
//
// The linter needs packages of Prometheus that newer versions lack, which the tests use.
// Its own command does not build.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"

	"github.com/grafana/dashboard-linter/lint"
	"gopkg.in/yaml.v3"
)

func main() {
	file := flag.String("exceptions", "", "file of the rules that do not hold, each with its reason")
	flag.Parse()
	if err := run(*file, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run returns all that the linter finds in the dashboards and no exception names,
// and the exceptions that nothing needs.
func run(file string, dashboards []string) error {
	if len(dashboards) == 0 {
		return errors.New("no dashboard to check")
	}
	exceptions, err := readExceptions(file)
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range dashboards {
		errs = append(errs, check(path, exceptions))
	}
	for _, e := range exceptions {
		if !e.used {
			errs = append(errs, fmt.Errorf("%s: nothing breaks the rule %s: %q", file, e.Rule, e.Dashboard+e.Panel))
		}
	}
	return errors.Join(errs...)
}

// exception is a rule of the linter that does not hold: in general, in one
// dashboard, or in one panel, by their titles.
type exception struct {
	Rule, Dashboard, Panel, Reason string

	used bool
}

func readExceptions(file string) ([]*exception, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dec := yaml.NewDecoder(f)
	dec.KnownFields(true)
	var list []*exception
	if err := dec.Decode(&list); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for _, e := range list {
		if e.Rule == "" || e.Reason == "" {
			return nil, fmt.Errorf("%s: an exception needs a rule and a reason: %q, %q", file, e.Rule, e.Reason)
		}
	}
	return list, nil
}

// covers reports whether what a rule found is excepted.
func (e *exception) covers(r lint.ResultContext) bool {
	return e.Rule == r.Rule.Name() &&
		(e.Dashboard == "" || e.Dashboard == r.Dashboard.Title) &&
		(e.Panel == "" || (r.Panel != nil && e.Panel == r.Panel.Title))
}

// check lints one dashboard. Its warnings are errors too.
func check(path string, exceptions []*exception) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	dashboard, err := lint.NewDashboard(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	rules := lint.NewRuleSet()
	found, err := rules.Lint([]lint.Dashboard{dashboard})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var errs []error
	for name, results := range found.ByRule() {
		for _, context := range results {
			for _, r := range context.Result.Results {
				if r.Severity != lint.Warning && r.Severity != lint.Error {
					continue
				}
				if i := slices.IndexFunc(exceptions, func(e *exception) bool { return e.covers(context) }); i >= 0 {
					exceptions[i].used = true
					continue
				}
				errs = append(errs, fmt.Errorf("%s: %s: %s", path, name, r.Message))
			}
		}
	}
	return errors.Join(errs...)
}
