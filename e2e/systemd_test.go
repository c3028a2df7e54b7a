// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && nightly

package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestExamplesSystemd has systemd judge how exposed the service is, with and without the drop-in for probes. Its
// scale ends at 10.
func TestExamplesSystemd(t *testing.T) {
	unit := harness.ReadExample(t, "gpu_leak_exporter.service")
	_, settings, found := strings.Cut(harness.ReadExample(t, "probe.conf"), "[Service]\n")
	if !found {
		t.Fatal("the drop-in has no [Service]")
	}
	// Offline it looks at one file: what the drop-in says comes last.
	with := strings.Replace(unit, "[Install]", "[Service]\n"+settings+"[Install]", 1)
	for _, c := range []struct{ name, text, most string }{{"plain", unit, "20"}, {"with probes", with, "26"}} {
		file := filepath.Join(t.TempDir(), "gpu_leak_exporter.service")
		harness.WriteFile(t, file, c.text)
		out, err := exec.Command("systemd-analyze", "security", "--offline=true", "--threshold="+c.most, file).CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		t.Logf("%s: %s", c.name, lines[len(lines)-1])
		if err != nil {
			t.Errorf("%s: %v\n%s", c.name, err, out)
		}
	}
}
