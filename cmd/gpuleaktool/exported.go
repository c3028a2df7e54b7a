// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// exported is the history that series of this exporter tell: those of a GPU, of its GPU
// instances and of its processes are joined to the samples that they were made of, which
// are judged as the exporter judged them.
type exported struct {
	*scalars // reads amounts, and names their place in errors
	gpus     map[string]*exportedGPU
	order    []*exportedGPU
}

// exportedGPU is the series of one GPU.
type exportedGPU struct {
	memory    *memory
	own       exportedMemory
	unowned   cursor                       // used memory that no process accounts for
	instances map[string]*exportedInstance // by labels
	processes map[string]*exportedProcess
}

// exportedMemory is the series of one memory: used, total and reserved.
type exportedMemory struct{ used, total, reserved cursor }

// exportedInstance is the series of one GPU instance.
type exportedInstance struct {
	id      uint32
	profile string
	exportedMemory
}

// exportedProcess is the series of one process, and of those that had its labels before it.
type exportedProcess struct {
	id       gpu.ProcessID
	instance gpu.Opt[uint32]
	owner    *gpu.Owner

	used, start, sm, idle cursor
	seen                  time.Duration // when it was last there
}

// partLabels say which part of a GPU a series is of, or whose: without them, the labels of all
// series of a GPU are the same. Where Prometheus did not honor the labels of the exporter, or gave a GPU
// those of the exporter's own pod, it is so all the same.
var partLabels = []string{
	"gpu_instance", "profile", "pid", "process", "namespace", "pod", "container", "slurm_job",
	"exported_namespace", "exported_pod", "exported_container",
}

// infoLabels are what gpu_info says about a GPU.
var infoLabels = []string{"name", "pci_bus_id", "serial", "vbios_version", "architecture", "driver_version", "cuda_version", "memory"}

// exportedMetrics are the series of this exporter that a history is joined from, and where
// each goes.
var exportedMetrics = map[string]func(*exportedGPU, *scalar) (*cursor, error){
	"gpu_info":                         (*exportedGPU).identify,
	"gpu_memory_used_bytes":            func(g *exportedGPU, _ *scalar) (*cursor, error) { return &g.own.used, nil },
	"gpu_memory_total_bytes":           func(g *exportedGPU, _ *scalar) (*cursor, error) { return &g.own.total, nil },
	"gpu_memory_reserved_bytes":        func(g *exportedGPU, _ *scalar) (*cursor, error) { return &g.own.reserved, nil },
	"gpu_memory_unattributed_bytes":    func(g *exportedGPU, _ *scalar) (*cursor, error) { return &g.unowned, nil },
	"gpu_mig_memory_used_bytes":        ofInstance(func(m *exportedMemory) *cursor { return &m.used }),
	"gpu_mig_memory_total_bytes":       ofInstance(func(m *exportedMemory) *cursor { return &m.total }),
	"gpu_mig_memory_reserved_bytes":    ofInstance(func(m *exportedMemory) *cursor { return &m.reserved }),
	"gpu_process_memory_used_bytes":    ofProcess(func(p *exportedProcess) *cursor { return &p.used }),
	"gpu_process_start_time_seconds":   ofProcess(func(p *exportedProcess) *cursor { return &p.start }),
	"gpu_process_sm_utilization_ratio": ofProcess(func(p *exportedProcess) *cursor { return &p.sm }),
	"gpu_process_idle_seconds":         ofProcess(func(p *exportedProcess) *cursor { return &p.idle }),
}

// latestStart is when no process has started yet, in seconds since the Unix epoch: in 2242.
const latestStart = 1 << 33

// isExported reports whether used memory of these names can be joined, and needs to be: all
// is of this exporter, and there are GPUs and parts of them.
func isExported(used []string) bool {
	gpus, parts := false, false
	for _, name := range used {
		switch name {
		case "gpu_memory_used_bytes":
			gpus = true
		case "gpu_process_memory_used_bytes", "gpu_mig_memory_used_bytes":
			parts = true
		case "gpu_workload_memory_used_bytes": // is made of processes
		default:
			return false
		}
	}
	return gpus && parts
}

