// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/finding"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
	"github.com/gpuleak/gpu_leak_exporter/e2e/bench/fleet"
)

// exporter is the exporter's own judge of a GPU, as that of a backtest, with what alerts say of it and of the limits on it.
type exporter struct {
	offline *sampler.Offline
	state   *sampler.DeviceState
	asked   time.Duration // the minute in which it was judged
	// alone says that the processes with a limit have a GPU for themselves whose capacity is this limit.
	alone bool
	limit uint64 // in bytes
}

func newExporter(alone bool) *exporter {
	e := &exporter{alone: alone}
	var err error
	e.offline, err = sampler.NewOffline(gpu.Info{UUID: "GPU-0", Name: "simulated"}, sampler.Config{
		SlowInterval: 365 * 24 * time.Hour, ProcessMax: detector.MaxMembers, Detector: detector.DefaultConfig(), // curves are not drawn
	}, detector.NewHeights())
	if err != nil {
		panic(err) // all of it is in this program
	}
	return e
}

// observe implements judge. As in a backtest, one sample a minute is judged, and the others are learnt from.
func (e *exporter) observe(s *gpu.Sample, _ *gpu.Instance, _ gpu.Memory) error {
	own := *s
	own.Time, own.Processes = time.Unix(0, int64(s.T)), slices.Clone(s.Processes) // the caller uses the list again
	for i := range own.Processes {
		own.Processes[i].Allocator = nil
	}
	if e.alone && !e.separate(&own) {
		return nil
	}
	if now := s.T.Truncate(time.Minute); now > e.asked {
		e.asked, e.state = now, e.offline.Judge(&own)
	} else {
		e.offline.Learn(&own)
	}
	return nil
}

// separate leaves of a sample the container, on a GPU that is as large as its limit. It reports false until that is known.
func (e *exporter) separate(s *gpu.Sample) bool {
	s.Processes = slices.DeleteFunc(s.Processes, func(p gpu.Process) bool { return p.Owner.Container == "" })
	used := uint64(0)
	for i := range s.Processes {
		p := &s.Processes[i]
		if len(p.Limits) > 0 {
			e.limit = p.Limits[0].Bytes
		}
		p.Limits = nil
		used += p.Used.V
	}
	s.Memory = gpu.Memory{Total: gpu.Some(e.limit), Used: gpu.Some(used), Reserved: gpu.Some(uint64(0))}
	return e.limit > 0
}

// ask implements judge.
func (e *exporter) ask() answer {
	a := untold()
	a.waited = true
	if e.state == nil {
		return a
	}
	for d := range e.state.Domains() {
		a.leak = a.leak || d.Judgement.Device.Judged && d.Judgement.Device.Leak
		for _, m := range d.Messages() {
			a.page = a.page || m.Due && m.Severity == finding.Page
			a.ticket = a.ticket || m.Due && m.Severity == finding.Ticket
		}
	}
	return a
}

// limits returns the table of programs in a container with a limit on its GPU memory, beside the same ones alone on a GPU that is as large
// as this limit.
func limits(opt options) (table, error) {
	opt.list = fleet.Limited()
	results, err := run(opt, opt.chosen(false), func() []judge { return []judge{newExporter(false), newExporter(true)} })
	t := table{title: "Limits of containers", header: []string{
		"", "leaks found", "out-of-memories", "paged", "10 min ahead", "30 min ahead", "healthy", "alarmed", "with a page", "with a ticket",
	}}
	for rule, f := range sum(results) {
		paged, ticketed := 0, 0
		for _, r := range results {
			if r.family.Class == fleet.Healthy {
				count(&paged, r.outcomes[rule].pages > 0)
				count(&ticketed, r.outcomes[rule].tickets > 0)
			}
		}
		t.rows = append(t.rows, []string{
			[]string{"the end is the limit", "the end is the capacity"}[rule], part(f.found, f.leaks), strconv.Itoa(f.ooms),
			share(f.paged, f.ooms), share(f.ahead, f.ooms), share(f.ahead3, f.ooms), strconv.Itoa(f.scenarios[fleet.Healthy]),
			strconv.Itoa(f.alarmed[fleet.Healthy]), strconv.Itoa(paged), strconv.Itoa(ticketed),
		})
	}
	return t, err
}
