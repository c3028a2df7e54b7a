// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"fmt"
	"html/template"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/cli"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/humanize"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
)

// gpuRow is one GPU, or one GPU instance of a GPU in MIG mode.
type gpuRow struct {
	ID, Page   string
	Anchor     string // to which alerts lead, by the UUID
	GPU, Model string
	Memory     bar
	Class      string // ok, bad, warn, wait (or muted) or down
	Verdict    string
	Why        string // it is a leak, or is none
	Runbook    string
	Pattern    string
	Confidence string
	Slope      string
	Spikes     string
	Plot       template.HTML
	Ends       string
	Suspects   []curveRow
	Largest    []curveRow
	Undrawn    string
	of         *sampler.Domain // nil of a GPU that cannot be read
}

func (h *predictor) gpuRow(m sampler.Domain, window string, now time.Time) gpuRow {
	v := &m.Judgement.Device
	row := gpuRow{ID: nameOf(&m, nil), Page: PredictPath + "/" + nameOf(&m, nil), GPU: m.Name, Memory: barOf(m.Memory, 0), Why: m.Text(&h.Detector), Runbook: headingOf(v, m.Judgement.Page), of: &m}
	if row.Anchor = m.Device.Info.UUID; m.Instance.OK {
		row.Anchor += fmt.Sprintf("-mig-%d", m.Instance.V)
	}
	row.Model = finding.Joined(", ", m.Device.Info.Name, processesOf(m))
	if f := &v.Windows[0]; f.Slope.OK {
		row.Slope = humanize.Rate(f.Slope.V)
		if name := cli.FormatDuration(f.Span); name != window {
			row.Slope += " over " + name
		}
	}
	if n := v.Windows[0].Spikes; n.OK {
		row.Spikes = strconv.FormatFloat(n.V, 'f', 0, 64)
	}
	row.Verdict = m.Word(now, &h.Detector)
	row.Class = classes[row.Verdict]
	if v.Judged && !v.Muted {
		row.Pattern, row.Confidence = finding.Pattern(v), finding.Percent(v.Confidence)
	}
	return row
}

// urgency orders the classes of GPUs: those that a long list keeps come first.
var urgency = []string{"bad", "down", "warn", "wait", "ok"}

// classes has how urgent the words for a verdict are.
var classes = map[string]string{
	finding.Broken: "bad", finding.Leaks: "bad", finding.NotSure: "warn", finding.NoLeak: "ok",
	finding.NoLeakYet: "wait", finding.NotJudged: "wait", finding.Muted: "wait",
}

// bar is used memory as a part of the total. Part is the share of it, in percent
// of the total, that the row is about.
type bar struct {
	Text       string
	Rest, Part float64
	Known      bool
}

// barOf returns the bar of a memory, of which part bytes are the row's.
func barOf(m gpu.Memory, part uint64) bar {
	total, text := m.Capacity(), finding.Used(m)
	if !total.OK || !m.Used.OK || total.V == 0 {
		return bar{Text: text}
	}
	share := func(v uint64) float64 { return 100 * float64(min(v, total.V)) / float64(total.V) }
	part = min(part, m.Used.V)
	return bar{Text: text, Known: true, Part: share(part), Rest: share(m.Used.V - part)}
}
