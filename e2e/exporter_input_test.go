// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestVersion asks both programs, as go build makes them, what they are: no line of it is empty.
func TestVersion(t *testing.T) {
	t.Parallel()
	for _, program := range []string{harness.Exporter(t), harness.Tool(t)} {
		out, err := exec.Command(program, "--version").Output()
		if err != nil || !strings.HasPrefix(string(out), filepath.Base(program)+", version ") {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
		for line := range strings.Lines(string(out)) {
			if _, value, found := strings.Cut(line, ":"); !found || strings.TrimSpace(value) == "" || strings.Contains(line, ": ,") {
				t.Errorf("%s: an empty line or branch: %q", program, line)
			}
		}
	}
}
