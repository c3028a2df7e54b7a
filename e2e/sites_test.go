// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestSites has gpuleaktool ask a program with the probe that leaks: it names the line.
func TestSites(t *testing.T) {
	t.Parallel()
	programs := filepath.Join(harness.Root(), "collector/allocator/testdata/leaks.py")
	c := exec.Command("python3", programs, filepath.Join(harness.Root(), "probe"), "cache")
	in, err := c.StdinPipe()
	harness.Must(t, err)
	out, err := c.StdoutPipe()
	harness.Must(t, err)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	harness.Must(t, c.Start())
	pid, err := bufio.NewReader(out).ReadString('\n')
	harness.Must(t, err)
	var report bytes.Buffer
	tool := exec.Command(harness.Tool(t), "sites", "--pid="+strings.TrimSpace(pid), "--for=10s", "--output=json")
	tool.Stdout, tool.Stderr = &report, &stderr
	if err := tool.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &stderr)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &stderr)
	}
	var found struct{ Sites []struct{ Line string } }
	if err := json.Unmarshal(report.Bytes(), &found); err != nil {
		t.Fatalf("%v\n%s", err, &report)
	}
	before, _, _ := strings.Cut(harness.ReadFile(t, programs), "# LEAK cache")
	line := fmt.Sprintf("testdata/leaks.py:%d ", strings.Count(before, "\n")+1)
	if len(found.Sites) != 1 || !strings.HasPrefix(found.Sites[0].Line, line) {
		t.Errorf("%s leaks: %s", line, &report)
	}
}
