// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package ablate switches mechanisms of the detector off, one at a time, so that `make ablate` can tell
// what each is worth. Without the build tag "ablate" nothing can be switched off, and Off costs nothing.
package ablate

// Mechanism is a part of the detector that can be switched off.
type Mechanism string

// The mechanisms.
const (
	Evidence     Mechanism = "evidence"      // the bet against a random walk
	Pace         Mechanism = "pace"          // growth must keep its pace
	Evenness     Mechanism = "evenness"      // growth must be even
	Spread       Mechanism = "spread"        // growth must come in several steps
	LoadLeftOut  Mechanism = "load_left_out" // what grew otherwise before is left out
	GiveBacks    Mechanism = "give_backs"    // what was given back before must be exceeded
	Flush        Mechanism = "flush"         // a fall of a full memory is no give-back
	Pause        Mechanism = "pause"         // growth ends with a pause
	LoadRamp     Mechanism = "load_ramp"     // the reasons
	ProgramLoad  Mechanism = "program_load"
	ProgramBegin Mechanism = "program_begin"
	DailyLoad    Mechanism = "daily_load"
	PriorLives   Mechanism = "below_prior_lives"
	Near         Mechanism = "near"         // less patience where the memory is full soon
	FullHold     Mechanism = "full_hold"    // a leak stays that has filled the memory
	Bend         Mechanism = "bend"         // a leak may accelerate
	WidestTrend  Mechanism = "widest_trend" // the widest scale foresees
	Resting      Mechanism = "resting"      // the sum of what rests is a series
	CrashLoop    Mechanism = "crash_loop"
	Groups       Mechanism = "groups"  // sums of pods and jobs
	Turn         Mechanism = "turn"    // a pool that grows, a process that follows another
	Crowd        Mechanism = "crowd"   // the driver's own memory for each process
	Missing      Mechanism = "missing" // lists that lack a process for a moment
	Reached      Mechanism = "reached" // a height that was there before is not new
)
