// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package incident keeps what was known when a program ran out of GPU memory, or lost its GPU: what filled the memory, its last hour,
// and whether an alert came before.
package incident

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
)

// Version is that of the layout of an Incident as JSON. It changes when a field gets another meaning.
const Version = 1

const (
	// Step is the time between two values of a course.
	Step = 10 * time.Second
	// Span is how long a course is.
	Span = time.Hour
	// MaxCourse is how many values a course has at most.
	MaxCourse = int(Span/Step) + 1
	// MaxProcesses is how many processes an incident tells of.
	MaxProcesses = 8
)

// Kind says what happened.
type Kind string

// The kinds of incidents.
const (
	OutOfMemory Kind = "oom"       // a process ended while its memory was full, and not well as far as that is known
	Limit       Kind = "limit"     // the same, at the limit of its container
	Refused     Kind = "allocator" // the framework in a process was refused memory
	Lost        Kind = "gpu_lost"  // the GPU has lost its memory
	XID         Kind = "xid"       // an XID error that ends programs
)

// Kinds has for each kind whether growth can foretell it.
var Kinds = map[Kind]bool{OutOfMemory: true, Limit: true, Refused: true, Lost: false, XID: false}

// Incident is what was known at one end. It is the document that the exporter writes. It is immutable once a Store has it.
type Incident struct {
	Version int       `json:"version"`
	ID      string    `json:"id"` // unique in a Store
	Kind    Kind      `json:"kind"`
	Time    time.Time `json:"time"` // of the last sample before it
	Text    string    `json:"text"`
	// GPU is the index of the GPU, and Memory names the memory that was full: of the GPU, of a GPU instance, or within a limit.
	GPU      string          `json:"gpu"`
	UUID     string          `json:"uuid"`
	Memory   string          `json:"memory"`
	Capacity gpu.Opt[uint64] `json:"capacity_bytes"`
	Used     gpu.Opt[uint64] `json:"used_bytes"` // the most in the minute before, also of the processes
	XID      uint64          `json:"xid,omitempty"`
	Asked    gpu.Opt[uint64] `json:"asked_bytes,omitzero"` // for which there was no memory
	Finding  Finding         `json:"finding"`
	// Start is when Course begins, and those of the processes. They have a value for each Step: the highest use in it, in bytes.
	Start     time.Time         `json:"start"`
	Step      float64           `json:"step_seconds"`
	Course    []gpu.Opt[uint64] `json:"course_bytes"`
	Processes []Process         `json:"processes"`       // those that ended, then the largest
	Ended     int               `json:"ended_processes"` // in the list or not
	Others    int               `json:"other_processes"` // not in the list
	saved     atomic.Bool       // it is on the disk
}

// Finding is what the exporter had said of the memory.
type Finding struct {
	Text  string     `json:"text"`  // the most urgent finding; "" if there was none
	Since *time.Time `json:"since"` // when the growth was first seen
	// By is the most urgent alert that was there: page, ticket or nothing. At is when it came.
	By string     `json:"by"`
	At *time.Time `json:"at"`
	// Reason is why growth was not called a leak; "" if it was, or if there was none.
	Reason string `json:"reason,omitempty"`
}

// Process is a process that used the memory.
type Process struct {
	finding.Who
	PID       uint32            `json:"pid"`
	Ended     bool              `json:"ended"`
	ExitCode  gpu.Opt[int32]    `json:"exit_code,omitzero"` // of its container
	Used      gpu.Opt[uint64]   `json:"memory_used_bytes"`
	Allocator *gpu.Allocator    `json:"allocator,omitempty"`
	Lines     []gpu.Line        `json:"lines,omitempty"` // of code that hold most, as far as they are known
	Course    []gpu.Opt[uint64] `json:"course_bytes"`
}

// Name names a process for a sentence.
func (p *Process) Name() string {
	return finding.Joined(" of ", finding.Process(p.Process, p.PID), p.Place())
}

// growth returns by how many bytes a process has grown since its course began, and in what time.
func (p *Process) growth() (bytes uint64, over time.Duration) {
	first := slices.IndexFunc(p.Course, func(v gpu.Opt[uint64]) bool { return v.OK })
	if first < 0 {
		return 0, 0
	}
	return p.Used.V - min(p.Course[first].V, p.Used.V), time.Duration(len(p.Course)-1-first) * Step
}

// describe says in two sentences what filled the memory, and whether an alert came before.
func (i *Incident) describe() string {
	name, text := "A process", ""
	if len(i.Processes) > 0 && (i.Processes[0].Ended || i.Kind == Refused) {
		name = i.Processes[0].Name()
	}
	if i.Ended > 1 {
		name += fmt.Sprintf(" and %d more", i.Ended-1)
	}
	switch i.Kind {
	case Lost:
		text = i.Memory + " was lost"
	case XID:
		text = fmt.Sprintf("%s reported XID %d", i.Memory, i.XID)
	case Refused:
		text = fmt.Sprintf("%s was refused %s on %s", name, humanize.Bytes(float64(i.Asked.V)), i.Memory)
	default:
		text = name + " ended when " + i.Memory + " was full"
	}
	if Kinds[i.Kind] && i.Used.OK && i.Capacity.OK {
		text += fmt.Sprintf(" (%s of %s)", humanize.Bytes(float64(i.Used.V)), humanize.Bytes(float64(i.Capacity.V)))
	}
	text += i.filled(name) + "."
	switch at := i.Finding.At; {
	case !Kinds[i.Kind]:
		return text
	case at != nil:
		return text + " A " + i.Finding.By + " had come " + humanize.Duration(i.Time.Sub(*at)) + " before."
	}
	return finding.Joined(" ", text, "No alert foretold it.", i.Finding.Reason)
}

// filled says how much the process held that grew most, or else held most; "" if that is not known. subject is what the sentence is about.
func (i *Incident) filled(subject string) string {
	var most Process
	var grown uint64
	var over time.Duration
	for _, p := range i.Processes {
		if bytes, in := p.growth(); cmp.Or(cmp.Compare(bytes, grown), cmp.Compare(p.Used.V, most.Used.V)) > 0 {
			most, grown, over = p, bytes, in
		}
	}
	if most.Used.V == 0 {
		return ""
	}
	name := most.Name()
	if name == subject {
		name = "it"
	}
	text := ": " + name + " held " + humanize.Bytes(float64(most.Used.V))
	if grown > 0 {
		text += ", " + humanize.Bytes(float64(grown)) + " more than " + humanize.Duration(over) + " before"
	}
	return text
}
