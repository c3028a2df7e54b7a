// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"cmp"
	"fmt"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/withheld"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/wording"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// because says in words why a memory is called a leak, or why it is not.
func (h *predictor) because(m *domain) string {
	v := &m.judgement.Device
	var text string
	switch {
	case !m.memory.Used.OK && !v.Judged && !v.Muted:
		return "The driver does not tell how much of it is used."
	case v.Muted:
		return "A rule of --detector.config says that it is not to be judged."
	case !v.Judged:
		text = "It was watched for " + solid(humanize.Duration(watchedFor(m.judgement))) + ", and a verdict takes some minutes."
	case v.Leak:
		since := h.since(fromstate.SteadyTime(v.Since), m.device.SampleTime)
		switch {
		case !v.Leaked.OK:
			return "More and more is kept and not given back."
		case v.Leaked.V == 0: // between two lives of a crash loop
			return "A program filled it again and again " + since + ": it died and was started again. Nothing of that is held now."
		}
		return "More and more is kept and not given back: " + humanize.Bytes(v.Leaked.V) + " " + since + "."
	default:
		if text = h.withheldWords(v); text == "" {
			text = cmp.Or(noLeak[v.Pattern], noLeak[detector.PatternUnknown]) + "."
		}
	}
	if v.SecondsToOOM.Finite() != nil {
		text += " It is full in " + solid(humanize.Seconds(v.SecondsToOOM.V)) + " if it goes on."
	}
	return text
}

// withheldWords says why what grows, or seems to, is no leak; "" where nothing does.
func (h *predictor) withheldWords(v *detector.Verdict) string {
	phrase := withheld.Phrase(v.Withheld, v.WithheldFor)
	switch {
	case phrase != "":
		return "No leak yet: it " + phrase + "."
	case v.Confidence >= h.Detector.ClearThreshold():
		return fmt.Sprintf("It grows, but that is not sure: the confidence is %s, and a leak takes %s.", wording.Percent(v.Confidence), wording.Percent(h.Detector.LeakThreshold))
	}
	return ""
}

// noLeak says of a pattern why it is no leak.
var noLeak = map[detector.Pattern]string{
	detector.PatternUnknown:    "Nothing is seen to grow for long",
	detector.PatternStable:     "What is held stays the same",
	detector.PatternIdle:       "Memory is held, and nothing is computed with it",
	detector.PatternWarmup:     "It grew when its program began",
	detector.PatternPlateau:    "It grew, and has stopped growing",
	detector.PatternStep:       "It rose once, and has stayed there",
	detector.PatternSawtooth:   "What is taken is given back again",
	detector.PatternSpikes:     "There are spikes, and each is given back",
	detector.PatternZombie:     "Nothing grows, but nobody will use again what a process holds",
	detector.PatternUnreleased: "A process has ended, and its memory has not come back",
}

// headingOf returns where the runbook has the alert on a verdict, on a memory for which somebody is woken or not; "" where
// there is nothing to do.
func headingOf(v *detector.Verdict, page bool) string {
	switch {
	case page && v.SecondsToOOM.Finite() != nil:
		return RunbookPath + "#gpuoutofmemorypredicted"
	case !v.Judged:
		return ""
	case v.Leak:
		return RunbookPath + "#gpumemoryleakdetected"
	case v.Pattern == detector.PatternZombie, v.Pattern == detector.PatternUnreleased:
		return RunbookPath + "#gpumemoryheldbynobody"
	case v.Pattern == detector.PatternFragmentation:
		return RunbookPath + "#leaks-in-pytorch"
	}
	return ""
}
