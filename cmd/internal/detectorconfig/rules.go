// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detectorconfig

import (
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// The keys of a rule that are no thresholds.
const (
	matchKey   = "match"
	muteKey    = "mute"
	windowsKey = "windows"
)

// ruleKeys are all keys of a rule.
var ruleKeys = func() []string {
	keys := []string{matchKey, muteKey, windowsKey}
	for i := range thresholds {
		keys = append(keys, thresholds[i].Key())
	}
	return keys
}()

// top reads what the file consists of.
func (p *parser) top(n *yaml.Node) {
	fields := p.fields(n, "the file", []string{"groups"})
	if len(fields) == 0 {
		if len(p.errors) == 0 {
			p.fail(n.Line, "has no groups: for a file without rules write groups: []")
		}
		return
	}
	for _, g := range p.items(fields[0]) {
		p.group(g)
	}
}

// group reads a group.
func (p *parser) group(n *yaml.Node) {
	failed := len(p.errors)
	g := Group{}
	for _, f := range p.fields(n, "a group", []string{"name", "rules"}) {
		if f.key == "name" {
			g.Name, _ = p.text(f.line, f.key, f.node)
			if g.Name != "" && slices.ContainsFunc(p.config.groups, func(o Group) bool { return o.Name == g.Name }) {
				p.fail(f.line, "there is another group %q: give each a name of its own", g.Name)
			}
			continue
		}
		for _, r := range p.items(f) {
			if len(p.config.rules) == maxRules {
				p.fail(r.Line, "there are more than %d rules", maxRules)
				break
			}
			g.Rules++
			p.rule(r)
		}
	}
	if g.Name == "" && len(p.errors) == failed {
		p.fail(n.Line, "the group has no name: give it one, such as name: inference")
	}
	p.config.groups = append(p.config.groups, g)
}

// rule reads a rule.
func (p *parser) rule(n *yaml.Node) {
	failed := len(p.errors)
	var r rule
	for _, f := range p.fields(n, "a rule", ruleKeys) {
		switch f.key {
		case matchKey:
			p.match(&r, f)
		case muteKey:
			p.mute(&r, f)
		case windowsKey:
			p.windows(&r, f)
		default:
			p.threshold(&r, f)
		}
	}
	p.config.rules = append(p.config.rules, r)
	if len(p.errors) > failed {
		return
	}
	if r.match == nil {
		p.fail(n.Line, "the rule has no match: for all series write match: ['{}']")
	}
	if r.changes == nil {
		p.fail(n.Line, "the rule changes nothing: give it mute, windows or thresholds")
	}
}

// match reads the selectors of a rule: a list of them, or one.
func (p *parser) match(r *rule, f field) {
	list := []*yaml.Node{f.node}
	if f.node.Kind == yaml.SequenceNode {
		list = p.items(f)
	}
	switch {
	case len(list) == 0:
		p.fail(f.line, "match is empty: for all series write match: ['{}']")
	case len(list) > maxSelectors:
		p.fail(f.line, "match has more than %d entries: write several rules", maxSelectors)
		return
	}
	for _, n := range list {
		// {pod="x"} without quotes around it is a mapping to YAML.
		if n.Kind == yaml.MappingNode {
			p.fail(n.Line, `match: put quotes around label matchers: '{namespace="serving"}'`)
			continue
		}
		text, ok := p.text(n.Line, matchKey, n)
		if !ok {
			continue
		}
		s, err := parseSelector(text, p.options.Places)
		if err != nil {
			p.fail(n.Line, "match: %s: %s", text, err)
			continue
		}
		r.match = append(r.match, s)
	}
}

// mute reads whether the series are not judged.
func (p *parser) mute(r *rule, f field) {
	text, ok := p.text(f.line, f.key, f.node)
	if !ok {
		return
	}
	if text != "true" && text != "false" {
		p.fail(f.node.Line, "mute: %s: must be true or false", text)
		return
	}
	r.changes = append(r.changes, func(c *detector.Config) { c.Mute = text == "true" })
}

// windows reads the windows of the series.
func (p *parser) windows(r *rule, f field) {
	failed := len(p.errors)
	var windows []time.Duration
	value := cli.Windows("", &windows, detector.MaxWindows, max(detector.MinWindow, p.options.MinWindow), detector.MaxWindow)
	for _, n := range p.items(f) {
		p.set(f.key, n.Line, n, value)
	}
	if len(windows) == 0 && len(p.errors) == failed {
		p.fail(f.line, "windows: give one at least, such as windows: [10m, 1h]")
	}
	r.changes = append(r.changes, func(c *detector.Config) { c.Windows = windows })
}

// threshold reads a threshold.
func (p *parser) threshold(r *rule, f field) {
	i := slices.IndexFunc(thresholds, func(t Threshold) bool { return t.Key() == f.key })
	t, text := &thresholds[i], f.node.Value
	p.set(f.key, f.line, f.node, t.Value(new(detector.Config)))
	r.changes = append(r.changes, func(c *detector.Config) { _ = t.Value(c).Set(text) }) // it has been tried
}

// set takes over the value of a key.
func (p *parser) set(key string, line int, n *yaml.Node, value *cli.Value) {
	text, ok := p.text(line, key, n)
	if !ok {
		return
	}
	if err := value.Named(key + ": ").Set(text); err != nil {
		p.fail(n.Line, "%s", err)
	}
}
