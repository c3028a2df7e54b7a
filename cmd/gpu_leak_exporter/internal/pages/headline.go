// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"slices"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector"
)

// headline sums the page up in one sentence.
func (v *view) headline(s *collector.State) {
	up, waiting, muted, watched := overview(s)
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
	case s.DriverReason == collector.ReasonStarting:
		v.Headline, v.Detail = "Waiting for the driver", "This takes a few seconds."
	case s.DriverReason == "" && len(s.Devices) == 0 && s.Awaited > 0:
		v.Headline, v.Detail = "Waiting for "+plural(s.Awaited, "GPU"), "This takes a few seconds."
	case up == 0 && s.DriverReason != "":
		v.Headline, v.Detail = "No GPU can be seen", "GPUs are picked up as soon as the driver answers."
	case up == 0 && len(s.Devices) > 0:
		v.Headline, v.Detail = "No GPU can be read", "GPUs are picked up as soon as they answer."
	case up == 0:
		v.Headline, v.Detail = "No GPU found", "The driver answers, but lists no GPU."
	case muted == up:
		v.Headline, v.Detail = plural(up, "muted GPU"), "The rules of --detector.config say that nothing here is to be judged."
	case waiting == up && watched == 0 && blindGPUs(s) == up:
		v.Headline, v.Detail = "No GPU can be judged", "The driver does not tell how much memory is used."
	case waiting+muted == up:
		v.Headline = "Watching " + plural(waiting, "GPU")
		v.Detail = "No judgement yet: watched for " + solid(humanize.Duration(watched)) + " so far."
	default:
		v.Headline = "No leak found on " + plural(up-waiting-muted, "GPU")
		v.Detail = "The longest window holds " + solid(humanize.Duration(watched)) + "."
		if waiting > 0 {
			v.Detail += " " + plural(waiting, "more GPU") + " not judged yet."
		}
	}
	v.others(len(s.Devices)-up, muted, up)
}

// others adds what the headline does not count: GPUs that are muted or down, and memory that is held for nothing.
func (v *view) others(down, muted, up int) {
	if muted > 0 && muted < up {
		v.Detail += " " + plural(muted, "more GPU") + " muted."
	}
	if bytes := idleBytes(v.Idle); bytes > 0 {
		v.Detail += " " + solid(humanize.Bytes(bytes)) + " are held that nobody will use again."
	}
	if down > 0 && up > 0 {
		v.Detail += " " + plural(down, "more GPU") + " cannot be read."
	}
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
