// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package detectorconfig knows how the detector is configured: by flags, and by a
// file of rules that give other settings to the series that they match. The
// exporter and its tool share it.
package detectorconfig

import (
	"slices"

	"github.com/prometheus/alertmanager/pkg/labels"

	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Config tells the configuration of each series: what the flags say, and what the
// rules that match the series say otherwise. It is immutable.
type Config struct {
	base   detector.Config
	groups []Group
	rules  []rule // of all groups, in the order of the file
}

// Group is a named part of a file.
type Group struct {
	Name  string
	Rules int
}

// rule changes settings of the series that it matches.
type rule struct {
	match   []selector // any of them
	changes []func(*detector.Config)
}

// selector is a list of matchers all of which must match.
type selector []*labels.Matcher

// New returns a Config without rules: every series has the configuration base.
func New(base detector.Config) *Config { return &Config{base: base} }

// Groups returns the groups in the order of the file.
func (c *Config) Groups() []Group { return c.groups }

// Rules returns the number of rules in all groups.
func (c *Config) Rules() int { return len(c.rules) }

// For returns the configuration of the series with these labels. The rules apply in the order of
// the file: of several that match and give the same setting the last one wins.
func (c *Config) For(labels map[string]string) detector.Config {
	cfg := c.base
	for _, r := range c.rules {
		if slices.ContainsFunc(r.match, func(s selector) bool { return s.matches(labels) }) {
			for _, change := range r.changes {
				change(&cfg)
			}
		}
	}
	return cfg
}

// matches reports whether all matchers match. As in PromQL, a label that is not
// there is an empty one.
func (s selector) matches(labels map[string]string) bool {
	for _, m := range s {
		if !m.Matches(labels[m.Name]) {
			return false
		}
	}
	return true
}
