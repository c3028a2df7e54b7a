// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package process holds what is known of processes that share a memory: whether they compute, and what
// stays when they end. Exported fields are what a state file keeps.
package process

import "time"

// Absence is how long a process may be missing from incomplete lists before it counts as gone, and a
// group or a crash loop may be without one: twice the longest back-off of Kubernetes.
const Absence = 10 * time.Minute

// State is what the kernel says about a process, as far as it matters for
// memory that nobody will use again.
type State uint8

// The states of a process.
const (
	StateUnknown       State = iota
	StateAlive               // runs, sleeps or is stopped
	StateUnkillable          // D: in an uninterruptible wait
	StateOrphaned            // its parent is gone and it is no service
	StateZombieProcess       // Z: it has exited and holds no GPU memory of its own
	StateGone                // there is no such process any more, and yet it is a member
)
