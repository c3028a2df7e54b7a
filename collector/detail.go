// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import "github.com/gpuleak/gpu_leak_exporter/detector"

// Detail says which processes have all of their series. Of a fleet, which has none, it is about GPUs and GPU instances.
type Detail string

const (
	// DetailAll is all processes that have series of their own.
	DetailAll Detail = "all"
	// DetailGrowing is those that leak or grow. The others keep what tells who they are and what they hold, and what
	// the mixin's alerts ask of them.
	DetailGrowing Detail = "growing"
)

// ofQuiet are the series of a process that neither leaks nor grows, with DetailGrowing. The alerts on memory that is
// nearly full, held by a zombie or fragmented ask for its pattern. That it does not leak has to be said: an alert
// remembers for two minutes what is not denied. Allocators have series only where a program has a probe.
var ofQuiet = map[string]bool{
	"gpu_process_memory_used_bytes":              true,
	"gpu_process_info":                           true,
	"gpu_process_start_time_seconds":             true,
	"gpu_process_leak_detected":                  true,
	"gpu_process_memory_pattern":                 true,
	"gpu_process_device_open":                    true,
	"gpu_process_untracked_memory_bytes":         true,
	"gpu_process_allocator_allocated_bytes":      true,
	"gpu_process_allocator_reserved_bytes":       true,
	"gpu_process_allocator_inactive_split_bytes": true,
	"gpu_process_leak_site_bytes":                true,
	"gpu_process_allocator_info":                 true,
}

// quiet reports whether a memory neither leaks nor grows, as far as can be told.
func quiet(v *detector.Verdict) bool {
	return !v.Leak && v.Withheld == detector.WithheldNone && v.SecondsToOOM.Finite() == nil
}

// shows reports whether the entity has series of the row.
func (r *row) shows(of *entity) bool {
	switch {
	case !of.up && !r.down:
		return false
	case r.detail != DetailGrowing || !of.quiet:
		return true
	case r.scope == ofProcess:
		return ofQuiet[r.name]
	}
	return !r.growing
}
