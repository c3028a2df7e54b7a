// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
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
func (h *predictor) idleOf(m sampler.Domain) []idleRow {
	var rows []idleRow
	add := func(id gpu.ProcessID, o *gpu.Owner, bytes uint64, why string) {
		row := idleRow{
			GPU: m.Name, Model: m.Device.Info.Name, bytes: float64(bytes), Held: humanize.Bytes(float64(bytes)), Why: why,
		}
		row.Who, row.Where = whoIs(id, o)
		rows = append(rows, row)
	}
	for i := range m.Device.Unreleased {
		u := &m.Device.Unreleased[i]
		if u.Instance == m.Instance {
			add(u.ID, u.Owner, u.Used, finding.HeldBy[detector.PatternUnreleased]+" "+h.since(fromstate.SteadyTime(u.Since), m.Device.SampleTime))
		}
	}
	for i := range m.Device.Processes {
		p := &m.Device.Processes[i]
		if p.Instance != m.Instance || !p.Verdict.Judged || p.Verdict.Pattern != detector.PatternZombie {
			continue
		}
		why := finding.HeldBy[detector.PatternZombie]
		if p.Idle.OK {
			why += ", idle " + h.since(m.Device.SampleTime.Add(-p.Idle.V), m.Device.SampleTime)
		}
		add(p.ID, p.Owner, p.Used.V, why)
	}
	return rows
}
