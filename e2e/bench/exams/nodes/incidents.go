// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package nodes

import (
	"slices"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/exams"
)

// Incident is what somebody reported in public about the memory of a GPU, lived
// again: a leak, memory that was held for nothing, or what was taken for a leak
// and was none.
type Incident struct {
	// Kind names it: the software, and what happened.
	Kind string
	// Thread is the address of the report.
	Thread string
	// Told is what the report tells, in our words and with its figures: hardware,
	// memory, rate, time until the end. Assumed is what it does not tell and the
	// story adds.
	Told, Assumed string
	// Ending is what the report says of how it ended.
	Ending Ending

	build func(*node)
}

// Ending is how an incident ended.
type Ending uint8

// The endings.
const (
	Fills   Ending = iota // memory is lost until there is none
	GoesOn                // memory is lost, and nothing is told of an end
	Holds                 // memory is held after the work has ended
	WasNone               // it was no leak
)

// incidents are all of them.
var incidents = slices.Concat(serving, training, later)

// Incidents returns all incidents, in the order of their indices. The caller must
// not change them.
func Incidents() []Incident { return incidents }

// Later returns the index of the first incident that was collected after the
// detector had been tuned on those before; there may be none.
func Later() int { return len(serving) + len(training) }

// NewIncident returns the story of an incident. What its report does not tell is
// drawn by the seed. The same seed and index always give the same story.
func NewIncident(seed uint64, index int) *Story {
	one := &incidents[index]
	return tell(func() *node {
		return create(seed, 0x696e63<<24+uint64(index), exams.Family[*node]{Kind: one.Kind, Build: one.build})
	})
}

// on sets the GPU of an incident, in GiB, and for how many hours the story goes.
// Builders call it before anything else.
func (n *node) on(gibibytes, hours float64) {
	n.memory(gibibytes)
	n.share()
	n.length(hours)
}
