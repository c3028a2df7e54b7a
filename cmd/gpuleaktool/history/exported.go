// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
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
	memory    *Memory
	series    []*scalar // all
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
	labels   Labels
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
var exportedMetrics = map[string]func(*exportedGPU, *scalar) *cursor{
	"gpu_info":                         (*exportedGPU).identify,
	"gpu_memory_used_bytes":            func(g *exportedGPU, _ *scalar) *cursor { return &g.own.used },
	"gpu_memory_total_bytes":           func(g *exportedGPU, _ *scalar) *cursor { return &g.own.total },
	"gpu_memory_reserved_bytes":        func(g *exportedGPU, _ *scalar) *cursor { return &g.own.reserved },
	"gpu_memory_unattributed_bytes":    func(g *exportedGPU, _ *scalar) *cursor { return &g.unowned },
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

// newExported joins the series. h is without series: it takes those that cannot be joined, which
// are each judged alone.
func newExported(h *scalars, all []*scalar) *exported {
	e := &exported{scalars: h, gpus: map[string]*exportedGPU{}}
	all = slices.DeleteFunc(slices.Clone(all), func(x *scalar) bool { return len(x.points) == 0 })
	slices.SortStableFunc(all, func(a, b *scalar) int { return cmp.Compare(a.points[0].t, b.points[0].t) })
	var alone []*scalar
	for _, x := range all {
		g := e.gpu(x)
		g.series = append(g.series, x)
		place := exportedMetrics[x.name]
		if place == nil {
			continue
		}
		if at := place(g, x); at == nil || !at.add(x) {
			alone = append(alone, x)
		}
	}
	for _, g := range e.order {
		if g.own.used.series == nil {
			alone = append(alone, g.series...)
		}
		g.attribute()
	}
	h.sort(alone, slices.DeleteFunc(namesIn(alone), func(name string) bool { return promapi.MemoryMetrics[name].Scope == "" }))
	return e
}

// gpu returns the GPU that a series is of, making it at first sight.
func (e *exported) gpu(x *scalar) *exportedGPU {
	l := x.labels.Without(partLabels...)
	if x.name == "gpu_info" {
		l = l.Without(infoLabels...)
	}
	key := l.String()
	g := e.gpus[key]
	if g == nil {
		index, _ := strconv.Atoi(l.Get("gpu"))
		g = &exportedGPU{
			memory:    &Memory{Info: gpu.Info{Index: index, UUID: l.UUID()}, Labels: l},
			instances: map[string]*exportedInstance{}, processes: map[string]*exportedProcess{},
		}
		e.gpus[key] = g
		e.order = append(e.order, g)
	}
	return g
}

// identify takes what gpu_info tells. It has no value of use: there may be several, as after the
// driver was updated.
func (g *exportedGPU) identify(x *scalar) *cursor {
	kind := x.labels.Get("memory")
	g.memory.Info.Name = x.labels.Get("name")
	g.memory.Info.UnifiedMemory = kind == "unified"
	g.memory.Info.CoherentMemory = kind == "coherent" || g.memory.Info.UnifiedMemory
	return &cursor{}
}

// ofInstance returns where a series goes that is of a GPU instance.
func ofInstance(field func(*exportedMemory) *cursor) func(*exportedGPU, *scalar) *cursor {
	return func(g *exportedGPU, x *scalar) *cursor {
		id, ok := instanceID(x.labels)
		if !ok {
			return nil
		}
		key := x.labels.String()
		in := g.instances[key]
		if in == nil {
			in = &exportedInstance{id: id.V, profile: x.labels.Get("profile")}
			g.instances[key] = in
		}
		return field(&in.exportedMemory)
	}
}

// ofProcess returns where a series goes that is of a process.
func ofProcess(field func(*exportedProcess) *cursor) func(*exportedGPU, *scalar) *cursor {
	return func(g *exportedGPU, x *scalar) *cursor {
		l := x.labels
		key := l.String()
		p := g.processes[key]
		if p == nil {
			pid, err := strconv.ParseUint(l.Get("pid"), 10, 32)
			instance, ok := instanceID(l)
			if err != nil || !ok {
				return nil
			}
			p = &exportedProcess{id: gpu.ProcessID{PID: uint32(pid)}, instance: instance, labels: l}
			g.processes[key] = p
		}
		return field(p)
	}
}

// attribute finds out whose the processes are. One whose owner was not known at first has
// had other Labels then: it has the last one all the time.
func (g *exportedGPU) attribute() {
	exporters := map[string]bool{} // pods
	for _, x := range g.series {
		if pod := x.labels.Get("pod"); x.name == "gpu_memory_used_bytes" && pod != "" {
			exporters[pod] = true
		}
	}
	type process struct {
		instance gpu.Opt[uint32]
		pid      uint32
		start    float64
	}
	last := map[process]*exportedProcess{}
	for _, p := range g.processes {
		p.owner = ownerOf(p.labels, exporters)
		if p.start.series == nil {
			continue
		}
		key := process{p.instance, p.id.PID, p.start.series.points[0].v}
		if known := last[key]; known == nil || p.start.first() > known.start.first() {
			last[key] = p
		}
	}
	for _, p := range g.processes {
		if p.start.series != nil {
			p.owner = last[process{p.instance, p.id.PID, p.start.series.points[0].v}].owner
		}
	}
}

// ownerOf returns whose process the labels name. Where Prometheus did not honor them, those that
// the target has, too, have another name, and a process of no pod has got that of the exporter.
func ownerOf(l Labels, exporters map[string]bool) *gpu.Owner {
	own := func(name string) string { return cmp.Or(l.Get("exported_"+name), l.Get(name)) }
	o := &gpu.Owner{Process: l.Get("process"), SlurmJob: l.Get("slurm_job")}
	if pod := own("pod"); pod != "" && !exporters[pod] {
		o.Namespace, o.Pod = own("namespace"), pod
	}
	if o.Pod != "" || len(exporters) == 0 {
		o.Container = own("container")
	}
	// The exporter's metrics do not tell more of what it runs.
	o.Runs = (&gpu.Program{Name: o.Process}).Hash(nil)
	return o
}

// instanceID returns the GPU instance that a series is of, absent without MIG; ok is false where
// that is no number.
func instanceID(l Labels) (id gpu.Opt[uint32], ok bool) {
	text := l.Get("gpu_instance")
	if text == "" {
		return id, true
	}
	n, err := strconv.ParseUint(text, 10, 32)
	return gpu.Some(uint32(n)), err == nil
}
