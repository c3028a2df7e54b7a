// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// scaled is the mixin whose waits pass as many times faster. Those on scrapes, which are in real
// time, are three scrapes at least.
const scaled = `
local mixin = import 'mixin.libsonnet';
local seconds(d) = std.parseInt(std.substr(d, 0, std.length(d) - 1)) * { s: 1, m: 60, h: 3600 }[std.substr(d, std.length(d) - 1, 1)];
local isWait(k, v) = std.isString(v) && std.length(std.findSubstr(k, 'scrapeGap keepFiringFor absenceRange newFor wellAfter')) > 0 || std.startsWith(k, 'for');
mixin + { _config+:: {
  [k]: std.max(3, std.ceil(seconds(mixin._config[k]) / %d)) + 's'
  for k in std.objectFields(mixin._config) if isWait(k, mixin._config[k])
} }`

// configure writes the configurations: those of examples/, with the addresses and the speed of this run.
func (s *stack) configure(receiver string) error {
	rules := filepath.Join(s.dir, "rules")
	if err := os.Mkdir(rules, 0o700); err != nil {
		return err
	}
	for _, field := range []string{"prometheusAlerts", "prometheusRules"} {
		cmd := exec.Command(filepath.Join(s.root, "bin/jsonnet"), "-J", filepath.Join(s.root, "mixin"),
			"-o", filepath.Join(rules, field+".yaml"), "-e", "("+fmt.Sprintf(scaled, s.speed)+")."+field) // JSON is YAML
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("rendering the rules: %w\n%s", err, out)
		}
	}
	err := s.example("prometheus.yml", map[string]string{
		": 15s": ": 1s", "/etc/prometheus/rules/gpu_leak_exporter/*.yaml": filepath.Join(rules, "*.yaml"),
		"localhost:9093": s.alertmanager, "localhost:9844": s.exporter,
	})
	if err != nil {
		return err
	}
	return s.example("alertmanager.yml", map[string]string{"http://localhost:8060": receiver})
}

// waits are those of Alertmanager.
var waits = regexp.MustCompile(`(group_wait|group_interval|repeat_interval): (\w+)`)

// example writes a file of examples/ with parts replaced, which must be there.
func (s *stack) example(name string, replace map[string]string) error {
	raw, err := os.ReadFile(filepath.Join(s.root, "examples", name))
	if err != nil {
		return err
	}
	text := string(raw)
	for from, to := range replace {
		if !strings.Contains(text, from) {
			return fmt.Errorf("examples/%s has no %q any more", name, from)
		}
		text = strings.ReplaceAll(text, from, to)
	}
	text = waits.ReplaceAllStringFunc(text, func(wait string) string {
		key, value, _ := strings.Cut(wait, ": ")
		d, parseErr := model.ParseDuration(value)
		if parseErr != nil {
			err = fmt.Errorf("examples/%s: %s: %w", name, wait, parseErr)
			return wait
		}
		return key + ": " + model.Duration(max(time.Second, time.Duration(d)/time.Duration(s.speed))).String()
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600)
}
