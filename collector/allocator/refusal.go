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
	refusalLink  = "/memfd:gpu_leak_oom"
	refusalMagic = "GPUNOMEM"
	// readAt is where a lock on the page says that a refusal was read: at this and its number. That is beyond all requests.
	readAt = 1 << 48
	// refusalWithin is how old a refusal is at most: an earlier exporter may have told it.
	refusalWithin = time.Minute
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

// hear reads the refusal of that number, once, and lets the process go on: it waits for a second at most. A probe tells one a minute,
// another program may pretend to have more.
func (r *Reader) hear(p *process, number uint32, now time.Time) {
	if number == 0 || number == p.refusals || now.Sub(p.heard) < answerInterval {
		return
	}
	p.heard = now
	a, err := r.findAnswer(p.id, refusalLink, refusalMagic)
	if err != nil || a.number != number {
		return // it is looked for again with the next page
	}
	p.refusals = number
	_ = tellRead(p.file, number) // without the lock, the process waits for its second
	told, err := parseRefusal(a.text)
	if err != nil || now.Sub(told.Time).Abs() > refusalWithin {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	p.refusal = told
}
