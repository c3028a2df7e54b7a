// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package formats

import (
	"encoding/csv"
	"regexp"
	"slices"
	"strings"
)

// Suggest returns how many columns the first line of a CSV has, and what --columns might be by their names: "" if they
// do not tell. A name that is not understood is -.
func Suggest(first string) (n int, columns string) {
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(first, "\ufeff")))
	r.Comma, r.TrimLeadingSpace, r.LazyQuotes = commaOf(first), true, true
	names, err := r.Read()
	if err != nil {
		return 1 + strings.Count(first, string(r.Comma)), ""
	}
	roles := make([]string, len(names))
	for i, name := range names {
		role := suggested(strings.ToLower(name))
		if base, _, _ := strings.Cut(role, "["); slices.ContainsFunc(roles[:i], func(have string) bool { return strings.HasPrefix(have, base) }) {
			role = "-" // the first one it is
		}
		roles[i] = role
	}
	if !slices.ContainsFunc(roles, func(r string) bool { return strings.HasPrefix(r, "used") }) {
		return len(names), ""
	}
	return len(names), strings.Join(roles, ",")
}

// unitInName is a unit in the name of a column.
var unitInName = regexp.MustCompile(`(?:^|[^a-z])(b|bytes|mib|mb|gib|gb)(?:[^a-z]|$)`)

// suggested returns the column of a name in lower case.
func suggested(name string) string {
	unit := "[MiB]" // as all of NVIDIA's tools
	if m := unitInName.FindStringSubmatch(name); m != nil {
		unit = "[" + map[string]string{"b": "B", "bytes": "B", "mib": "MiB", "mb": "MB", "gib": "GiB", "gb": "GB"}[m[1]] + "]"
	}
	has := func(parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(name, part) })
	}
	switch {
	case has("used", "allocated"):
		return "used" + unit
	case has("free"):
		return "free" + unit
	case has("total") && !has("time"):
		return "total" + unit
	case name == "pid":
		return "pid"
	case has("process", "command"):
		return "process"
	case has("uuid"):
		return "uuid"
	case name == "date":
		return "date"
	case has("time", "zeit") || name == "ts":
		return "timestamp"
	case has("util", "temp", "power", "clock"):
		return "-"
	case has("gpu", "index", "device"):
		return "gpu"
	}
	return "-"
}
