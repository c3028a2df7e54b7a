// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package finding

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

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

// Word returns the word for a verdict. From cfg.ClearThreshold on, the confidence does not rule out a leak.
func Word(v *detector.Verdict, cfg *detector.Config) string {
	switch {
	case v.Muted:
		return Muted
	case !v.Judged:
		return NotJudged
	case v.Leak:
		return Leaks
	case v.Withheld != detector.WithheldNone:
		return NoLeakYet
	case v.Confidence >= cfg.ClearThreshold():
		return NotSure
	}
	return NoLeak
}

// patterns has words for patterns whose names say too little.
var patterns = map[detector.Pattern]string{
	detector.PatternLeakLinear:    "grows steadily",
	detector.PatternLeakStaircase: "grows in steps",
	detector.PatternLeakCyclic:    "each cycle ends higher",
	detector.PatternZombie:        "held for nothing",
	detector.PatternUnreleased:    "never released",
	detector.PatternWarmup:        "warming up",
	detector.PatternCrashLoop:     "crash loop",
}

// Pattern returns the words for the pattern of a verdict.
func Pattern(v *detector.Verdict) string {
	return cmp.Or(patterns[v.Pattern], v.Pattern.String())
}

// withheld has the reasons why growth is no leak yet. A test compares them with those of the dashboard.
var withheld = map[detector.Withheld]string{
	detector.WithheldMinSpan:      "has only begun to grow",
	detector.WithheldProgramBegin: "may be the start of a program",
	detector.WithheldDailyLoad:    "may be a daily load",
	detector.WithheldGivenBack:    "reached this height before and gave it back",
	detector.WithheldSlowing:      "slows down, and would end before the memory is full",
}

// Reason returns why growth may be harmless, behind "it"; "" for detector.WithheldNone.
func Reason(why detector.Withheld) string { return withheld[why] }

// Withheld returns the reason behind "it", and how much longer growth must last to be a leak: "may be the start of a program, and
// must grow for another 35 min". Growth that slows down has no such time. It is "" for detector.WithheldNone.
func Withheld(why detector.Withheld, more time.Duration) string {
	if why == detector.WithheldNone || why == detector.WithheldSlowing {
		return withheld[why]
	}
	if more > time.Minute {
		more = (more + time.Minute - 1).Truncate(time.Minute) // rounded up: 0 is over
	}
	return withheld[why] + ", and must grow for another " + humanize.Duration(more)
}

// NotYet says why growth is no leak; "" without growth.
func NotYet(v *detector.Verdict, cfg *detector.Config) string {
	switch {
	case !v.Judged || v.Leak:
		return ""
	case v.Withheld != detector.WithheldNone:
		return "No leak yet: it " + Withheld(v.Withheld, v.WithheldFor) + "."
	case v.Confidence >= cfg.ClearThreshold():
		return fmt.Sprintf("It grows, but that is not sure: the confidence is %s, and a leak takes %s.", Percent(v.Confidence), Percent(cfg.LeakThreshold))
	}
	return ""
}

// noLeak says why a pattern is no leak.
var noLeak = map[detector.Pattern]string{
	detector.PatternUnknown:    "Nothing is seen to grow for long.",
	detector.PatternStable:     "What is held stays the same.",
	detector.PatternIdle:       "Memory is held, and nothing is computed with it.",
	detector.PatternWarmup:     "It grew when its program began.",
	detector.PatternPlateau:    "It grew, and has stopped growing.",
	detector.PatternStep:       "It rose once, and has stayed there.",
	detector.PatternSawtooth:   "What is taken is given back again.",
	detector.PatternSpikes:     "There are spikes, and each is given back.",
	detector.PatternZombie:     "Nothing grows, but nobody will use again what a process holds.",
	detector.PatternUnreleased: "A process has ended, and its memory has not come back.",
}

// Why says why a memory leaks, or why it does not.
func (s *Sample) Why(cfg *detector.Config) string {
	v := &s.Judgement.Device
	text := ""
	switch {
	case v.Muted:
		return "A rule of --detector.config says that it is not to be judged."
	case !s.Memory.Used.OK && !v.Judged:
		return "The driver does not tell how much of it is used."
	case !v.Judged:
		text = fmt.Sprintf("It was watched for %s, and a verdict takes some minutes.", humanize.Duration(Watched(v)))
	case v.Leak:
		return "More and more is kept and not given back."
	default:
		text = cmp.Or(NotYet(v, cfg), noLeak[v.Pattern], noLeak[detector.PatternUnknown])
	}
	if v.SecondsToOOM.Finite() != nil {
		text += " It is full in " + humanize.Seconds(v.SecondsToOOM.V) + " if it goes on."
	}
	return text
}

// Watched returns the longest time that a window of a verdict covers.
func Watched(v *detector.Verdict) (d time.Duration) {
	for _, f := range v.Windows {
		d = max(d, time.Duration(float64(f.Span)*f.Fill))
	}
	return d
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

// Interval writes the 90 % interval of the time left. It is "" if it is unknown, or if both ends read alike.
func Interval(v *detector.Verdict) string {
	switch {
	case v.SecondsToOOM.Finite() == nil || !v.Lower.OK || !v.Upper.OK:
		return ""
	case v.Upper.Finite() == nil:
		return "at least " + humanize.Seconds(v.Lower.V)
	}
	lower, upper := humanize.Seconds(v.Lower.V), humanize.Seconds(v.Upper.V)
	if lower == upper {
		return ""
	}
	return lower + " to " + upper
}

// Left writes the time left and its interval; "" without a forecast.
func Left(v *detector.Verdict) string {
	if v.SecondsToOOM.Finite() == nil {
		return ""
	}
	text := humanize.Seconds(v.SecondsToOOM.V)
	if interval := Interval(v); interval != "" {
		text += " (" + interval + ")"
	}
	return text
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

// drivers has the usual cause of a reason of gpu_driver_error, and what to do.
var drivers = map[string]string{
	"starting":                 "the exporter has just started",
	"library_not_found":        "libnvidia-ml.so.1 was not found. Install the driver; in a container, NVIDIA_DRIVER_CAPABILITIES must hold utility; --nvml.library-path names the file elsewhere",
	"driver_not_loaded":        "the kernel module is not loaded. Load it with modprobe nvidia, or see dmesg for why it cannot be",
	"no_permission":            "this user may not open /dev/nvidiactl",
	"lib_rm_version_mismatch":  "the driver was updated and its old kernel module is still loaded. Unload it or reboot",
	"call_does_not_return":     "a call into the driver hangs; see dmesg for XID errors",
	"gpu_not_found":            "the driver is loaded but finds no GPU that it can use",
	"driver_does_not_initiate": "see dmesg",
}

// Driver says why no GPU is seen, and what to do. The reason is one of gpu_driver_error.
func Driver(reason string) Message {
	m := Message{Severity: Page, Alert: "GPUDriverDown", Summary: Joined(": ", "The driver does not answer ("+reason+")", drivers[reason]), Left: math.Inf(1)}
	if reason == "prometheus_does_not_answer" {
		m.Alert, m.Summary, m.Detail = "GPUSourceDown", "The Prometheus of --source=prometheus: does not answer", "The log says why."
	}
	return m
}
