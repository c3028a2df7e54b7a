// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/e2e/fakenvml"
	"github.com/gpuleak/gpu_leak_exporter/e2e/harness"
)

// TestWatch has the tool look at a node by itself, as in a first minute:
// who holds what is known, and nothing is judged yet.
func TestWatch(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 2)
	for i := range m.GPUs {
		m.GPUs[i].Processes, m.GPUs[i].ECC.Errors = nil, nil
	}
	m.GPUs[1].Processes = []fakenvml.Process{{PID: m.child(t), Memory: fakenvml.Constant(5 * gib)}}
	m.apply(t)
	cmd := exec.Command(harness.Tool(t), "watch", "--once", "--nvml.library-path="+m.library, "--path.procfs="+m.procfs, "--path.sysfs="+m.sysfs)
	cmd.Env = append(os.Environ(), fakenvml.Env(m.script, "")...)
	out, err := cmd.CombinedOutput()
	if code, is := errors.AsType[*exec.ExitError](err); !is || code.ExitCode() != 3 {
		t.Fatalf("%v, want exit status 3\n%s", err, out)
	}
	for _, want := range []string{"NOT KNOWN: Watching 2 GPUs. Not judged yet: 2.", "GPU 0", "GPU 1", "5.00 GiB"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
