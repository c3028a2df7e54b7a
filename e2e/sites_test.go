// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	pid, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var report, said bytes.Buffer
	tool := exec.Command(harness.Tool(t), "sites", "--pid="+strings.TrimSpace(pid), "--for=10s", "--output=json")
	tool.Stdout, tool.Stderr = &report, &said
	if err := tool.Run(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &stderr)
	}
	var found struct {
		Sites []struct {
			Line   string
			Growth uint64 `json:"growth_bytes"`
		}
	}
	if err := json.Unmarshal(report.Bytes(), &found); err != nil {
		t.Fatalf("%v\n%s", err, &report)
	}
	source, err := os.ReadFile(programs)
	if err != nil {
		t.Fatal(err)
	}
	before, _, _ := bytes.Cut(source, []byte("# LEAK cache"))
	line := bytes.Count(before, []byte("\n")) + 1
	if len(found.Sites) != 1 || found.Sites[0].Growth == 0 || !strings.HasPrefix(found.Sites[0].Line, "testdata/leaks.py:"+strconv.Itoa(line)+" ") {
		t.Errorf("line %d leaks: %s", line, &report)
	}
	if !strings.Contains(said.String(), "records where it allocates for 10 s, until ") {
		t.Errorf("it said %s", &said)
	}
}