// newExported joins the series. h is without series.
func newExported(h *scalars, all []*scalar) (*exported, error) {
	e := &exported{scalars: h, gpus: map[string]*exportedGPU{}}
	for _, x := range all {
		place := exportedMetrics[x.name]
		if place == nil || len(x.points) == 0 {
			continue
		}
		at, err := place(e.gpu(x), x)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", h.from, x, err)
		}
		if at.series != nil {
			return nil, fmt.Errorf("%s: both %s and %s are of one GPU: leave out one of them", h.from, at.series, x)
		}
		at.series = x
	}
	for _, g := range e.order {
		if g.own.used.series != nil {
			continue
		}
		for _, p := range g.processes {
			if p.used.series != nil {
				return nil, fmt.Errorf("%s: %s has no gpu_memory_used_bytes with the same labels of a GPU: add that, or leave out one of the metrics", h.from, p.used.series)
			}
		}
	}
	return e, nil
}

// gpu returns the GPU that a series is of, making it at first sight.
func (e *exported) gpu(x *scalar) *exportedGPU {
	l := x.labels.without(partLabels...)
	if x.name == "gpu_info" {
		l = l.without(infoLabels...)
	}
	key := l.String()
	g := e.gpus[key]
	if g == nil {
		index, _ := strconv.Atoi(l.get("gpu"))
		g = &exportedGPU{
			memory:    &memory{info: gpu.Info{Index: index, UUID: l.uuid()}, labels: l},
			instances: map[string]*exportedInstance{}, processes: map[string]*exportedProcess{},
		}
		e.gpus[key] = g
		e.order = append(e.order, g)
	}
	return g
}

// identify takes what gpu_info tells. It has no value of use: there may be several, as after the
// driver was updated.
func (g *exportedGPU) identify(x *scalar) (*cursor, error) {
	g.memory.info.Name, g.memory.info.CoherentMemory = x.labels.get("name"), x.labels.get("memory") == "coherent"
	return &cursor{}, nil
}

// ofInstance returns where a series goes that is of a GPU instance.
func ofInstance(field func(*exportedMemory) *cursor) func(*exportedGPU, *scalar) (*cursor, error) {
	return func(g *exportedGPU, x *scalar) (*cursor, error) {
		id, err := instanceID(x.labels)
		if err != nil {
			return nil, err
		}
		key := x.labels.String()
		in := g.instances[key]
		if in == nil {
			in = &exportedInstance{id: id.V, profile: x.labels.get("profile")}
			g.instances[key] = in
		}
		return field(&in.exportedMemory), nil
	}
}

// ofProcess returns where a series goes that is of a process.
func ofProcess(field func(*exportedProcess) *cursor) func(*exportedGPU, *scalar) (*cursor, error) {
	return func(g *exportedGPU, x *scalar) (*cursor, error) {
		l := x.labels
		key := l.String()
		p := g.processes[key]
		if p == nil {
			pid, err := strconv.ParseUint(l.get("pid"), 10, 32)
			if err != nil {
				return nil, errors.New("its pid is no number: leave it out")
			}
			p = &exportedProcess{id: gpu.ProcessID{PID: uint32(pid)}, owner: ownerOf(l)}
			if p.instance, err = instanceID(l); err != nil {
				return nil, err
			}
			g.processes[key] = p
		}
		return field(p), nil
	}
}

// ownerOf returns whose process the labels name. Where Prometheus did not honor them, they
// have another name, and those of the exporter's own pod have theirs.
func ownerOf(l labels) *gpu.Owner {
	o := &gpu.Owner{Process: l.get("process"), Namespace: l.get("namespace"), Pod: l.get("pod"), Container: l.get("container"), SlurmJob: l.get("slurm_job")}
	if pod := l.get("exported_pod"); pod != "" {
		o.Namespace, o.Pod, o.Container = l.get("exported_namespace"), pod, l.get("exported_container")
	}
	return o
}

// instanceID returns the GPU instance that a series is of; absent without MIG.
func instanceID(l labels) (gpu.Opt[uint32], error) {
	text := l.get("gpu_instance")
	if text == "" {
		return gpu.Opt[uint32]{}, nil
	}
	id, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return gpu.Opt[uint32]{}, errors.New("its gpu_instance is no number: leave it out")
	}
	return gpu.Some(uint32(id)), nil
}

// each implements history.
func (e *exported) each(ctx context.Context, take func(*memory, *gpu.Sample) error) error {
	for _, g := range e.order {
		if g.own.used.series == nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := e.eachOf(g, take); err != nil {
			return err
		}
	}
	return nil
}

