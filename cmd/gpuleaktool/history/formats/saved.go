// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"regexp"
	"strings"
)

// SavedAgain returns the columns of a CSV of nvidia-smi that was saved again with quotes, semicolons or tabs, by its first line. It
// returns nil if the file is none. A column that is of no use is -.
func SavedAgain(first string) (columns []string) {
	comma := commaOf(first)
	if !isSMINames(first, comma) || comma == ',' && !strings.Contains(first, `"`) {
		return nil
	}
	seen := map[string]bool{"": true}
	for name := range strings.SplitSeq(first, string(comma)) {
		base, unit, _ := strings.Cut(strings.Trim(strings.TrimSpace(name), `"`), " [")
		role := roleOf(base)
		switch {
		case seen[role]:
			base = "-"
		case unit != "":
			base += "[" + unit
		}
		seen[role] = true
		columns = append(columns, base)
	}
	return columns
}

// commaOf returns what stands between the names of a header.
func commaOf(header string) rune {
	for _, comma := range ",;\t" {
		if strings.ContainsRune(header, comma) {
			return comma
		}
	}
	return ','
}

// smiName is a name of a column as nvidia-smi writes it, with its unit.
var smiName = regexp.MustCompile(`^[a-z][a-z0-9_.]*(?: \[[^\]]*\])?$`)

// isSMINames reports whether a line is a header of nvidia-smi --query-gpu or --query-compute-apps.
func isSMINames(line string, comma rune) bool {
	memory, other := false, false
	for name := range strings.SplitSeq(line, string(comma)) {
		name = strings.Trim(strings.TrimSpace(name), `"`)
		if name != "" && !smiName.MatchString(name) {
			return false
		}
		name, _, _ = strings.Cut(name, " [")
		switch name {
		case "memory.used", "memory.free", "used_gpu_memory", "used_memory":
			memory = true
		case "timestamp", "index", "uuid", "gpu_uuid", "name", "gpu_name", "pci.bus_id", "gpu_bus_id", "memory.total", "pid":
			other = true
		}
	}
	return memory && other
}
