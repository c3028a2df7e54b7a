// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"regexp"
	"strings"
)

var objectHead = regexp.MustCompile(`^(?:\{\s*(?:\}|"(?:[^"\\]|\\.)*"\s*:)|\[\s*[\[{\]])`)

// isJSON reports whether a text begins as JSON: a series of OpenMetrics may begin with { as well.
func isJSON(head string) bool { return objectHead.MatchString(head) }

// Unreadable returns what a text that begins with head is, where it is a common log that cannot
// be read, and the command that makes one that can be; "" if it is none.
func Unreadable(head string) string {
	for line := range strings.Lines(strings.TrimLeft(head, " \t\r\n")) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, `{__name__="`):
			return "is what promtool tsdb dump writes: use promtool tsdb dump-openmetrics instead"
		case strings.Contains(line, "VRAM Total Used Memory (B)"):
			return "is of rocm-smi, which tells no time: record with " + recordROCm + " and read it with --columns=timestamp,gpu,total[B],used[B]"
		case strings.Contains(line, "NVSMI LOG") && strings.HasPrefix(line, "=="):
			return "is the text of nvidia-smi -q: record with " + recordGPUs
		case strings.HasPrefix(line, "[") && strings.Contains(line, "Driver:") && strings.Contains(line, "NVIDIA"):
			return "is of nvtop or gpustat: record with " + recordGPUs
		case gpustatLine.MatchString(line):
			return "is of gpustat: record with " + recordGPUs
		case strings.HasPrefix(line, "GPU ") && strings.Contains(line, "(UUID: GPU-"):
			return "is of nvidia-smi -L, which tells no memory: record with " + recordGPUs
		case strings.HasPrefix(line, "=") && strings.Contains(line, "ROCm System Management Interface"), strings.Contains(line, "AMD-SMI"):
			return "is of an AMD GPU: write a CSV of timestamp, gpu and used memory, and name its columns with --columns"
		}
	}
	if isJSON(strings.TrimLeft(head, " \t\r\n")) {
		return jsonHint(head)
	}
	return ""
}

// gpustatLine is a GPU in the output of gpustat.
var gpustatLine = regexp.MustCompile(`^\[\d+\] .*\|.*['°]C.*\|\s*\d+ / \d+ MB`)

// jsonHint returns what to do with JSON that is of no known program.
func jsonHint(head string) string {
	if strings.Contains(head, `"query_time"`) && strings.Contains(head, `"gpus"`) {
		return "is of gpustat: record with " + recordGPUs
	}
	if strings.Contains(head, `"device_name"`) && strings.Contains(head, `"gpu_clock"`) {
		return "is of nvtop, which tells no time: record with " + recordGPUs
	}
	if strings.Contains(head, `"dashboard"`) || strings.Contains(head, `"panels"`) {
		return "is a dashboard of Grafana, which holds no samples: query its Prometheus with --prometheus.url and --query"
	}
	return "is JSON of an unknown kind: Prometheus's answer to /api/v1/query_range can be read; make a CSV of anything else, and name its columns with --columns"
}
