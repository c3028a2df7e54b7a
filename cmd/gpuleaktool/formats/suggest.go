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
// do not tell for certain. A name that is not understood is -.
func Suggest(first string) (n int, columns string) {
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(first, "\ufeff")))
	r.Comma, r.TrimLeadingSpace, r.LazyQuotes = commaOf(first), true, true
	names, err := r.Read()
	if err != nil {
		return 1 + strings.Count(first, string(r.Comma)), ""
	}
	roles := make([]string, len(names))
	dated := slices.ContainsFunc(names, func(name string) bool { return plainName(name) == "date" })
	for i, name := range names {
		roles[i] = suggested(name)
		if dated && plainName(name) == "time" {
			roles[i] = "time"
		}
	}
	own := slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(plainName(name), "uuid") })
	for i, name := range names {
		if own && roles[i] == "uuid" && !strings.HasSuffix(plainName(name), "uuid") {
			roles[i] = "-"
		}
	}
	seen := map[string]bool{}
	for _, role := range roles {
		base, _, _ := strings.Cut(role, "[")
		if base != "-" && seen[base] {
			return len(names), "" // one of two, and nobody knows which
		}
		seen[base] = true
	}
	if !seen["used"] || !seen["timestamp"] && !seen["time"] && !seen["gpu"] && !seen["pid"] {
		return len(names), ""
	}
	return len(names), strings.Join(roles, ",")
}

// unitAtEnd is a unit at the end of a name, such as used_mb, used (GiB) or usedBytes.
var unitAtEnd = regexp.MustCompile(`(?:[^A-Za-z](?i:(bytes?|[kmg]i?b|b))|[a-z](Bytes?|[KMG]i?B))[\])]?$`)

var notOfName = regexp.MustCompile(`[^a-z0-9]+`)

// plainName returns a name in lower case with _ between its words.
func plainName(name string) string {
	return strings.Trim(notOfName.ReplaceAllString(strings.ToLower(name), "_"), "_")
}

var (
	usedName  = regexp.MustCompile(`^(?:gpu_)?(?:mem(?:ory)?_?|fb_?|vram_?)?used(?:_gpu)?(?:_?mem(?:ory)?)?$`)
	totalName = regexp.MustCompile(`^(?:gpu_)?(?:mem(?:ory)?_?|fb_?|vram_?)?total(?:_?mem(?:ory)?)?$`)
	freeName  = regexp.MustCompile(`^(?:gpu_)?(?:mem(?:ory)?_?|fb_?|vram_?)?free(?:_?mem(?:ory)?)?$`)
	timeName  = regexp.MustCompile(`^(?:date_?time|time(?:_?stamp)?|timestamp_.*|ts|zeit|zeitstempel|[a-z]+_at|wall_time)$`)
)

// suggested returns the column of a name.
func suggested(name string) string {
	base, unit := name, ""
	if m := unitAtEnd.FindStringSubmatchIndex(name); m != nil {
		from := max(m[2], m[4])
		unit = "[" + map[byte]string{'b': "B", 'k': "K", 'm': "M", 'g': "G"}[strings.ToLower(name[from:])[0]]
		rest := strings.ToLower(strings.TrimRight(name[from:], ")]"))
		switch {
		case strings.HasPrefix(rest, "b"):
			unit += "]"
		case strings.Contains(rest, "i"):
			unit += "iB]"
		default:
			unit += "B]"
		}
		base = name[:from]
	}
	switch base := plainName(base); {
	case usedName.MatchString(base):
		return "used" + unit
	case totalName.MatchString(base):
		return "total" + unit
	case freeName.MatchString(base):
		return "free" + unit
	}
	switch name := plainName(name); {
	case name == "pid", name == "date", name == "uuid":
		return name
	case name == "gpu_uuid", slices.Contains([]string{"host", "hostname", "node", "instance"}, name):
		return "uuid" // of a node, with the number of the GPU
	case slices.Contains([]string{"process", "process_name", "command"}, name):
		return "process"
	case slices.Contains([]string{"gpu", "gpu_id", "gpu_index", "index", "device", "device_id", "gpu_number"}, name):
		return "gpu"
	case name == "gpu_name":
		return "name"
	case timeName.MatchString(name):
		return "timestamp"
	}
	return "-"
}
