// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestSlurmScripts runs the prolog and the epilog as Slurm would, for a job on GPUs 0 and 2.
func TestSlurmScripts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gpu-jobs")
	var scripts []string
	for _, b := range read(t, "docs/operating.md").blocks {
		if strings.HasPrefix(b.text, "#!") {
			scripts = append(scripts, strings.ReplaceAll(b.text, "/run/gpu-jobs", dir))
		}
	}
	if len(scripts) != 3 {
		t.Fatalf("%d scripts", len(scripts))
	}
	run := func(script string) {
		cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
		cmd.Env = append(os.Environ(), "SLURM_JOB_ID=4711", "SLURM_JOB_GPUS=0,2")
		harness.Run(t, cmd)
	}
	run(scripts[0])
	for _, gpu := range []string{"0", "2"} {
		if text, err := os.ReadFile(filepath.Join(dir, gpu)); err != nil || string(text) != "4711\n" {
			t.Errorf("after the prolog GPU %s has %q, %v", gpu, text, err)
		}
	}
	run(scripts[1])
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("after the epilog there are %v, %v", left, err)
	}
}

// TestSlurmHealth runs the health check with a tool that pages, and with one that says nothing.
func TestSlurmHealth(t *testing.T) {
	t.Parallel()
	script := ""
	for _, b := range read(t, "docs/operating.md").blocks {
		if strings.Contains(b.text, "HealthCheckProgram=") {
			script = b.text
		}
	}
	for _, c := range []struct{ tool, want string }{
		{"printf 'PAGE: GPU 0 is lost\\nMEMORY\\n'; exit 2", "update nodename=node7 state=drain reason=PAGE: GPU 0 is lost\n"},
		{"exit 0", ""},
	} {
		bin := t.TempDir()
		for name, body := range map[string]string{
			"gpuleaktool": c.tool, "hostname": "echo node7", "scontrol": fmt.Sprintf("echo \"$@\" >> %s/said", bin),
		} {
			harness.Must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+body+"\n"), 0o700))
		}
		cmd := exec.Command("bash", "-c", script)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		harness.Run(t, cmd)
		if said, _ := os.ReadFile(filepath.Join(bin, "said")); string(said) != c.want {
			t.Errorf("Slurm is told %q, want %q", said, c.want)
		}
	}
}
