// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package watch shows on a terminal what an exporter says of a node now.
package watch

import (
	"slices"
)

// Status is how a node is. Its number is the exit status by which Nagios plugins and Slurm's
// HealthCheckProgram tell it.
type Status int

// The statuses.
const (
	Well Status = iota
	Ticket
	Page
	Unknown
)

// String returns the word for it.
func (s Status) String() string { return [...]string{"well", "ticket", "page", "not known"}[s] }

// Of returns the status that a severity stands for. One that nobody knows is not known.
func Of(severity string) Status {
	if i := slices.Index([]string{"note", "ticket", "page"}, severity); i >= 0 {
		return Status(i)
	}
	return Unknown
}
