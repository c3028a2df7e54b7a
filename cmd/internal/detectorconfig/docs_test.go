// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package detectorconfig

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuleak/gpu_leak_exporter/collector/testkit"
)

// TestDocs holds the table in the detector's documentation to the thresholds.
func TestDocs(t *testing.T) {
	const file, begin, end = "../../../detector/README.md", "<!-- thresholds -->\n", "<!-- /thresholds -->\n"
	head, rest, begun := strings.Cut(testkit.Read(t, file), begin)
	_, foot, ended := strings.Cut(rest, end)
	if !begun || !ended {
		t.Fatalf("%s has no place for the table", file)
	}
	var want strings.Builder
	want.WriteString("| key | default | | why this default |\n|---|---|---|---|\n")
	for _, th := range thresholds {
		fmt.Fprintf(&want, "| `%s` | `%s` | %s | %s |\n", th.Key(), th.Default(), th.Help, th.Reason)
	}
	testkit.Golden(t, file, head+begin+want.String()+end+foot)
}

// TestExample wants the rules of the example to do what their comments say.
func TestExample(t *testing.T) {
	c := load(t, "../../../examples/detector.yml")
	for _, tt := range []struct {
		labels map[string]string
		mute   bool
	}{
		{map[string]string{"scope": "process", "namespace": "serving", "process": "vllm"}, true},
		{map[string]string{"scope": "gpu", "name": "NVIDIA GeForce RTX 4090"}, false},
		{map[string]string{"scope": "residual", "name": "NVIDIA GeForce RTX 4090"}, true},
		{map[string]string{"scope": "process", "name": "NVIDIA H200", "namespace": "batch", "pod": "nightly-trainer-1"}, false},
	} {
		testkit.Equal(t, c.For(tt.labels).Mute, tt.mute, "%v: muted", tt.labels)
	}
	job := c.For(map[string]string{"scope": "workload", "namespace": "batch", "pod": "a"})
	nightly := c.For(map[string]string{"scope": "workload", "namespace": "batch", "pod": "nightly-trainer-1"})
	if !(job.SettleTime > nightly.SettleTime && job.UnreleasedAfter == nightly.UnreleasedAfter) {
		t.Errorf("%+v\n%+v", job, nightly)
	}
}
