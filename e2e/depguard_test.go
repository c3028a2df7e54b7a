// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestDepguard shows that each list of depguard in .golangci.yml refuses what it
// is there to refuse, and not what it is not: a strict list whose files match
// nothing is silent.
func TestDepguard(t *testing.T) {
	cases := []struct{ file, imports, list string }{
		{"detector/a.go", "github.com/go-kit/log", "detector"},
		{"detector/internal/stat/a.go", module + "/detector/internal/ablate", "stat"},
		{"detector/internal/series/a.go", module + "/detector/internal/process", "series"},
		{"collector/gpu/a.go", "github.com/NVIDIA/go-nvml/pkg/nvml", "gpu"},
		{"collector/gpu/b.go", module + "/collector/gpu/nvml", "gpu"},
		{"collector/gpu/nvml/a.go", module + "/detector", "nvml"},
		{"collector/workload/a.go", module + "/detector", "workload"},
		{"collector/a.go", "github.com/alecthomas/kingpin/v2", "collector"},
		{"collector/b.go", module + "/collector/gpu/nvml", "collector"},
		{"cmd/gpuleaktool/a.go", module + "/collector/workload", "tool"},
		{"cmd/gpuleaktool/b.go", "github.com/prometheus/client_golang/prometheus", "tool"},
		{"cmd/internal/a.go", "github.com/alecthomas/kingpin/v2", "internal"},
		{"cmd/internal/b.go", "github.com/prometheus/alertmanager/config", "internal"},
		{"cmd/gpu_leak_exporter/a.go", "google.golang.org/protobuf/proto", "exporter"},
		{"cmd/gpu_leak_exporter/internal/pages/a.go", module + "/cmd/gpu_leak_exporter/internal/limits", "pages"},
		{"cmd/gpu_leak_exporter/internal/limits/a.go", module + "/collector", "limits"},
		{"e2e/a.go", module + "/detector", "e2e"},
		{"e2e/oracle/a.go", module + "/collector/gpu", "oracle"},
		{"e2e/incidents/a.go", module + "/collector/workload", "incidents"},
		{"e2e/bench/a.go", module + "/collector", "bench"},
		{"e2e/bench/b.go", module + "/e2e/harness", "bench"},
		{"e2e/bench/fleet/a.go", module + "/detector", "fleet"},
		{"collector/c.go", "os/exec", "processes"},
		{"collector/gpu/c.go", "go.uber.org/goleak", "tests"},
		// These are allowed.
		{"detector/ok.go", "math", ""},
		{"detector/b.go", module + "/detector/internal/stat", ""},
		{"collector/gpu/ok_test.go", "go.uber.org/goleak", ""},
		{"collector/ok.go", module + "/detector", ""},
		{"cmd/gpu_leak_exporter/ok.go", module + "/cmd/gpu_leak_exporter/internal/limits", ""},
		{"e2e/oracle/ok.go", module + "/detector", ""},
		{"e2e/incidents/ok.go", module + "/collector", ""},
		{"e2e/bench/ok.go", module + "/collector/gpu", ""},
		{"e2e/bench/fleet/ok.go", module + "/collector/gpu", ""},
		{"e2e/ok.go", "os/exec", ""},
	}
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum", ".golangci.yml"} {
		text, err := os.ReadFile(filepath.Join(harness.Root(), name))
		if err != nil {
			t.Fatal(err)
		}
		writeSource(t, filepath.Join(dir, name), string(text))
	}
	for _, c := range cases {
		pkg := path.Base(path.Dir(c.file))
		writeSource(t, filepath.Join(dir, c.file), fmt.Sprintf("package %s\n\nimport _ %q\n", pkg, c.imports))
	}
	cmd := exec.Command(harness.ExternalTool(t, "golangci-lint"), "run",
		"--enable-only=depguard", "--output.json.path=stdout", "--show-stats=false", "--issues-exit-code=0", "./...")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	var report struct {
		Issues []struct {
			Text string
			Pos  struct{ Filename string }
		}
	}
	if err := json.NewDecoder(strings.NewReader(string(out))).Decode(&report); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		var lists []string
		for _, i := range report.Issues {
			if i.Pos.Filename == c.file {
				_, list, _ := strings.Cut(i.Text, "from list '")
				list, _, _ = strings.Cut(list, "'")
				lists = append(lists, list)
			}
		}
		if got := strings.Join(lists, " "); got != c.list {
			t.Errorf("%s imports %s: refused by %q, want %q", c.file, c.imports, got, c.list)
		}
	}
}

func writeSource(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
