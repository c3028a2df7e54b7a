// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package allocator

import (
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

const (
	// refusalWithin is how old a refusal is at most: an earlier exporter may have told it.
	refusalWithin = time.Minute
	// refusalPause is how many seconds are between two at least. A probe tells one a minute, another program may pretend to have more.
	refusalPause = 30
)

// RefusedOn returns the last refusal of a process in a sample of the GPU of that UUID; nil if there was none on it. It does not wait,
// and the result must not be changed.
func (r *Reader) RefusedOn(uuid string, s *gpu.Sample, in *gpu.Process) *Refusal {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.processes[in.ID]
	if p == nil || p.refusal == nil || p.refusal.UUID != "" && !slices.Contains(uuids(uuid, s, in), p.refusal.UUID) {
		return nil
	}
	return p.refusal
}

// follows reports whether a refusal is new after the last one; nil is none.
func (r *Refusal) follows(last *Refusal, now time.Time) bool {
	return r != nil && now.Sub(time.Unix(r.Time, 0)).Abs() <= refusalWithin && (last == nil || r.Time >= last.Time+refusalPause)
}