// eachOf hands over the samples of one GPU. The series of one scrape have one time.
func (e *exported) eachOf(g *exportedGPU, take func(*memory, *gpu.Sample) error) error {
	instances := slices.SortedFunc(maps.Values(g.instances), func(a, b *exportedInstance) int { return cmp.Compare(a.id, b.id) })
	waiting := slices.SortedFunc(maps.Values(g.processes), func(a, b *exportedProcess) int {
		return cmp.Or(cmp.Compare(a.used.first(), b.used.first()), cmp.Compare(a.instance.V, b.instance.V), cmp.Compare(a.id.PID, b.id.PID))
	})
	var alive []*exportedProcess
	before := time.Duration(math.MinInt64)
	for _, point := range g.own.used.series.points {
		t := point.t
		s := gpu.Sample{Time: wall(t), T: t}
		var err error
		if s.Memory, err = e.memoryAt(&g.own, t); err != nil {
			return err
		}
		for _, in := range instances {
			m, err := e.memoryAt(&in.exportedMemory, t)
			if err != nil {
				return err
			}
			if m.Used.OK {
				s.Instances = append(s.Instances, gpu.Instance{ID: in.id, Profile: in.profile, Memory: m})
			}
		}
		for len(waiting) > 0 && waiting[0].used.first() <= t {
			alive, waiting = append(alive, waiting[0]), waiting[1:]
		}
		alive = slices.DeleteFunc(alive, func(p *exportedProcess) bool { return p.used.ended(before) })
		if s.Processes, err = e.processesAt(alive, t); err != nil {
			return err
		}
		s.ProcessesKnown = len(g.processes) > 0
		s.ProcessesComplete = g.complete(&s)
		if err := take(g.memory, &s); err != nil {
			return err
		}
		before = t
	}
	return nil
}

// complete reports whether the sample has all processes: then the exporter found the same
// memory that no process accounts for. Those that are young, or too many, have no series.
func (g *exportedGPU) complete(s *gpu.Sample) bool {
	unowned, ok := g.unowned.on(s.T)
	sum := sumOf(s.Processes)
	return ok && s.Memory.Used.OK && sum.OK && unowned == float64(s.Memory.Used.V-min(sum.V, s.Memory.Used.V))
}

// memoryAt returns the amounts at t. What does not change may be from the last time that it was read.
func (e *exported) memoryAt(m *exportedMemory, t time.Duration) (found gpu.Memory, err error) {
	if found.Used, err = m.used.amountOn(e.scalars, t); err != nil {
		return found, err
	}
	if found.Total, _, err = m.total.at(e.scalars, t); err != nil {
		return found, err
	}
	found.Reserved, _, err = m.reserved.at(e.scalars, t)
	return found, err
}

// processesAt returns those that are there at t, ordered as in any sample.
func (e *exported) processesAt(list []*exportedProcess, t time.Duration) ([]gpu.Process, error) {
	var found []gpu.Process
	for _, p := range list {
		used, err := p.used.amountOn(e.scalars, t)
		if err != nil {
			return nil, err
		}
		if used.OK {
			found = append(found, p.at(t, used))
		}
	}
	slices.SortStableFunc(found, func(a, b gpu.Process) int {
		return cmp.Or(cmp.Compare(a.Instance.V, b.Instance.V), cmp.Compare(a.ID.PID, b.ID.PID), cmp.Compare(a.ID.Start, b.ID.Start))
	})
	return found, nil
}

// at returns the process at t.
func (p *exportedProcess) at(t time.Duration, used gpu.Opt[uint64]) gpu.Process {
	found := gpu.Process{Instance: p.instance, Used: used, Owner: p.owner}
	if start, ok := p.start.on(t); ok && start >= 0 && start < latestStart {
		started := time.Duration(start * float64(time.Second))
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
func (p *exportedProcess) busy(t time.Duration) gpu.Opt[float64] {
	sm, ok := p.sm.on(t)
	if !ok {
		return gpu.Opt[float64]{}
	}
	// A database has milliseconds.
	if idle, ok := p.idle.on(t); ok && sm == 0 && p.seen > 0 && t.Seconds()-idle > (p.seen+time.Millisecond).Seconds() {
		return gpu.Opt[float64]{}
	}
	return gpu.Some(sm)
}
