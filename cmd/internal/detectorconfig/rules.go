// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detectorconfig

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/setting"
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
	names := map[string]bool{}
	for _, g := range p.items(fields[0]) {
		p.group(g, names)
		if p.rules > maxRules {
			p.fail(g.Line, "there are more than %d rules", maxRules)
			return
		}
	}
}

// group reads a group; names are those of the groups before it.
func (p *parser) group(n *yaml.Node, names map[string]bool) {
	failed := len(p.errors)
	g := Group{}
	for _, f := range p.fields(n, "a group", []string{"name", "rules"}) {
		if f.key == "name" {
			g.Name, _ = p.text(f.line, f.key, f.node)
			if g.Name != "" && names[g.Name] {
				p.fail(f.line, "there is another group %q: give each a name of its own", g.Name)
			}
			names[g.Name] = true
			continue
		}
		for _, r := range p.items(f) {
			if p.rules++; p.rules > maxRules {
				break // top says so
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
	r := rule{line: n.Line}
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
		s, err := parseSelector(text)
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
	r.values.Mute = text == "true"
	r.changes = append(r.changes, change{f.line, f.key, func(to, from *detector.Config) { to.Mute = from.Mute }})
}

// windows reads the windows of the series.
func (p *parser) windows(r *rule, f field) {
	failed := len(p.errors)
	list := p.items(f)
	lo := max(detector.MinWindow, p.options.MinWindow)
	value := setting.Windows("", &r.values.Windows, detector.MaxWindows, lo, detector.MaxWindow).InFile(f.key)
	for _, n := range list {
		p.set(n.Line, f.key, n, value)
	}
	if len(list) == 0 && len(p.errors) == failed {
		p.fail(f.line, "windows: give one at least, such as windows: [10m, 1h]")
	}
	r.changes = append(r.changes, change{f.line, f.key, func(to, from *detector.Config) { to.Windows = from.Windows }})
}

// threshold reads a threshold.
func (p *parser) threshold(r *rule, f field) {
	i := slices.IndexFunc(thresholds, func(t Threshold) bool { return t.Key() == f.key })
	t := &thresholds[i]
	p.set(f.line, f.key, f.node, t.Value(&r.values).InFile(f.key))
	r.changes = append(r.changes, change{f.line, f.key, t.copy})
}

// set takes over the value of a key.
func (p *parser) set(line int, key string, n *yaml.Node, value *setting.Value) {
	text, ok := p.text(line, key, n)
	if !ok {
		return
	}
	if err := value.Set(text); err != nil {
		p.fail(n.Line, "%s", err)
	}
}

// contradictions finds settings that cannot hold together: those of a rule and of
// the flags, and those of two rules that may match the same series. A setting can
// contradict one other, so that two rules are all that is needed.
func (p *parser) contradictions() {
	sound := make([]bool, len(p.config.rules))
	for i := range p.config.rules {
		r := &p.config.rules[i]
		err := p.merged(r).Validate()
		if err != nil {
			c := p.culprit(r)
			p.fail(c.line, "%s contradicts the flags or the rest of the rule: %s", c.key, err)
		}
		sound[i] = err == nil
		for j := range i {
			other := &p.config.rules[j]
			if !sound[i] || !sound[j] {
				continue
			}
			if err := p.merged(other, r).Validate(); err != nil && !r.excludes(other) {
				c := p.culprit(other, r)
				p.fail(c.line, "%s contradicts the rule in line %d for series that match both: %s; give this rule both settings, or matchers that exclude those of the other",
					c.key, other.line, err)
			}
		}
	}
}

// merged returns the settings of a series that these rules match.
func (p *parser) merged(rules ...*rule) detector.Config {
	cfg := p.options.Base
	for _, r := range rules {
		r.apply(&cfg)
	}
	return cfg
}

// culprit returns the setting of the last of the rules without which all would be
// well.
func (p *parser) culprit(rules ...*rule) change {
	last := *rules[len(rules)-1]
	all := last.changes
	for i := range all {
		last.changes = slices.Concat(all[:i], all[i+1:])
		if p.merged(append(slices.Clone(rules[:len(rules)-1]), &last)...).Validate() == nil {
			return all[i]
		}
	}
	return all[0]
}

// excludes reports whether it is certain that no series matches both rules.
func (r *rule) excludes(other *rule) bool {
	for _, a := range r.match {
		for _, b := range other.match {
			if !a.excludes(b) {
				return false
			}
		}
	}
	return true
}
