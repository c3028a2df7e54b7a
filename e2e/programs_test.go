// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestToolWithoutC has the tool of a build without a C compiler judge a log, and say in one line what it cannot do.
func TestToolWithoutC(t *testing.T) {
	t.Parallel()
	tool := filepath.Join(t.TempDir(), "gpuleaktool")
	build := exec.Command("go", "build", "-o", tool, "./cmd/gpuleaktool")
	build.Dir = harness.Root()
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	harness.Run(t, build)
	run := func(args ...string) (int, string) {
		cmd := exec.Command(tool, args...)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(bytes.TrimSpace(out))
	}
	if code, out := run("backtest", filepath.Join(harness.Root(), "cmd/gpuleaktool/testdata/leak.csv")); code != 1 || !strings.Contains(out, "GPU 1") {
		t.Errorf("backtest: %d\n%s", code, out)
	}
	const want = "gpuleaktool: error: --source=nvml: this build cannot read a driver: take the one for Linux from a package or tarball, or sim:SCENARIO or replay:FILE"
	if code, out := run("record", "--output="+filepath.Join(t.TempDir(), "x")); code != 2 || out != want {
		t.Errorf("record: %d\n%s", code, out)
	}
}
