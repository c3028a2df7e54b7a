// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// The words for a verdict, and for a GPU that is lost or has errors.
const (
	Unreadable = "cannot be read"
	Broken     = "has errors"
	Muted      = "muted"
	NotJudged  = "not judged yet"
	Leaks      = "leaks"
	NoLeakYet  = "no leak yet"
	NotSure    = "not sure"
	NoLeak     = "no leak"
)

// unsure is the confidence from which on a leak is not ruled out: half of what one takes by default.
const unsure = 0.35

// Word returns the word for a verdict.
func Word(v *detector.Verdict) string {
	switch {
	case v.Muted:
		return Muted
	case !v.Judged:
		return NotJudged
	case v.Leak:
		return Leaks
	case v.Withheld != detector.WithheldNone:
		return NoLeakYet
	case v.Confidence >= unsure:
		return NotSure
	}
	return NoLeak
}

// Suspect reports whether a memory or process leaks or may leak.
func Suspect(v *detector.Verdict) bool {
	return slices.Contains([]string{Leaks, NoLeakYet, NotSure}, Word(v))
}

// Patterns says behind "it" what a memory does, or a process.
var Patterns = map[detector.Pattern]string{
	detector.PatternUnknown:       "was not seen to grow for long",
	detector.PatternStable:        "stays the same",
	detector.PatternIdle:          "is held, and nothing is computed with it",
	detector.PatternWarmup:        "grew when its program began",
	detector.PatternPlateau:       "grew, and has stopped growing",
	detector.PatternStep:          "rose once, and has stayed there",
	detector.PatternSawtooth:      "gives back what it takes",
	detector.PatternSpikes:        "has spikes, and gives each back",
	detector.PatternLeakLinear:    "grows steadily",
	detector.PatternLeakStaircase: "grows in steps",
	detector.PatternLeakCyclic:    "ends each cycle higher",
	detector.PatternFragmentation: "grows by the pieces of its allocator",
	detector.PatternZombie:        "computes nothing, and shows no sign of going on",
	detector.PatternUnreleased:    "has stayed without its process",
	detector.PatternCrashLoop:     "is a crash loop",
}

// withheld says behind "it" why growth is no leak yet. A test compares the words with those of the dashboard.
var withheld = map[detector.Withheld]string{
	detector.WithheldMinSpan:      "has only begun to grow",
	detector.WithheldProgramBegin: "may be the start of a program",
	detector.WithheldDailyLoad:    "may be a daily load",
	detector.WithheldGivenBack:    "reached this height before and gave it back",
	detector.WithheldSlowing:      "slows down, and would end before the memory is full",
}

// Withheld says why growth is no leak yet, and how much longer it must last to be one; "" if nothing is withheld.
func Withheld(v *detector.Verdict) string {
	text := withheld[v.Withheld]
	switch {
	case text == "":
		return ""
	case v.WithheldFor < detector.Forever:
		text += ", and must grow for another " + humanize.Duration(v.WithheldFor)
	}
	return "No leak yet: it " + text + "."
}

// Why says why the memory of a GPU or a process leaks, or why it does not.
func Why(v *detector.Verdict) string {
	switch Word(v) {
	case Muted:
		return "A rule of --detector.config says that it is not to be judged."
	case NotJudged:
		return "A verdict takes some minutes."
	case NoLeakYet:
		return Withheld(v)
	case NotSure:
		return "It grows, but that is not sure: the confidence is " + Percent(v.Confidence) + "."
	}
	return "It " + Patterns[v.Pattern] + "."
}

// Percent writes a ratio. It rounds down, so that 100 % is certain.
func Percent(ratio float64) string { return fmt.Sprintf("%d %%", int(math.Floor(ratio*100+1e-9))) }

// Used writes the used memory and the capacity, both without the memory that the driver reserves.
func Used(m gpu.Memory) string {
	capacity := m.Capacity()
	switch {
	case !m.Used.OK:
		return "not known"
	case !capacity.OK || capacity.V == 0:
		return humanize.Bytes(float64(m.Used.V)) + " used"
	}
	used, all := float64(m.Used.V), float64(capacity.V)
	return fmt.Sprintf("%s of %s (%s)", humanize.Bytes(used), humanize.Bytes(all), Percent(math.Min(used/all, 1)))
}

// Left writes the time left and its 90 % interval, if that is known and both ends do not read alike; "" without a forecast.
func Left(v *detector.Verdict) string {
	if v.SecondsToOOM.Finite() == nil {
		return ""
	}
	text, lower, upper := humanize.Seconds(v.SecondsToOOM.V), humanize.Seconds(v.Lower.V), humanize.Seconds(v.Upper.V)
	switch {
	case !v.Lower.OK || !v.Upper.OK || lower == upper:
		return text
	case v.Upper.Finite() == nil:
		return text + " (at least " + lower + ")"
	}
	return text + " (" + lower + " to " + upper + ")"
}

// Process names a process.
func Process(name string, pid uint32) string {
	return fmt.Sprintf("%s (pid %d)", cmp.Or(name, "unknown process"), pid)
}

// Place names the pod, container, job and user of a process, as far as they are known.
func (w *Who) Place() string {
	pod := w.Pod
	if pod != "" {
		pod = w.Namespace + "/" + pod
	}
	named := func(what, name string) string {
		if name == "" {
			return ""
		}
		return what + " " + name
	}
	return Joined(", ", named("pod", pod), named("container", w.Container), named("Slurm job", w.SlurmJob), named("user", w.User))
}

// Joined writes all parts but those that are "".
func Joined(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), separator)
}

// Driver says why no GPU is seen. The reason is one of gpu_driver_error, and the runbook has what to do about each.
func Driver(reason string) Message {
	if reason == "prometheus_tells_of_no_gpu" {
		return Message{Severity: Page, Alert: "GPUSourceDown", Summary: "The Prometheus of --source tells of no GPU", Detail: "The log says why."}
	}
	return Message{Severity: Page, Alert: "GPUDriverDown", Summary: "The driver does not answer (" + reason + ")"}
}
