// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/humanize"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// idleRow is memory that nobody will use again: a process has left it behind, or
// holds it and does nothing.
type idleRow struct {
	GPU, Model string
	Who, Where string
	Held, Why  string
	bytes      float64
}

// idleOf returns a row for each process that has left memory behind, and for each
// that will not use its own again.
func (h *predictor) idleOf(m domain) []idleRow {
	var rows []idleRow
	add := func(id gpu.ProcessID, o *gpu.Owner, bytes uint64, why string) {
		row := idleRow{
			GPU: m.name, Model: m.device.Info.Name, bytes: float64(bytes), Held: humanize.Bytes(float64(bytes)), Why: why,
		}
		row.Who, row.Where = whoIs(id, o)
		rows = append(rows, row)
	}
	for i := range m.device.Unreleased {
		u := &m.device.Unreleased[i]
		if u.Instance == m.instance {
			add(u.ID, u.Owner, u.Used, "has ended, and its memory has stayed "+h.since(fromstate.SteadyTime(u.Since), m.device.SampleTime))
		}
	}
	for i := range m.device.Processes {
		p := &m.device.Processes[i]
		if p.Instance != m.instance || !p.Verdict.Judged || p.Verdict.Pattern != detector.PatternZombie {
			continue
		}
		why := "shows no sign of going on"
		if p.Idle.OK {
			why = "has computed nothing " + h.since(m.device.SampleTime.Add(-p.Idle.V), m.device.SampleTime) + ", and shows no sign of going on"
		}
		add(p.ID, p.Owner, p.Used.V, why)
	}
	return rows
}
