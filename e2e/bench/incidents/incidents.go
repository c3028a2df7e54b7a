// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package incidents lives again what people reported in public about the memory of their GPUs. The reports are data, a line each
// in incidents.jsonl: what was told, what was assumed besides, and the programs that were on the GPU. This package makes a
// scenario of each; what a report does not tell is drawn by the seed.
//
// A quantity is text. "3-5" is drawn once for a story, and then differs by some percent each time; "3..5" is drawn each time, and
// "3~50" each time by its order of magnitude. Behind it, s, m and h are seconds, minutes and hours; memory is in MiB, with a c a
// share of the card, and with a g what the GPU has in use with it, so that the part of the driver is less. "free/8" is the eighth
// part of what was free when the process was loaded, "free*0.5" the half of it, and "free-300" leaves 300 MiB.
//
// A program does steps: first those of do, then those of loop again and again, or turns times, and then those of last. The steps
// are
//
//	work TIME [+MEMORY]      it computes, and needs some more memory for it
//	idle TIME [+MEMORY]      it does not compute
//	keep MEMORY              this is lost
//	leak rate MEMORY [LUMP]  so much is lost each second from now on, a lump at a time
//	leak in TIME [LUMP|exp|late]  so that memory is full after that time: evenly, ever faster, or mostly at the end
//	stop                     no more is lost
//	grow MEMORY TIME         it takes more for good, and needs it
//	fill MEMORY TIME         a cache takes it for good, ever more slowly, most of it within that time
//	to MEMORY TIME           it goes to what it had when it was loaded, and so much more
//	hang STATE [CORES]       it never computes again: alive, unkillable, orphaned or gone
//	wait TIME                until somebody does the next step to it
//	then                     the programs of then start
//	leave SHARE TIME         it ends, and so much of its memory stays for so long; 0h is for ever
//	reset                    it ends, as all programs do, by a reset of the GPU
//	end                      it ends
package incidents

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

//go:embed incidents.jsonl
var lines []byte

// Incident is what somebody reported.
type Incident struct {
	// Kind names it: the software, and what happened.
	Kind string
	// Thread is the address of the report, Told what it tells, in our words and with its figures, and Assumed what it does not
	// tell.
	Thread, Told, Assumed string
	// Ending is how it ended: "fills" until there is no memory, "goes on", "holds" memory after the work has ended, or "was
	// none".
	Ending string
	// Later marks one that was collected after the detector had been tuned on those before.
	Later bool
	// GPU is its memory in GiB, and Hours how long the story is.
	GPU, Hours float64
	// Bare is a host without pods or jobs, Pods one with them; without both it is drawn. NoSM marks one that tells no utilisation
	// of processes.
	Bare, Pods, NoSM bool
	// Beside is what the incident needs in MiB, where there are tenants on the rest; 0 for none.
	Beside   float64
	Programs []Program
}

// Program is something that runs on the GPU.
type Program struct {
	Name string
	// Is says what it is like: train, serve, draw, notebook, or driver for memory of no process.
	Is    string
	Count int // so many at once, which end together when one fails; 0 is one
	// Held is what it holds once it is loaded, Need what it needs besides while it computes.
	Held, Need string
	// Since marks one that has run for long; At is else when it starts, Load how long it loads.
	Since    bool
	At, Load string
	// Pause is how long after an end it is started again, "" for never; Times how often at most.
	Pause          string
	Times          int
	Do, Loop, Last []string
	Turns          string
	Then           []Program
}

// All returns all incidents. A mistake in the data is one of this package, and ends the program.
func All() []Incident {
	var all []Incident
	decoder := json.NewDecoder(bytes.NewReader(lines))
	decoder.DisallowUnknownFields()
	for decoder.More() {
		var one Incident
		if err := decoder.Decode(&one); err != nil {
			panic(fmt.Errorf("incident %d: %w", len(all)+1, err))
		}
		all = append(all, one)
	}
	return all
}

// Family returns the incident as one: its scenarios are the stories that it may have been. It is a leak if memory was lost.
func (i *Incident) Family() fleet.Family {
	f := fleet.Family{Name: i.Kind, Class: fleet.Healthy, Held: i.Later, Draw: func(seed uint64) *fleet.Scenario {
		return &newStory(i, seed).Scenario
	}}
	if i.Ending == "fills" || i.Ending == "goes on" {
		f.Class = fleet.Leak
	}
	return f
}
