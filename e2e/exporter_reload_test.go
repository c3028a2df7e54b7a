// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// Rules for the process that leaks on GPU 0 of sim:node.
const (
	noRules  = "groups: []\n"
	muteLeak = "groups:\n- name: test\n  rules:\n  - match: ['{pod=~\"rag-embedder-.*\"}']\n    mute: true\n"
	badRules = "groups:\n- name: test\n  rules:\n  - match: ['{pid=1}']\n    mute: perhaps\n"
)

var leaky = map[string]string{"pod": "rag-embedder-6d5f8c7b9-x2k4q"}

// ruled starts an exporter over a simulated leak, with rules in a file, and waits
// until the leak is found.
func ruled(t *testing.T, args ...string) (p *harness.Process, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "rules.yml")
	write(t, file, noRules)
	// What is tested is that rules take effect, not how soon a leak is found.
	args = append(args, "--source=sim:node", "--source.speed=300", "--detector.config="+file, "--detector.leak-threshold=0.2")
	p = harness.StartExporter(t, harness.Options{Args: args})
	eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(want(s, 1, "gpu_process_leak_detected", leaky), reloaded(s, 1))
	})
	return p, file
}

// reloaded returns an error unless the metrics say that of the last reading of the
// rules.
func reloaded(s harness.Metrics, success float64) error {
	return errors.Join(
		want(s, success, "gpu_leak_exporter_config_last_reload_successful", nil),
		positive(s, "gpu_leak_exporter_config_last_reload_success_timestamp_seconds", nil))
}

func hangUp(t *testing.T, p *harness.Process) {
	t.Helper()
	if err := p.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

// TestHangupReadsRules mutes a leaking process of a running exporter, and unmutes it.
func TestHangupReadsRules(t *testing.T) {
	t.Parallel()
	p, file := ruled(t)
	write(t, file, muteLeak)
	hangUp(t, p)
	eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(reloaded(s, 1), gone(s, "gpu_process_leak_detected", leaky), gone(s, "gpu_process_leak_rate_bytes_per_second", leaky),
			want(s, 0, "gpu_leak_detected", map[string]string{"gpu": "0"}), // nor does the GPU leak: it is judged through its processes
			positive(s, "gpu_process_leak_slope_bytes_per_second", with(leaky, "window", "10m")))
	})
	first, err := p.Scrape(t).Value("gpu_leak_exporter_config_last_reload_success_timestamp_seconds", nil)
	if err != nil {
		t.Fatal(err)
	}
	hangUp(t, p) // the same file once more changes nothing
	eventually(t, p, func(s harness.Metrics) error { return errors.Join(readAfter(s, first), reloaded(s, 1)) })
	write(t, file, badRules)
	hangUp(t, p)
	s := eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(reloaded(s, 0), gone(s, "gpu_process_leak_detected", leaky))
	})
	before, err := s.Value("gpu_leak_exporter_config_last_reload_success_timestamp_seconds", nil)
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, patience, func() error { // the log comes by another way than the metrics
		said := 0
		for line := range strings.Lines(p.Output()) {
			if strings.Contains(line, "level=error") && strings.Contains(line, file+":4: ") && strings.Contains(line, file+":5: ") {
				said++
			}
		}
		if said != 1 {
			return fmt.Errorf("%d lines say what is wrong with the file, want 1", said)
		}
		return nil
	})
	write(t, file, noRules)
	hangUp(t, p)
	eventually(t, p, func(s harness.Metrics) error {
		return errors.Join(readAfter(s, before), reloaded(s, 1), want(s, 1, "gpu_process_leak_detected", leaky))
	})
	endsPromptly(t, p)
}

// readAfter returns an error until the rules were read after that time.
func readAfter(s harness.Metrics, before float64) error {
	now, err := s.Value("gpu_leak_exporter_config_last_reload_success_timestamp_seconds", nil)
	if err == nil && !(now > before) {
		err = fmt.Errorf("the last success is still that of %g", now)
	}
	return err
}

// TestBadRules starts with rules that are wrong, and has the tool say the same of
// them; the example is right.
func TestBadRules(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "rules.yml")
	write(t, file, badRules)
	p := harness.LaunchExporter(t, harness.Options{Args: []string{"--source=sim:node", "--detector.config=" + file}})
	if code := p.Wait(t, patience); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	tool := exec.Command(harness.Tool(t), "check", "config", file)
	out, err := tool.CombinedOutput()
	if code := tool.ProcessState.ExitCode(); code != 2 {
		t.Errorf("the tool ends with %d, want 2: %v", code, err)
	}
	for _, at := range []string{file + ":4: match: ", file + ":5: mute: "} {
		if !strings.Contains(p.Output(), at) || !strings.Contains(string(out), at) {
			t.Errorf("no %q in\n%s\nor in\n%s", at, p.Output(), out)
		}
	}
	if n := strings.Count(p.Output(), "\n"); n != 1 {
		t.Errorf("%d lines, want 1:\n%s", n, p.Output())
	}
	example := exec.Command(harness.Tool(t), "check", "config", "examples/detector.yml")
	example.Dir = harness.Root()
	if out, err := example.CombinedOutput(); err != nil || !strings.Contains(string(out), "  SUCCESS: 3 groups, ") {
		t.Errorf("%v\n%s", err, out)
	}
}
