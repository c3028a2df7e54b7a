// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
)

// StartPrometheus runs the real Prometheus with this configuration on a free
// port of 127.0.0.1 until the end of the test, and returns once it is ready.
func StartPrometheus(t testing.TB, config string) *Process {
	return serveConfig(t, "prometheus", config, "--storage.tsdb.path=data")
}

// StartOldest runs the oldest Prometheus that there may be, which make check-oldest builds.
func StartOldest(t testing.TB, config string) *Process {
	return serveConfig(t, "oldest/prometheus", config, "--storage.tsdb.path=data")
}

// StartAlertmanager runs the real Alertmanager as StartPrometheus does.
func StartAlertmanager(t testing.TB, config string) *Process {
	return serveConfig(t, "alertmanager", config, "--storage.path=data", "--cluster.listen-address=")
}

// serveConfig runs a program of Prometheus in a folder of its own.
func serveConfig(t testing.TB, name, config string, more ...string) *Process {
	t.Helper()
	dir := t.TempDir()
	Must(t, os.WriteFile(filepath.Join(dir, "config.yml"), []byte(config), 0o600))
	cmd := exec.Command(ExternalTool(t, name), append(more, "--config.file=config.yml", "--web.listen-address=127.0.0.1:0")...)
	cmd.Dir = dir
	p := Start(t, name, cmd)
	p.waitReady(t)
	return p
}

// ExampleConfig returns examples/prometheus.yml for these exporters, with a scrape and an evaluation each second, and the rule files
// of a folder.
func ExampleConfig(t testing.TB, rules string, exporters ...*Process) string {
	t.Helper()
	addresses := make([]string, len(exporters))
	for i, p := range exporters {
		addresses[i] = p.Address()
	}
	text := Replace(t, ReadExample(t, "prometheus.yml"), "localhost:9844", strings.Join(addresses, "', '"), 1)
	text = Replace(t, text, "/etc/prometheus/rules/gpu_leak_exporter/*.yaml", filepath.Join(rules, "*.yaml"), 1)
	return Replace(t, text, ": 15s", ": 1s", 2)
}

// ReadExample returns a file of examples/.
func ReadExample(t testing.TB, name string) string {
	t.Helper()
	return ReadFile(t, filepath.Join(Root(), "examples", name))
}

// Replace replaces a part of a text that has to be there n times: what a test
// changes in an example must not silently stay as it was.
func Replace(t testing.TB, text, from, to string, n int) string {
	t.Helper()
	if got := strings.Count(text, from); got != n {
		t.Fatalf("the example has %q %d times, want %d", from, got, n)
	}
	return strings.ReplaceAll(text, from, to)
}

// atOnce is the mixin for simulated time, in which a minute passes in less than a second: no alert waits, and none outlives its
// condition for long. But those on the scrapes wait for half a minute of them, which are in real time, and on a busy machine several
// in a row are late; and how long targets must be absent is as shipped. The exporter waits by the simulated clock.
const atOnce = `
local mixin = import 'mixin.libsonnet';
local waits = [k for k in std.objectFields(mixin._config) if std.startsWith(k, 'for') || k == 'keepFiringFor'];
mixin + { _config+:: { [k]: '0s' for k in waits } + { forExporter: '5s', scrapeGap: '20s', absenceRange: '30s', newFor: '20s', wellAfter: '3s', forAbsent: mixin._config.forAbsent } }`

// FastRules renders the alerts and rules of the mixin so that alerts do not wait, and
// returns their folder.
func FastRules(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, field := range []string{"prometheusAlerts", "prometheusRules"} {
		file := filepath.Join(dir, field+".yaml") // JSON is YAML
		Run(t, exec.Command(ExternalTool(t, "jsonnet"), "-J", filepath.Join(Root(), "mixin"), "-o", file, "-e", "("+atOnce+")."+field))
	}
	return dir
}

// Address returns host and port of URL.
func (p *Process) Address() string { return strings.TrimPrefix(p.URL, "http://") }

// Query evaluates a PromQL expression, now. The name of a series is its label
// __name__ too.
func (p *Process) Query(expr string) (Metrics, error) {
	body, err := Get(p.URL + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data struct{ Result model.Vector }
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("answer to query %q: %w", expr, err)
	}
	return metricsOf(answer.Data.Result), nil
}
