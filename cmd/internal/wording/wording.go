// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package wording says in words what the detector thinks of a memory, and who holds it. The pages of
// the exporter and the terminal say it in the same words, of the same numbers.
package wording

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
)

// The words for a verdict, and for the GPU that has none because it does not answer.
const (
	Unreadable = "cannot be read"
	Muted      = "muted"
	NotJudged  = "not judged yet"
	Leaks      = "leaks"
	NoLeakYet  = "no leak yet"
	NotSure    = "not sure"
	NoLeak     = "no leak"
)

// Verdict returns the words for a verdict; nil is of what was not seen yet. A confidence of at least
// clearFrom does not rule a leak out.
func Verdict(v *verdicts.Verdict, clearFrom float64) string {
	switch {
	case v != nil && v.Muted:
		return Muted
	case v == nil || !v.Judged:
		return NotJudged
	case v.Leak:
		return Leaks
	case v.Withheld != nil:
		return NoLeakYet
	case v.Confidence != nil && *v.Confidence >= clearFrom:
		return NotSure
	}
	return NoLeak
}

// patterns has those whose name says too little.
var patterns = map[string]string{
	"leak_linear":    "grows steadily",
	"leak_staircase": "grows in steps",
	"leak_cyclic":    "each cycle ends higher",
	"zombie":         "held for nothing",
	"unreleased":     "never released",
	"warmup":         "warming up",
}

// Pattern returns the words for the name of a pattern. leaked are the bytes that a leak has retained, nil for none: a
// crash loop is a cyclic leak that has retained nothing in the life that runs.
func Pattern(name string, leaked *float64) string {
	if name == "leak_cyclic" && leaked != nil && *leaked == 0 {
		return "fills up in each life"
	}
	return cmp.Or(patterns[name], name)
}

// Percent writes a ratio. It never rounds up to a certainty that is not there.
func Percent(ratio float64) string { return fmt.Sprintf("%d %%", int(math.Floor(ratio*100+1e-9))) }

// Memory writes what is used, and of how much. What the driver reserves is in neither.
func Memory(m verdicts.Memory) string {
	capacity := m.Capacity()
	switch {
	case m.Used == nil:
		return "not known"
	case capacity == nil || *capacity == 0:
		return humanize.Bytes(float64(*m.Used)) + " used"
	}
	used, all := float64(*m.Used), float64(*capacity)
	return fmt.Sprintf("%s of %s (%s)", humanize.Bytes(used), humanize.Bytes(all), Percent(math.Min(used/all, 1)))
}

// Interval writes the 90 % interval of a time left, in seconds. An upper end that is nil is open. It is
// "" where no interval is known, or where both ends read alike.
func Interval(lower, upper *float64) string {
	switch {
	case lower == nil:
		return ""
	case upper == nil:
		return "at least " + humanize.Seconds(*lower)
	}
	lo, hi := humanize.Seconds(*lower), humanize.Seconds(*upper)
	if lo == hi {
		return ""
	}
	return lo + " to " + hi
}

// Process names a process.
func Process(name, pid string) string {
	return fmt.Sprintf("%s (pid %s)", cmp.Or(name, "unknown process"), pid)
}

// Place says in which pod or job a process runs, and whose it is, as far as that is known.
func Place(namespace, pod, container, job, user string) string {
	if pod != "" {
		pod = namespace + "/" + pod
	}
	named := func(what, name string) string {
		if name == "" {
			return ""
		}
		return what + " " + name
	}
	return Joined(named("pod", pod), named("container", container), named("Slurm job", job), named("user", user))
}

// Joined writes those of the parts that are known, with commas.
func Joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}
