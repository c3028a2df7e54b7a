// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector"
)

// headline sums the page up in one sentence: what is worst of what somebody is paged for, or how calm it is.
func (v *view) headline(s *collector.State) {
	up, waiting, muted, watched := overview(s)
	down := len(s.Devices) - up
	full := fullFirst(s)
	switch {
	case len(v.Leaks) > 0:
		v.Urgent = true
		v.Headline, v.Culprit = v.Leaks[0].headline, v.Leaks[0].culprit
		n := len(v.Leaks) + v.Unlisted
		v.Detail = plural(n, "leak") + " on " + plural(up, "GPU") + "."
		if v.Only {
			v.Detail = plural(n, "leak") + " on " + v.GPUs[0].GPU + "."
			break
		}
		if n > 1 {
			v.Detail = plural(n, "leak") + " on " + plural(up, "GPU") + ", the most urgent first."
		}
	case full != nil:
		v.Urgent = true
		v.Headline = full.name + " is full in " + solid(humanize.Seconds(full.judgement.Device.SecondsToOOM.V)) + " if its growth goes on"
		v.Culprit, v.Detail = full.filler(), "No leak is found: it has not grown for long enough to tell."
	case up > 0 && down > 0:
		v.Urgent = true
		v.Headline = fmt.Sprintf("%d of %d GPUs cannot be read", down, len(s.Devices))
		calm, detail := calm(s, up, waiting, muted, watched)
		v.Detail, down = calm+". "+detail, 0
	default:
		v.Headline, v.Detail = calm(s, up, waiting, muted, watched)
	}
	v.others(down, muted, up)
}

// calm returns the headline of a page on which nobody is paged for a memory, and what to add to it.
func calm(s *collector.State, up, waiting, muted int, watched time.Duration) (headline, detail string) {
	switch {
	case s.DriverReason == collector.ReasonStarting:
		return "Waiting for the driver", "This takes a few seconds."
	case s.DriverReason == "" && len(s.Devices) == 0 && s.Awaited > 0:
		return "Waiting for " + plural(s.Awaited, "GPU"), "This takes a few seconds."
	case up == 0 && s.DriverReason != "":
		return "No GPU can be seen", "GPUs are picked up as soon as the driver answers."
	case up == 0 && len(s.Devices) > 0:
		return "No GPU can be read", "GPUs are picked up as soon as they answer."
	case up == 0:
		return "No GPU found", "The driver answers, but lists no GPU."
	case muted == up:
		return plural(up, "muted GPU"), "The rules of --detector.config say that nothing here is to be judged."
	case waiting == up && watched == 0 && blindGPUs(s) == up:
		return "No GPU can be judged", "The driver does not tell how much memory is used."
	case waiting+muted == up:
		return "Watching " + plural(waiting, "GPU"), "No judgement yet: watched for " + solid(humanize.Duration(watched)) + " so far."
	}
	detail = "The longest window holds " + solid(humanize.Duration(watched)) + "."
	if waiting > 0 {
		detail += " " + plural(waiting, "more GPU") + " not judged yet."
	}
	return "No leak found on " + plural(up-waiting-muted, "GPU"), detail
}

// fullFirst returns the memory that is full first of those that somebody is paged for; nil if there is none.
func fullFirst(s *collector.State) (first *domain) {
	for _, d := range s.Devices {
		if !d.Up {
			continue
		}
		for _, m := range domainsOf(d) {
			if m.judgement.Page && (first == nil || m.judgement.Device.SecondsToOOM.V < first.judgement.Device.SecondsToOOM.V) {
				first = &m
			}
		}
	}
	return first
}

// others adds what the headline does not count: GPUs that are muted or down, and memory that is held for nothing.
func (v *view) others(down, muted, up int) {
	if muted > 0 && muted < up {
		v.Detail += " " + plural(muted, "more GPU") + " muted."
	}
	if bytes := idleBytes(v.Idle); bytes > 0 {
		v.Detail += " " + solid(humanize.Bytes(bytes)) + " are held and not used."
	}
	if down > 0 && up > 0 {
		v.Detail += " " + plural(down, "more GPU") + " cannot be read."
	}
}

// filler says whose growth fills a memory; "" if that is not known.
func (m *domain) filler() string {
	var most *collector.ProcessState
	for i := range m.device.Processes {
		p := &m.device.Processes[i]
		if slope := p.Verdict.Windows[0].Slope; p.Instance == m.instance && p.Verdict.SecondsToOOM.Finite() != nil && slope.OK &&
			(most == nil || slope.V > most.Verdict.Windows[0].Slope.V) {
			most = p
		}
	}
	if most == nil {
		return ""
	}
	who, where := whoIs(most.ID, most.Owner)
	text := who + " grows by " + strings.TrimPrefix(solid(humanize.Rate(most.Verdict.Windows[0].Slope.V)), "+")
	if where != "" {
		text += " (" + where + ")"
	}
	return text + "."
}

func idleBytes(rows []idleRow) (sum float64) {
	for _, r := range rows {
		sum += r.bytes
	}
	return sum
}

// overview counts the GPUs that can be read, those of them of which no memory was
// judged yet and those whose memories are all muted, and says how far the fullest
// window looks back.
func overview(s *collector.State) (up, waiting, muted int, watched time.Duration) {
	for _, d := range s.Devices {
		if !d.Up {
			continue
		}
		up++
		judged, silent := false, true
		for _, m := range domainsOf(d) {
			watched = max(watched, watchedFor(m.judgement))
			judged = judged || m.judgement.Device.Judged
			silent = silent && m.judgement.Device.Muted
		}
		switch {
		case silent:
			muted++
		case !judged:
			waiting++
		}
	}
	return up, waiting, muted, watched
}

// blindGPUs counts the GPUs of which nothing tells how much memory is used.
func blindGPUs(s *collector.State) (n int) {
	for _, d := range s.Devices {
		if d.Up && !slices.ContainsFunc(domainsOf(d), func(m domain) bool { return m.memory.Used.OK }) {
			n++
		}
	}
	return n
}
