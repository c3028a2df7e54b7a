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
	"strconv"
	"testing"
)

// StartPrometheus runs the real Prometheus with this configuration on a free
// port of 127.0.0.1 until the end of the test, and returns once it is ready.
func StartPrometheus(t testing.TB, config string) *Process {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(ExternalTool(t, "prometheus"),
		"--config.file="+file,
		"--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address=127.0.0.1:0",
	)
	cmd.Dir = dir
	p := start(t, "prometheus", cmd)
	p.waitReady(t)
	return p
}

// Query evaluates a PromQL expression, now. The name of a series is its label
// __name__ too.
func (p *Process) Query(expr string) (Metrics, error) {
	body, err := Get(p.URL + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return nil, err
	}
	var answer struct {
		Data struct {
			ResultType string
			Result     []struct {
				Metric map[string]string
				Value  [2]any // time as a number, value as a string
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("answer to query %q: %w", expr, err)
	}
	var m Metrics
	for _, r := range answer.Data.Result {
		text, _ := r.Value[1].(string)
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, fmt.Errorf("answer to query %q: %w", expr, err)
		}
		m = append(m, Sample{r.Metric["__name__"], r.Metric, v})
	}
	return m, nil
}
