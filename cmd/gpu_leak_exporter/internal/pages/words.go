// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/wording"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// solid keeps the parts of an amount on one line.
func solid(s string) string { return strings.ReplaceAll(s, " ", "\u00a0") }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

// joinedBy writes those of the parts that are known.
func joinedBy(separator string, parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), separator)
}

// whoIs names a process, and says in which pod or job it runs and whose it is.
func whoIs(id gpu.ProcessID, owner *gpu.Owner) (who, where string) {
	o := fromstate.OwnerOf(owner)
	return wording.Process(o.Process, strconv.FormatUint(uint64(id.PID), 10)), wording.Place(o.Namespace, o.Pod, o.Container, o.SlurmJob, o.User)
}

// moment writes t in the format, with the date if that is not the one of now.
func (h *predictor) moment(t, now time.Time, format string) string {
	t, now = t.In(h.Location), now.In(h.Location)
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		format = "Mon 2 Jan " + format
	}
	return t.Format(format)
}

// since writes a moment, and how long ago it was.
func (h *predictor) since(t, now time.Time) string {
	return fmt.Sprintf("since %s (%s)", h.moment(t, now, "15:04"), humanize.Duration(max(0, now.Sub(t))))
}

// clock returns the wall clock s seconds after t; "" where that is a year or more.
func (h *predictor) clock(t time.Time, s float64) string {
	if s > (365 * 24 * time.Hour).Seconds() {
		return ""
	}
	return h.moment(t.Add(time.Duration(s*float64(time.Second))), t, "15:04 MST")
}
