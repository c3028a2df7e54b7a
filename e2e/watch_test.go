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

// TestWatch has the tool look at a node by itself and through the exporter, as in a first minute:
// who holds what is known, and nothing is judged yet.
func TestWatch(t *testing.T) {
	t.Parallel()
	m := newMachine(t, 2)
	for i := range m.GPUs {
		m.GPUs[i].Processes, m.GPUs[i].ECC.Errors = nil, nil
	}
	m.GPUs[1].Processes = []fakenvml.Process{{PID: m.child(t), Memory: fakenvml.Constant(5 * gib)}}
	exporter := m.start(t)
	eventually(t, exporter, func(s harness.Metrics) error { return wantAll(s, m.id(1), map[string]float64{"gpu_processes": 1}) })
	for name, args := range map[string][]string{
		"by itself":    {"--nvml.library-path=" + m.library, "--path.procfs=" + m.procfs, "--path.sysfs=" + m.sysfs},
		"the exporter": {exporter.URL},
		"its page":     {exporter.URL + "/predict"},
	} {
		cmd := exec.Command(harness.Tool(t), append([]string{"watch", "--once"}, args...)...)
		cmd.Env = append(os.Environ(), fakenvml.Env(m.script, "")...)
		out, err := cmd.CombinedOutput()
		code, _ := errors.AsType[*exec.ExitError](err)
		if code == nil || code.ExitCode() != 3 {
			t.Fatalf("%s: %v, want exit status 3\n%s", name, err, out)
		}
		for _, want := range []string{"NOT KNOWN: Watching 2 GPUs. No judgement yet", "GPU 0", "GPU 1", "5.00 GiB"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: no %q in\n%s", name, want, out)
			}
		}
	}
}
