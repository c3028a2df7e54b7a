// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// family is a group of metrics that is switched on and off as one. Its name is that of its file and of its flag.
type family struct {
	name    string
	enabled bool // by default
	always  bool // cannot be switched off
	metrics []metric
}

// metric is one row of a family's table: a name and how its series are read from a State.
type metric struct {
	name, help string
	kind       prometheus.ValueType
	// labels are those on top of the scope's.
	labels []string
	scope  scope
	// down says that the metric is exported of a GPU that cannot be read, too.
	down bool
	// collect emits the series of x, a pointer to what the scope is about.
	collect func(x any, e *emitter)
}

// scope is what the series of a metric are about, and so which labels they carry.
type scope uint8

const (
	ofExporter scope = iota
	ofGPU
	ofInstance
	ofProcess
	ofWorkload
	ofUnreleased
	ofFinding
	numScopes
)

var scopeLabels = [numScopes][]string{
	ofGPU:        {"gpu", "uuid"},
	ofInstance:   {"gpu", "uuid", "gpu_instance", "profile"},
	ofProcess:    processLabels,
	ofWorkload:   {"gpu", "uuid", "gpu_instance", "namespace", "pod", "slurm_job"},
	ofUnreleased: processLabels, // those that the process had
	ofFinding:    {"scope", "gpu", "uuid", "gpu_instance", "namespace", "pod", "container", "slurm_job", "process", "user", "source"},
}

var processLabels = []string{"gpu", "uuid", "gpu_instance", "pid", "process", "namespace", "pod", "container", "slurm_job"}

// subject is what the metrics of a scope are read from.
type subject interface {
	sampler.State | sampler.DeviceState | sampler.MemoryState | sampler.ProcessState | sampler.WorkloadState | sampler.EndState | sampler.FindingState
}

func scopeOf[T subject]() scope {
	switch any((*T)(nil)).(type) {
	case *sampler.DeviceState:
		return ofGPU
	case *sampler.MemoryState:
		return ofInstance
	case *sampler.ProcessState:
		return ofProcess
	case *sampler.WorkloadState:
		return ofWorkload
	case *sampler.EndState:
		return ofUnreleased
	case *sampler.FindingState:
		return ofFinding
	}
	return ofExporter
}

// optional is a sample that may be absent.
type optional = gpu.Opt[float64]

// gauge is the row of a gauge with at most one series a subject.
func gauge[T subject](name, help string, get func(*T) optional) metric {
	return gauges(name, help, nil, func(x *T, e *emitter) { e.maybe(get(x)) })
}

// counter is the row of a counter with at most one series a subject.
func counter[T subject](name, help string, get func(*T) optional) metric {
	return counters(name, help, nil, func(x *T, e *emitter) { e.maybe(get(x)) })
}

// gauges is the row of a gauge with labels of its own. each emits the series of
// one subject, with a value for each of the labels.
func gauges[T subject](name, help string, labels []string, each func(*T, *emitter)) metric {
	return metric{
		name: name, help: help, kind: prometheus.GaugeValue, labels: labels, scope: scopeOf[T](),
		collect: func(x any, e *emitter) { each(x.(*T), e) },
	}
}

// counters is gauges for a counter.
func counters[T subject](name, help string, labels []string, each func(*T, *emitter)) metric {
	m := gauges(name, help, labels, each)
	m.kind = prometheus.CounterValue
	return m
}

// evenDown returns m as exported of a GPU that cannot be read, too.
func (m metric) evenDown() metric {
	m.down = true
	return m
}

// families are ordered by name.
var families = []family{
	allocatorFamily, clocksFamily, detectorFamily, eccFamily, exporterFamily, memoryFamily, migFamily, nvlinkFamily,
	pcieFamily, powerFamily, processFamily, thermalFamily, utilizationFamily, workloadFamily, xidFamily,
}

// FamilyInfo describes a family that can be switched on and off.
type FamilyInfo struct {
	Name    string
	Default bool // whether it is on unless told otherwise
}

// Families lists the families that can be switched on and off, ordered by name.
func Families() []FamilyInfo {
	var infos []FamilyInfo
	for _, f := range families {
		if !f.always {
			infos = append(infos, FamilyInfo{f.name, f.enabled})
		}
	}
	return infos
}

func number[N int | uint64 | float64](o gpu.Opt[N]) optional {
	return optional{V: float64(o.V), OK: o.OK}
}

func seconds(o gpu.Opt[time.Duration]) optional { return optional{V: o.V.Seconds(), OK: o.OK} }

func value(v detector.Value) optional { return optional{V: v.V, OK: v.OK} }

func truth(o gpu.Opt[bool]) optional { return optional{V: oneIf(o.V), OK: o.OK} }

// timestamp is absent for the zero time.
func timestamp(t time.Time) optional {
	if t.IsZero() {
		return optional{}
	}
	return gpu.Some(float64(t.UnixNano()) / 1e9)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// named emits a list whose names are the values of the metric's only label.
func named[N uint64 | float64](e *emitter, list []gpu.Named[N]) {
	for _, n := range list {
		e.emit(float64(n.V), n.Name)
	}
}
