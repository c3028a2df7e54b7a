// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"time"

	"github.com/gpuleak/gpu_leak_exporter/detector/internal/stat"
)

// The checks of what was read from a state file: see state.Checker.

// Check reports whether the exits can be some, but for those of the list.
func (p *Exits[K]) Check(time.Duration) bool {
	return p.Next >= 0 && p.Next < residuals && p.Len >= 0 && p.Len <= residuals
}

// Check reports whether the exit can be one.
func (e *Exit[K]) Check(last time.Duration) bool {
	return e.Used > 0 && e.Used <= stat.MaxBytes && e.Held >= 0 && e.Held <= e.Used && e.Since > 0 && e.Since <= last
}

// Check reports whether the pool can be one.
func (p *Pool) Check(time.Duration) bool { return p.N >= 0 && p.N < 2*keptWorkers }
