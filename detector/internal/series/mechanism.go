// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package series

// Mechanism is a part of the judgement that a benchmark can leave out, to measure it.
type Mechanism uint16

// The mechanisms.
const (
	Pace         Mechanism = 1 << iota // growth must keep its pace
	Evenness                           // and be even
	Spread                             // and come in several steps
	GiveBacks                          // and exceed what was given back before
	ProgramBegin                       // it waits where it began with its program
	DailyLoad                          // or may follow the time of day
	GivenBack                          // or is as high as it was before
	Slowing                            // or slows down
	Counted                            // steps are counted
	Resting                            // the sum of what rests is a series
	CrashLoops                         // lives that end in a full memory are a chain
	Reached                            // a height that the memory had before does not fill it
)

// Mechanisms are all, with their names.
var Mechanisms = []struct {
	Is   Mechanism
	Name string
}{
	{Pace, "pace"},
	{Evenness, "evenness"},
	{Spread, "spread"},
	{GiveBacks, "give_backs"},
	{ProgramBegin, "program_begin"},
	{DailyLoad, "daily_load"},
	{GivenBack, "given_back"},
	{Slowing, "slowing"},
	{Counted, "steps"},
	{Resting, "resting"},
	{CrashLoops, "crash_loop"},
	{Reached, "reached"},
}

// With reports whether the configuration has the mechanism.
func (c *Config) With(m Mechanism) bool { return c.Without&m == 0 }
