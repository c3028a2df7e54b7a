// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package backtest

import (
	"bufio"
	"encoding/json"
	"io"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/history"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts"
	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/verdicts/fromstate"
	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/incident"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// Line is what --output=json prints of one series at one step: its verdict as /api/v1/verdicts has it, with the statistics of the
// first window, and what concerns the memory that it is on.
type Line struct {
	Time   time.Time      `json:"time"`
	Series history.Labels `json:"series"`
	File   string         `json:"file,omitempty"`
	*verdicts.Verdict
	Slope    *float64 `json:"slope_bytes_per_second"`
	R2       *float64 `json:"r2"`
	Spikes   *float64 `json:"spike_count"`
	Used     *uint64  `json:"used_bytes"`
	Capacity *uint64  `json:"capacity_bytes"`
	Evidence *string  `json:"evidence"`
	Page     bool     `json:"page"` // whether an alert of the mixin fires
	Ticket   bool     `json:"ticket"`
	Limit    bool     `json:"limit,omitempty"` // it is of the processes with a limit, which is the capacity
}

// writeLines writes a line for each step of each series, in the order of time, and then one for each incident.
func writeLines(w io.Writer, lines []Line, incidents []*incident.Incident) error {
	out := bufio.NewWriterSize(w, 64<<10)
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for i := range lines {
		if err := encoder.Encode(&lines[i]); err != nil {
			return err
		}
	}
	for _, i := range incidents {
		if err := encoder.Encode(map[string]any{"incident": i}); err != nil {
			return err
		}
	}
	return out.Flush()
}

// linesOf returns the lines of a memory, and of the processes, pods and jobs on it. own are the labels of its GPU.
func linesOf(own history.Labels, r *result, d *sampler.Domain, t time.Duration) (lines []Line) {
	add := func(l history.Labels, used gpu.Opt[uint64], v *detector.Verdict) {
		w := &v.Windows[0]
		line := Line{
			Time: history.Wall(t), Series: l, Verdict: fromstate.VerdictOf(v), Used: fromstate.Known(used), Capacity: fromstate.Known(d.Memory.Capacity()),
			Slope: w.Slope.Finite(), R2: w.R2.Finite(), Spikes: w.Spikes.Finite(), Page: r.fires(levelPage, t), Ticket: r.fires(levelTicket, t), Limit: d.IsLimit(),
		}
		if by := d.Judgement.Evidence.String(); by != "" && v.SecondsToOOM.Finite() != nil {
			line.Evidence = &by
		}
		lines = append(lines, line)
	}
	own = own.With("gpu_instance", sampler.InstanceID(d.Instance))
	if d.IsLimit() {
		who := &d.Who
		add(own.With("namespace", who.Namespace, "pod", who.Pod, "container", who.Container, "slurm_job", who.SlurmJob, "process", who.Process), d.Memory.Used, &d.Judgement.Device)
		return lines
	}
	add(own.With("profile", d.Profile), d.Memory.Used, &d.Judgement.Device)
	for i := range d.Device.Processes {
		if p := &d.Device.Processes[i]; p.Instance == d.Instance {
			o := finding.Of(p.Owner)
			add(own.With("pid", strconv.FormatUint(uint64(p.ID.PID), 10), "process", o.Process, "namespace", o.Namespace, "pod", o.Pod,
				"container", o.Container, "slurm_job", o.SlurmJob), p.Used, &p.Verdict)
		}
	}
	for i := range d.Device.Workloads {
		if w := &d.Device.Workloads[i]; w.Instance == d.Instance {
			add(own.With("namespace", w.Namespace, "pod", w.Pod, "slurm_job", w.SlurmJob), gpu.Some(w.Used), &w.Verdict)
		}
	}
	return lines
}
