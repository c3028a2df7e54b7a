// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
)

// whoIs names a process, and says in which pod or job it runs and whose it is.
func whoIs(id gpu.ProcessID, owner *gpu.Owner) (who, where string) {
	w := finding.Of(owner)
	return finding.Process(w.Process, id.PID), w.Place()
}

// moment writes t in the format, with the date if that is not the one of now.
func (h *Config) moment(t, now time.Time, format string) string {
	t, now = t.In(h.Location), now.In(h.Location)
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		format = "Mon 2 Jan " + format
	}
	return t.Format(format)
}

// since writes a moment, and how long ago it was.
func (h *Config) since(t, now time.Time) string {
	return fmt.Sprintf("since %s (%s)", h.moment(t, now, "15:04"), humanize.Duration(now.Sub(t)))
}

// clock returns the wall clock s seconds after t; "" where that is a year or more.
func (h *Config) clock(t time.Time, s float64) string {
	if s > (365 * 24 * time.Hour).Seconds() {
		return ""
	}
	return h.moment(t.Add(time.Duration(s*float64(time.Second))), t, "15:04 MST")
}
