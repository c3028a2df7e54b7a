// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

const (
	// shownEnds is how many ends of processes are named.
	shownEnds = 3
	// toldSpan is for how long the end of a process is told.
	toldSpan = 9 * time.Hour
)

// endsOf returns the ends of processes on a memory since a time.
func endsOf(m *sampler.Domain, since time.Duration) (list []sampler.EndState) {
	for _, e := range m.Device.Ends {
		if e.Instance == m.Instance && e.At >= since {
			list = append(list, e)
		}
	}
	return list
}

// endWords names the processes that ended last on a memory; "" for none.
func (h *predictor) endWords(m *sampler.Domain) string {
	list := endsOf(m, sinceEpoch(m.Device.SampleTime)-toldSpan)
	var parts []string
	for _, e := range list[max(0, len(list)-shownEnds):] {
		who, _ := whoIs(e.ID, e.Owner)
		text := fmt.Sprintf("%s at %s with %s", who, h.moment(fromstate.SteadyTime(e.At), m.Device.SampleTime, "15:04"), humanize.Bytes(e.Used))
		if e.NearCapacity {
			text += ", the memory nearly full"
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return ""
	}
	text := "Ended: " + strings.Join(parts, "; ") + "."
	if more := len(list) - len(parts); more > 0 {
		text += fmt.Sprintf(" Before that, %d more.", more)
	}
	return text
}

// curveRow is a process whose memory is drawn.
type curveRow struct {
	Who, Where, Held string
	Why              string // it is no leak; "" for one that is not suspected
	Plot             template.HTML
}

// others fills in the processes of a memory that do not leak: the suspects, and, on a page of its own,
// those that are the largest. It says how many have no curve.
func (h *predictor) others(m *sampler.Domain, row *gpuRow, left *room, all bool) {
	drawn, leaks := 0, 0
	for i := range m.Device.Processes {
		p := &m.Device.Processes[i]
		switch {
		case p.Instance != m.Instance:
			continue
		case p.Verdict.Judged && p.Verdict.Leak:
			leaks++
			continue
		case p.Curve == nil || !p.Used.OK || left.processes == 0 || (!all && !p.Suspect(h.Detector.ClearThreshold())):
			continue
		}
		left.processes--
		c := curveRow{Held: humanize.Bytes(float64(p.Used.V)), Plot: h.processCurve(m, p, processHeight)}
		c.Who, c.Where = whoIs(p.ID, p.Owner)
		drawn++
		if p.Suspect(h.Detector.ClearThreshold()) {
			c.Why = finding.NotYet(&p.Verdict, &h.Detector)
			row.Suspects = append(row.Suspects, c)
		} else {
			row.Largest = append(row.Largest, c)
		}
	}
	switch n := countOf(m) - drawn - leaks; {
	case n <= 0:
	case all:
		row.Undrawn = "Not drawn: " + humanize.Count(n, "process") + "."
	default:
		row.Undrawn = "Not drawn here: " + humanize.Count(n, "process") + "."
	}
}
