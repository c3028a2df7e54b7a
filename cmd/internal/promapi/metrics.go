// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package promapi

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// MemoryMetric is a metric whose name says that it is used memory: the scope of its series
// as rules name it, and the metrics that bound it. A process or a workload has none: it
// shares a memory with others.
type MemoryMetric struct{ Scope, Total, Reserved, Free string }

// The scopes of series that are no memory but share one with others.
const (
	ScopeProcess  = "process"
	ScopeWorkload = "workload"
)

// MemoryMetrics are those of this exporter, DCGM's and nvidia_gpu_exporter's, by name.
var MemoryMetrics = map[string]MemoryMetric{
	"gpu_memory_used_bytes":          {"gpu", "gpu_memory_total_bytes", "gpu_memory_reserved_bytes", ""},
	"gpu_mig_memory_used_bytes":      {"mig", "gpu_mig_memory_total_bytes", "gpu_mig_memory_reserved_bytes", ""},
	"gpu_process_memory_used_bytes":  {Scope: ScopeProcess},
	"gpu_workload_memory_used_bytes": {Scope: ScopeWorkload},
	"DCGM_FI_DEV_FB_USED":            {"gpu", "DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_FB_RESERVED", "DCGM_FI_DEV_FB_FREE"},
	"nvidia_smi_memory_used_bytes":   {"gpu", "nvidia_smi_memory_total_bytes", "nvidia_smi_memory_reserved_bytes", "nvidia_smi_memory_free_bytes"},
}

// Bounds returns the names of the metrics that bound this one; nil if none does.
func (m MemoryMetric) Bounds() []string {
	return slices.DeleteFunc([]string{m.Total, m.Reserved, m.Free}, func(name string) bool { return name == "" })
}

// Mebibyte is the unit of DCGM, in bytes.
const Mebibyte = 1 << 20

// unitOf returns how many bytes one is of a metric, or of a query; ok is false where
// it does not tell.
func unitOf(text string) (unit float64, ok bool) {
	mib, bytes := strings.Contains(text, "DCGM_FI_DEV_FB_"), strings.Contains(text, "_bytes")
	switch {
	case mib && !bytes:
		return Mebibyte, true
	case bytes && !mib:
		return 1, true
	}
	return 0, false
}

// errUnit says that the unit of a metric is not known.
var errUnit = errors.New("does not tell its unit: if it is used memory, give --unit=B or --unit=MiB")

// quoted are the texts of a query.
var quoted = regexp.MustCompile("\"(?:\\\\.|[^\"])*\"|'(?:\\\\.|[^'])*'|`[^`]*`")

// UnitOfAll returns the unit of metrics or, where a query has taken their names
// away, that of the query; unit, if that is given. It is an error where none tells it.
func UnitOfAll(unit float64, names []string, query string) (float64, error) {
	if unit != 0 {
		return unit, nil
	}
	if names = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" }); len(names) == 0 {
		if strings.ContainsAny(quoted.ReplaceAllString(query, ""), "*/%^") {
			return 0, fmt.Errorf("%s %w", query, errUnit) // bytes over bytes are none
		}
		names = []string{query}
	}
	for _, name := range names {
		own, ok := unitOf(name)
		if !ok {
			return 0, fmt.Errorf("%s %w", name, errUnit)
		}
		if unit != 0 && own != unit {
			return 0, errors.New("some of its metrics are in bytes and some in MiB: ask for them one by one")
		}
		unit = own
	}
	return unit, nil
}

// Selector is a query that asks for one known metric of used memory and does nothing with it.
type Selector struct {
	Name     string
	Metric   MemoryMetric
	matchers string // as the query has them
}

// plainSelector is a query for one metric, without its quoted texts: its name and its matchers.
var plainSelector = regexp.MustCompile(`^\s*([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{([^{}]*)\})?\s*$`)

// PlainMetric returns the name of the metric that a query asks for, if it does nothing with it.
func PlainMetric(query string) (name string, ok bool) {
	parts := plainSelector.FindStringSubmatch(quoted.ReplaceAllString(query, `""`))
	// With VictoriaMetrics, matchers may stand in an or: the name would be one of the first ones only.
	if parts == nil || strings.Contains(parts[2], " or ") {
		return "", false
	}
	return parts[1], true
}

// ParseSelector returns what a query asks for; ok is false where it is another one, or where nothing
// is known to bound the metric.
func ParseSelector(query string) (s Selector, ok bool) {
	name, ok := PlainMetric(query)
	m, known := MemoryMetrics[name]
	if !ok || !known || m.Total == "" {
		return s, false
	}
	s = Selector{Name: name, Metric: m}
	if _, inner, ok := strings.Cut(query, "{"); ok {
		s.matchers = ", " + strings.TrimSuffix(strings.TrimSpace(inner), "}")
	}
	return s, true
}

// Of returns a query for metrics of these names with the same matchers.
func (s Selector) Of(names ...string) string {
	return fmt.Sprintf(`{__name__=~"%s"%s}`, strings.Join(names, "|"), s.matchers)
}
