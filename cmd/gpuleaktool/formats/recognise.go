// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"regexp"
	"slices"
	"strings"
)

// Recognise returns the format of a log that begins with head, "" if it is none of these. Lines of
// other programs may stand before it, such as those of nohup. A CSV is recognised by nothing:
// its columns have to be named.
func Recognise(head string) Format {
	head = strings.TrimLeft(head, " \t\r\n")
	switch {
	case isJSON(head):
		return ""
	}
	for line := range strings.Lines(head) {
		if f := recogniseLine(strings.TrimSpace(line)); f != "" {
			return f
		}
	}
	return ""
}

var objectHead = regexp.MustCompile(`^(?:\{\s*(?:\}|"(?:[^"\\]|\\.)*"\s*:)|\[\s*[\[{\]])`)

// isJSON reports whether a text begins as JSON: a series of OpenMetrics may begin with { as well.
func isJSON(head string) bool { return objectHead.MatchString(head) }

// recogniseLine returns the format that a line is certain to be of, "" if it is of none.
func recogniseLine(line string) Format {
	switch {
	case strings.Contains(line, "Entity") && slices.ContainsFunc(strings.Fields(line), func(f string) bool { return f == "#Entity" }) || strings.HasPrefix(line, "# Entity"):
		return DCGMI
	}
	names, ok := strings.CutPrefix(line, "#")
	if !ok {
		return ""
	}
	columns := strings.Fields(strings.ToLower(strings.ReplaceAll(names, ",", " ")))
	for len(columns) > 0 && (columns[0] == "date" || columns[0] == "time") {
		columns = columns[1:]
	}
	switch {
	case len(columns) < 2 || columns[0] != "gpu" || !slices.Contains(monitorColumns, columns[1]):
		return "" // a comment may begin with gpu, too
	case columns[1] == "pid":
		return Pmon
	}
	return Dmon
}

// monitorColumns are the first columns of the groups of metrics of dmon, and that of pmon.
var monitorColumns = []string{"pwr", "gtemp", "sm", "mem", "mclk", "pclk", "pviol", "fb", "sbecc", "rxpci", "pid"}

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
