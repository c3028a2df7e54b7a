// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// knownProcess is what series tell of one process.
type knownProcess struct {
	id       gpu.ProcessID
	instance gpu.Opt[uint32]
	labels   Labels
	owner    *gpu.Owner

	used, start, sm, idle cursor
	seen                  time.Duration // when it was last there
}

// latestStart is when no process has started yet, in seconds since the Unix epoch: in 2242.
const latestStart = 1 << 33

// ofProcess returns where a series goes that is of a process.
func ofProcess(field func(*knownProcess) *cursor) func(*knownMemory, *series) *cursor {
	return func(m *knownMemory, x *series) *cursor {
		key := x.labels.String()
		p := m.processes[key]
		if p == nil {
			pid, err := strconv.ParseUint(x.labels["pid"], 10, 32)
			in, wrong := strconv.ParseUint(cmp.Or(x.labels["gpu_instance"], "0"), 10, 32)
			if err != nil || wrong != nil {
				return nil
			}
			p = &knownProcess{
				id: gpu.ProcessID{PID: uint32(pid)}, labels: x.labels,
				instance: gpu.Some(uint32(in)).If(x.labels["gpu_instance"] != ""),
			}
			m.processes[key] = p
		}
		return field(p)
	}
}

// attribute finds out whose the processes are. One whose owner was not known at first has
// had other labels then: it has the last one all the time.
func (m *knownMemory) attribute(exporters map[string]bool) {
	last := map[string]*knownProcess{}
	key := func(p *knownProcess) string {
		if p.start.series == nil {
			return p.labels.String()
		}
		return fmt.Sprint(p.instance, p.id.PID, p.start.series.points[0].v)
	}
	for _, p := range m.processes {
		if known := last[key(p)]; known == nil || p.start.first() > known.start.first() {
			last[key(p)] = p
		}
	}
	for _, p := range m.processes {
		p.owner = ownerOf(last[key(p)].labels, exporters)
	}
}

// ownerOf returns whose process the labels name. Where Prometheus did not honor them, those that
// the target has, too, have another name, and a process of no pod has got that of the exporter.
func ownerOf(l Labels, exporters map[string]bool) *gpu.Owner {
	own := func(name string) string { return cmp.Or(l["exported_"+name], l[name]) }
	o := &gpu.Owner{Process: l["process"], SlurmJob: l["slurm_job"]}
	if pod := own("pod"); pod != "" && !exporters[pod] {
		o.Namespace, o.Pod = own("namespace"), pod
	}
	if o.Pod != "" || exporters[""] {
		o.Container = own("container")
	}
	// The exporter's metrics do not tell more of what it runs.
	o.Runs = (&gpu.Program{Name: o.Process}).Hash(nil)
	return o
}

// at returns the process at t.
func (p *knownProcess) at(t time.Duration) gpu.Process {
	used, _ := p.used.exactly(t)
	found := gpu.Process{Instance: p.instance, Used: gpu.Some(uint64(used)), Owner: p.owner}
	if start, ok := p.start.until(t); ok && start.v >= 0 && start.v < latestStart {
		started := time.Duration(start.v * float64(time.Second))
		found.Started = gpu.Some(started)
		// Another process has started since this one was seen last. A start that moves by less is a
		// clock that was set.
		if p.id.Start == 0 || started > p.seen {
			p.id.Start = uint64(max(started, 1))
		}
	}
	found.ID, found.SM = p.id, p.busy(t)
	p.seen = t
	return found
}

// busy returns the utilisation since the process was seen last. The exporter tells that of its own
// last sample: where that is none, but the process has computed since, it is not known.
func (p *knownProcess) busy(t time.Duration) gpu.Opt[float64] {
	sm, ok := p.sm.exactly(t)
	// A database has milliseconds.
	idle, told := p.idle.exactly(t)
	computed := told && sm == 0 && p.seen > 0 && t.Seconds()-idle > (p.seen+time.Millisecond).Seconds()
	return gpu.Some(sm).If(ok && !computed)
}
