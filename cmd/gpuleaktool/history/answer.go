// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// answer is the history that series of a Prometheus tell: used memory and, where it is known, what bounds it. Where this
// exporter told of a GPU, its instances and processes are joined to that, and judged as the exporter judged them.
type answer struct{ memories []*knownMemory }

// knownMemory is what is known of one memory.
type knownMemory struct {
	memory *Memory
	amounts
	unowned   cursor                   // used memory that no process accounts for
	instances map[string]*instance     // by labels
	processes map[string]*knownProcess // by labels

	// How far it is read.
	left           []point       // of its used memory
	before         time.Duration // of the last sample
	slices         []*instance   // in order
	waiting, alive []*knownProcess
}

// amounts are the series of one memory, and used and free memory together, when both were known last.
type amounts struct {
	used, total, reserved, free cursor
	sum                         gpu.Opt[uint64]
}

// instance is a GPU instance.
type instance struct {
	id      uint32
	profile string
	amounts
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

// ownMemory is the metric of this exporter to which its parts are joined.
const ownMemory = "gpu_memory_used_bytes"

// parts are the other series of this exporter, and where each goes.
var parts = map[string]func(*knownMemory, *series) *cursor{
	"gpu_info":                         (*knownMemory).identify,
	"gpu_memory_unattributed_bytes":    func(m *knownMemory, _ *series) *cursor { return &m.unowned },
	"gpu_mig_memory_used_bytes":        ofInstance(func(a *amounts) *cursor { return &a.used }),
	"gpu_mig_memory_total_bytes":       ofInstance(func(a *amounts) *cursor { return &a.total }),
	"gpu_mig_memory_reserved_bytes":    ofInstance(func(a *amounts) *cursor { return &a.reserved }),
	"gpu_process_memory_used_bytes":    ofProcess(func(p *knownProcess) *cursor { return &p.used }),
	"gpu_process_start_time_seconds":   ofProcess(func(p *knownProcess) *cursor { return &p.start }),
	"gpu_process_sm_utilization_ratio": ofProcess(func(p *knownProcess) *cursor { return &p.sm }),
	"gpu_process_idle_seconds":         ofProcess(func(p *knownProcess) *cursor { return &p.idle }),
}

// newAnswer joins series, whose amounts are in bytes. used are the names of those that are used memory; others bound that, or
// are parts of it. totals, if there are any, bound it alone.
func newAnswer(all []*series, used []string, totals []*series) (*answer, error) {
	all = slices.SortedStableFunc(slices.Values(all), func(a, b *series) int { return cmp.Compare(a.points[0].t, b.points[0].t) })
	a, rest := &answer{}, all
	if totals == nil {
		rest = a.joinOwn(all)
	}
	bounds := map[string][]*series{}
	var alone []*series
	for _, x := range rest {
		if slices.Contains(used, x.name) || x.name == ownMemory && totals == nil {
			alone = append(alone, x)
		} else {
			bounds[x.name] = append(bounds[x.name], x)
		}
	}
	names := namesIn(alone)
	for _, x := range alone {
		l := x.labels
		if len(names) > 1 {
			l = l.With(model.MetricNameLabel, x.name)
		}
		m := &Memory{Info: l.info(), Labels: l, Scope: promapi.MemoryMetrics[x.name].Scope}
		if m.Scope == promapi.ScopeProcess || m.Scope == promapi.ScopeWorkload {
			m.Info = gpu.Info{Index: -1, UUID: l.String()}
		}
		a.add(m, x)
	}
	for _, m := range a.memories {
		if err := m.bound(bounds, totals); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// joinOwn makes a memory of each GPU of this exporter, with its parts. It returns the other series.
func (a *answer) joinOwn(all []*series) (rest []*series) {
	own := map[string]*knownMemory{}
	exporters := map[string]bool{} // their pods; "" is that of one without
	var ofParts []*series
	for _, x := range all {
		switch {
		case x.name == ownMemory:
			exporters[x.labels["pod"]] = true
			l := gpuLabels(x)
			if m := own[l.String()]; m != nil && !m.used.add(x) {
				rest = append(rest, x)
			} else if m == nil {
				own[l.String()] = a.add(&Memory{Info: l.info(), Labels: l}, x)
			}
		case parts[x.name] != nil:
			ofParts = append(ofParts, x)
		default:
			rest = append(rest, x)
		}
	}
	for _, x := range ofParts {
		if m := own[gpuLabels(x).String()]; m != nil {
			if at := parts[x.name](m, x); at != nil && at.add(x) {
				continue
			}
		}
		rest = append(rest, x)
	}
	for _, m := range a.memories {
		m.attribute(exporters)
	}
	return rest
}

// add adds a memory with its first series.
func (a *answer) add(of *Memory, x *series) *knownMemory {
	m := &knownMemory{memory: of, instances: map[string]*instance{}, processes: map[string]*knownProcess{}}
	m.used.series = x
	a.memories = append(a.memories, m)
	return m
}

// gpuLabels are those of the GPU that a series of this exporter is of.
func gpuLabels(x *series) Labels {
	l := x.labels.Without(partLabels...)
	if x.name == "gpu_info" {
		l = l.Without(infoLabels...)
	}
	return l
}

// bound finds what bounds a memory among series, by their names: totals alone, if there are any.
func (m *knownMemory) bound(bounds map[string][]*series, totals []*series) (err error) {
	metric := promapi.MemoryMetrics[m.used.series.name]
	if totals != nil {
		m.total, err = m.match(totals)
		return err
	}
	for name, to := range map[string]*cursor{metric.Total: &m.total, metric.Reserved: &m.reserved, metric.Free: &m.free} {
		if *to, err = m.match(bounds[name]); err != nil {
			return err
		}
	}
	return nil
}

// match returns those of list whose labels do not contradict those of the memory: that with the very same ones if there are
// several, as of a GPU that had no pod for a while, or else one that goes on after the other.
func (m *knownMemory) match(list []*series) (found cursor, err error) {
	own := m.memory.Labels.Without(model.MetricNameLabel)
	for _, x := range list {
		if maps.Equal(own, x.labels) {
			return cursor{series: x}, nil
		}
	}
	for _, x := range list {
		if own.agrees(x.labels) && !found.add(x) && !found.series.same(x) {
			return found, fmt.Errorf("both %s and %s could be the capacity of %s, and they differ: aggregate them, as in max by (gpu) (…)", found.series, x, m.used.series)
		}
	}
	return found, nil
}

// identify takes what gpu_info tells. It has no value of use: there may be several, as after the
// driver was updated.
func (m *knownMemory) identify(x *series) *cursor {
	kind := x.labels["memory"]
	m.memory.Info.Name = x.labels["name"]
	m.memory.Info.UnifiedMemory = kind == "unified"
	m.memory.Info.CoherentMemory = kind == "coherent" || m.memory.Info.UnifiedMemory
	return &cursor{}
}

// ofInstance returns where a series goes that is of a GPU instance.
func ofInstance(field func(*amounts) *cursor) func(*knownMemory, *series) *cursor {
	return func(m *knownMemory, x *series) *cursor {
		id, err := strconv.ParseUint(x.labels["gpu_instance"], 10, 32)
		if err != nil {
			return nil
		}
		key := x.labels.String()
		if m.instances[key] == nil {
			m.instances[key] = &instance{id: uint32(id), profile: x.labels["profile"]}
		}
		return field(&m.instances[key].amounts)
	}
}

// Each implements History. The memories take turns in the order of time: what a program gave back on one counts on the
// others, and only later.
func (a *answer) Each(ctx context.Context, take func(*Memory, *gpu.Sample) error) error {
	next := slices.Clone(a.memories)
	slices.SortStableFunc(next, func(a, b *knownMemory) int { return cmp.Compare(a.used.first(), b.used.first()) })
	for _, m := range next {
		m.begin()
	}
	for len(next) > 0 {
		m := next[0]
		next = next[1:]
		s := m.sample(m.left[0].t)
		if err := cmp.Or(ctx.Err(), take(m.memory, &s)); err != nil {
			return err
		}
		if m.left = m.left[1:]; len(m.left) > 0 {
			at, _ := slices.BinarySearchFunc(next, m.left[0].t+1, func(o *knownMemory, t time.Duration) int { return cmp.Compare(o.left[0].t, t) })
			next = slices.Insert(next, at, m)
		}
	}
	return nil
}

// begin goes to the first sample.
func (m *knownMemory) begin() {
	m.left, m.before = m.used.series.points, math.MinInt64
	m.slices = slices.SortedFunc(maps.Values(m.instances), func(a, b *instance) int { return cmp.Compare(a.id, b.id) })
	m.waiting = slices.SortedFunc(maps.Values(m.processes), func(a, b *knownProcess) int {
		return cmp.Or(cmp.Compare(a.used.first(), b.used.first()), cmp.Compare(a.instance.V, b.instance.V), cmp.Compare(a.id.PID, b.id.PID))
	})
}

// sample returns the next sample, which is at time t. The series of one scrape have one time.
func (m *knownMemory) sample(t time.Duration) gpu.Sample {
	s := gpu.Sample{Time: Wall(t), T: t, Memory: m.at(t), ProcessesKnown: len(m.processes) > 0}
	for _, in := range m.slices {
		// One that could only not be read then is no other layout.
		if in.used.first() <= t && (in.used.is(t) || !in.used.ended(t)) {
			s.Instances = append(s.Instances, gpu.Instance{ID: in.id, Profile: in.profile, Memory: in.at(t)})
		}
	}
	for len(m.waiting) > 0 && m.waiting[0].used.first() <= t {
		m.alive, m.waiting = append(m.alive, m.waiting[0]), m.waiting[1:]
	}
	m.alive = slices.DeleteFunc(m.alive, func(p *knownProcess) bool { return p.used.ended(m.before) })
	for _, p := range m.alive {
		if p.used.is(t) {
			s.Processes = append(s.Processes, p.at(t))
		}
	}
	slices.SortStableFunc(s.Processes, gpu.CompareProcesses)
	// All are there if the exporter found the same memory that no process accounts for. Those that are young, or too many,
	// have no series.
	unowned, ok := m.unowned.exactly(t)
	sum := SumOf(s.Processes)
	s.ProcessesComplete = ok && sum.OK && unowned == float64(s.Memory.Used.V-min(sum.V, s.Memory.Used.V))
	m.before = t
	return s
}

// at returns the amounts at time t, which does not decrease. What does not change may be from the last time that it was read.
// Where no series tells the total, it is what is used and what is free together, where both were read at once.
func (a *amounts) at(t time.Duration) (m gpu.Memory) {
	some := func(v float64, ok bool) gpu.Opt[uint64] { return gpu.Some(uint64(v)).If(ok) }
	m.Used = some(a.used.exactly(t))
	if a.total.series != nil {
		total, _ := a.total.until(t)
		reserved, _ := a.reserved.until(t)
		m.Total, m.Reserved = some(total.v, true), some(reserved.v, a.reserved.series != nil)
		return m
	}
	if free := some(a.free.exactly(t)); free.OK && m.Used.OK {
		a.sum = gpu.Some(m.Used.V + free.V)
	}
	m.Total = a.sum // reserved memory is not free
	return m
}
