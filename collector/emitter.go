// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/sampler"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// emitter turns one State into series.
type emitter struct {
	to  sink
	row *row
	of  *entity
	// own are the values of the row's own labels that were emitted, one list after another; first is where those of this
	// entity begin.
	own   []string
	first int
	// windows are the lengths of windows as Prometheus prints durations.
	windows map[time.Duration]string
}

// sink takes series: those of one row after those of another, in the order of their names.
type sink interface {
	// put takes a series of an entity. own are the values of the row's own labels, which stay as they are until end.
	put(r *row, of *entity, v float64, own []string)
	// end ends a row.
	end(r *row)
}

// windowName returns the length of a window as the value of a label.
func (e *emitter) windowName(span time.Duration) string {
	name, ok := e.windows[span]
	if !ok {
		name = model.Duration(span).String()
		if e.windows == nil {
			e.windows = map[time.Duration]string{}
		}
		e.windows[span] = name
	}
	return name
}

// row is a metric that is switched on.
type row struct {
	metric
	desc *prometheus.Desc
	// order gives, for each label of a series by name, its position among the scope's labels followed by the row's own.
	order []int
	// names are those labels.
	names []string
	// heads are what stands before its series in the text formats.
	heads [numTexts]string
	// growing says that it is left out of what is quiet.
	growing bool
}

func newRow(f *family, m metric, s *scopes, o Options) (row, error) {
	if n := len(m.labels) - 1; n >= 0 && m.labels[n] == commandLabel && !o.ProcessCommand {
		m.labels = m.labels[:n]
	}
	labels := slices.Concat(s.names[m.scope], m.labels)
	heads, err := headsOf(m)
	if err != nil {
		return row{}, err
	}
	return row{
		metric:  m,
		desc:    prometheus.NewDesc(m.name, m.help, labels, nil),
		order:   sortedOrder(labels),
		names:   labels,
		heads:   heads,
		growing: o.onlyGrowing(f, &m),
	}, nil
}

// sortedOrder returns the positions of labels in the order of their names, as client_golang wants them.
func sortedOrder(labels []string) []int {
	order := make([]int, len(labels))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(labels[a], labels[b]) })
	return order
}

// emitAll emits the series of a row; of a GPU that is not up, only if the row is exported even so.
func (e *emitter) emitAll(r *row, all *entities) {
	e.row = r
	list := all.scopes[r.scope]
	for i := range list {
		if r.shows(&list[i]) {
			e.of, e.first = &list[i], len(e.own)
			r.collect(list[i].x, e)
		}
	}
	e.to.end(r)
	e.own = e.own[:0]
}

// maybe emits o if it is there.
func (e *emitter) maybe(o optional, labels ...string) {
	if o.OK {
		e.emit(o.V, labels...)
	}
}

// limits emits the smallest limit of each source.
func (e *emitter) limits(list []gpu.Limit) {
	for _, l := range slices.SortedFunc(slices.Values(list), func(a, b gpu.Limit) int { return cmp.Compare(a.Bytes, b.Bytes) }) {
		e.emit(float64(l.Bytes), l.Source)
	}
}

// emit emits one series of the current row and entity. labels are the values of the row's own labels; what stands beyond
// them belongs to a label that is not wanted. NaN is not exported: it would stand for a value that is not known, which has
// no series. Neither is a second series of the same labels.
func (e *emitter) emit(v float64, labels ...string) {
	if math.IsNaN(v) {
		return
	}
	n := len(e.row.labels)
	if n == 0 {
		e.to.put(e.row, e.of, v, nil)
		return
	}
	at := len(e.own)
	for i, name := range e.row.labels {
		e.own = append(e.own, sampler.LabelValue(name, labels[i]))
	}
	own := e.own[at:]
	for seen := e.own[e.first:at]; len(seen) > 0; seen = seen[n:] {
		if slices.Equal(own, seen[:n]) {
			e.own = e.own[:at]
			return
		}
	}
	e.to.put(e.row, e.of, v, own)
}

// metricSink sends series to a registry.
type metricSink chan<- prometheus.Metric

func (m metricSink) put(r *row, of *entity, v float64, own []string) {
	m <- prometheus.MustNewConstMetric(r.desc, r.kind, v, slices.Concat(of.values, own)...)
}

func (metricSink) end(*row) {}

// Detail says which processes have all of their series. Of a fleet, which has none, it is about GPUs and GPU instances.
type Detail string

const (
	// DetailAll is all processes that have series of their own.
	DetailAll Detail = "all"
	// DetailGrowing is those that leak or grow. The others keep what tells who they are and what they hold, and what
	// the mixin's alerts ask of them.
	DetailGrowing Detail = "growing"
)

// ofQuiet are the series of a process that neither leaks nor grows, with DetailGrowing, and the detector's of a GPU or GPU
// instance of a fleet. The alerts on memory that is
// nearly full, held by a zombie or fragmented ask for its pattern. That it does not leak has to be said: an alert
// remembers for two minutes what is not denied. Allocators have series only where a program has a probe.
var ofQuiet = map[string]bool{
	"gpu_process_memory_used_bytes":              true,
	"gpu_process_info":                           true,
	"gpu_process_start_time_seconds":             true,
	"gpu_process_leak_detected":                  true,
	"gpu_process_memory_pattern":                 true,
	"gpu_process_untracked_memory_bytes":         true,
	"gpu_process_allocator_allocated_bytes":      true,
	"gpu_process_allocator_reserved_bytes":       true,
	"gpu_process_allocator_inactive_split_bytes": true,
	"gpu_process_leak_site_bytes":                true,
	"gpu_process_allocator_info":                 true,

	"gpu_leak_confidence": true, "gpu_leak_detected": true, "gpu_seconds_to_oom": true, "gpu_memory_pattern": true,
	"gpu_mig_leak_confidence": true, "gpu_mig_leak_detected": true, "gpu_mig_seconds_to_oom": true, "gpu_mig_memory_pattern": true,
}

// onlyGrowing reports whether a metric is left out of a process that is quiet or, in a fleet, of a quiet GPU or GPU instance.
func (o Options) onlyGrowing(f *family, m *metric) bool {
	if o.ProcessDetail != DetailGrowing || ofQuiet[m.name] {
		return false
	}
	return m.scope == ofProcess || len(o.Fleet.Labels) > 0 && f.name == detectorFamily.name && (m.scope == ofGPU || m.scope == ofInstance)
}

// quiet reports whether a memory neither leaks nor grows, as far as can be told.
func quiet(v *detector.Verdict) bool {
	return !v.Leak && v.Withheld == detector.WithheldNone && v.SecondsToOOM.Finite() == nil
}

// shows reports whether the entity has series of the row.
func (r *row) shows(of *entity) bool { return (of.up || r.down) && !(of.quiet && r.growing) }
