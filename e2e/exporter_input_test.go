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

// TestVersion asks both programs what they are.
func TestVersion(t *testing.T) {
	t.Parallel()
	for _, program := range []string{harness.Exporter(t), harness.Tool(t)} {
		out, err := exec.Command(program, "--version").Output()
		if err != nil || !strings.HasPrefix(string(out), filepath.Base(program)+", version ") {
			t.Errorf("%s: %v\n%s", program, err, out)
		}
	}
}
