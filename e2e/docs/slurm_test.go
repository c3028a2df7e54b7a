// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yuin/goldmark/ast"
)

// TestSlurmScripts runs the prolog and the epilog as Slurm would, for a job on GPUs 0 and 2.
func TestSlurmScripts(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "gpu-jobs")
	var scripts []string
	p := read(t, "docs/slurm.md")
	p.walk(func(n ast.Node) {
		if b, ok := n.(*ast.FencedCodeBlock); ok && strings.HasPrefix(string(b.Lines().Value(p.source)), "#!") {
			scripts = append(scripts, strings.ReplaceAll(string(b.Lines().Value(p.source)), "/run/gpu-jobs", dir))
		}
	})
	if len(scripts) != 2 {
		t.Fatalf("%d scripts", len(scripts))
	}
	run := func(script string) {
		cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
		cmd.Env = append(os.Environ(), "SLURM_JOB_ID=4711", "SLURM_JOB_GPUS=0,2")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out, script)
		}
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
