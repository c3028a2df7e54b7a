// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/detector/lives"
)

// MaxPrograms bounds how many versions of programs have series.
const MaxPrograms = 100

// What programs held in their earlier lives. A program is the node's and no GPU's.
var _ = register(family{name: "lives", enabled: true, metrics: []metric{
	gauge("gpu_process_prior_lives",
		"Earlier lives of what the process runs that show what a healthy one holds. 0: none is remembered. Absent where it is not known what it runs.",
		func(p *ProcessState) optional {
			return optional{V: float64(p.Earlier.Lives), OK: p.Earlier.Named}
		}),
	gauges("gpu_process_expected_memory_bytes",
		"What healthy earlier lives of what the process runs held, in bytes. bound is lower and upper for the least and the most at its age. "+
			"It is ceiling for what they reached at any age, and 3 % more: growth below that is withheld. Present only while the process grows.",
		[]string{"bound"},
		func(p *ProcessState, e *emitter) {
			if grows(&p.Verdict) {
				e.maybe(value(p.Earlier.Low), "lower")
				e.maybe(value(p.Earlier.High), "upper")
				e.maybe(value(p.Earlier.Ceiling), "ceiling")
			}
		}),
	gauges("gpu_program_leak_rate_bytes_per_second",
		"Fastest growth in bytes per second of a version of a program that leaked, or that something else ended an hour or more after its start. "+
			"It is the largest over its lives, arguments and GPUs, of the last month. 0: no life that is known did so. image is empty outside of containers.",
		programLabels, ofProgram(func(p *ProgramState) optional { return value(p.Rate) })),
	gauges("gpu_program_memory_peak_bytes",
		"Most memory in bytes that one process of a version of a program held on one GPU, over its lives, arguments and GPUs.",
		programLabels, ofProgram(func(p *ProgramState) optional { return value(p.Peak) })),
	gauges("gpu_program_last_start_timestamp_seconds",
		"When the version of a program was started last, in seconds since the Unix epoch. Of two images of a program the newer one was started later.",
		programLabels, ofProgram(func(p *ProgramState) optional { return gpu.Some(p.Started.Seconds()) })),
	gauge("gpu_programs_other",
		"Versions of programs that are remembered and have no series, because 100 others run or ended later.",
		func(s *State) optional { return number(s.OtherPrograms) }),
}})

var programLabels = []string{"process", "image"}

// ofProgram emits what get says of each program.
func ofProgram(get func(*ProgramState) optional) func(*State, *emitter) {
	return func(s *State, e *emitter) {
		for i := range s.Programs {
			p := &s.Programs[i]
			e.maybe(get(p), p.Process, p.Image)
		}
	}
}

// grows reports whether there is growth to hold against earlier lives: it leaks, or would if
// nothing withheld that, or has a part in what fills the memory.
func grows(v *detector.Verdict) bool {
	return v.Judged && (v.Leak || v.Withheld != detector.WithheldNone) || v.SecondsToFull.OK
}

// ProgramState is what is known of a version of a program.
type ProgramState struct {
	ProgramName
	// Started is when it was started last, on the clock of detector.Frame.T.
	Started time.Duration
	// Rate is that of the fastest growth that had no end of its own, in bytes per second:
	// 0 where there was none, absent while nothing is judged. Peak is the most that one
	// process held, in bytes.
	Rate, Peak detector.Value
}

// ProgramName names a version of a program.
type ProgramName struct {
	// Process is the name of the program, and Image the container image as
	// repository@digest; "" outside of containers.
	Process, Image string
}

// with returns p with what else is known of the same version.
func (p ProgramState) with(o *ProgramState) ProgramState {
	return ProgramState{
		ProgramName: o.ProgramName,
		Started:     max(p.Started, o.Started), Rate: larger(p.Rate, o.Rate), Peak: larger(p.Peak, o.Peak),
	}
}

// larger returns the larger one of those that are there.
func larger(a, b detector.Value) detector.Value {
	if !a.OK || b.OK && b.V > a.V {
		return b
	}
	return a
}

// addPrograms adds the programs that run on the devices, and those of which only earlier lives
// are remembered.
func (s *State) addPrograms(earlier []lives.Version) {
	running := map[ProgramName]ProgramState{}
	for _, d := range s.Devices {
		for name, p := range d.Programs {
			running[name] = running[name].with(&p)
		}
	}
	var past []ProgramState
	for i := range earlier {
		v := &earlier[i]
		p := ProgramState{
			ProgramName: ProgramName{v.Program, v.Image},
			Started:     v.Started.Duration(), Rate: detector.Of(float64(v.Rate)), Peak: detector.Of(float64(v.Peak)),
		}
		if now, runs := running[p.ProgramName]; runs {
			running[p.ProgramName] = now.with(&p)
		} else {
			past = append(past, p)
		}
	}
	all := slices.AppendSeq(make([]ProgramState, 0, len(running)+len(past)), maps.Values(running))
	slices.SortFunc(all, func(a, b ProgramState) int {
		return cmp.Or(-cmp.Compare(a.Started, b.Started), strings.Compare(a.Process, b.Process), strings.Compare(a.Image, b.Image))
	})
	all = append(all, past...)
	shown := min(len(all), MaxPrograms)
	s.Programs, s.OtherPrograms = all[:shown], gpu.Some(len(all)-shown)
}
