// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"math"
	"slices"

	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// bounding is what an answer says of how much memory there is.
type bounding struct {
	total, reserved gpu.Opt[uint64]
	used, free      []model.SamplePair
}

// takeBounds takes over what series of known metrics say.
func (s *Source) takeBounds(matrix model.Matrix) {
	found := map[*memory]*bounding{}
	for _, series := range matrix {
		m := s.place(series.Metric, false)
		if m == nil || len(series.Values) == 0 {
			continue
		}
		b := found[m]
		if b == nil {
			b = &bounding{}
			found[m] = b
		}
		switch last := series.Values[len(series.Values)-1]; string(series.Metric[model.MetricNameLabel]) {
		case s.selector.Metric.Total:
			b.total = s.amount(last.Value, s.unit)
		case s.selector.Metric.Reserved:
			b.reserved = s.amount(last.Value, s.unit)
		case s.selector.Metric.Free:
			b.free = series.Values
		case s.selector.Name:
			b.used = series.Values
		}
	}
	for m, b := range found {
		if !b.total.OK {
			// Used and free memory of one scrape. Their sum leaves out the reserved memory.
			b.total, b.reserved = s.sum(b.used, b.free), gpu.Opt[uint64]{}
		}
		m.bound(b.total, b.reserved)
	}
}

// takeCapacities takes over what a query for the capacity has found: one a memory, or one for all of them.
func (s *Source) takeCapacities(vector model.Vector) {
	var names []string
	for _, v := range vector {
		names = append(names, string(v.Metric[model.MetricNameLabel]))
	}
	slices.Sort(names)
	unit, err := promapi.UnitOfAll(s.cfg.Unit, slices.Compact(names), s.cfg.Capacity)
	if err != nil {
		unit = s.unit // as of the used memory
	}
	for _, v := range vector {
		if len(v.Metric) == 0 && len(vector) == 1 {
			for _, f := range s.feeds {
				for _, m := range f.memories {
					m.bound(s.amount(v.Value, unit), gpu.Opt[uint64]{})
				}
			}
			return
		}
		if m := s.place(v.Metric, false); m != nil {
			m.bound(s.amount(v.Value, unit), gpu.Opt[uint64]{})
		}
	}
}

// bound takes over the capacity. An absent value leaves the last one.
func (m *memory) bound(total, reserved gpu.Opt[uint64]) {
	if !total.OK || total.V == 0 {
		return
	}
	m.feed.mu.Lock()
	defer m.feed.mu.Unlock()
	m.total, m.reserved = total, reserved
}

// amount returns a value in bytes; absent where it is none.
func (s *Source) amount(v model.SampleValue, unit float64) gpu.Opt[uint64] {
	x := math.Round(float64(v) * unit)
	if !(x >= 0 && x <= detector.MaxBytes) {
		s.note(reasonValue, 1, "A capacity is none, and is left out", "value", float64(v))
		return gpu.Opt[uint64]{}
	}
	return gpu.Some(uint64(x))
}

// sum returns used and free memory of the last scrape that tells both.
func (s *Source) sum(used, free []model.SamplePair) gpu.Opt[uint64] {
	for i, k := len(used)-1, len(free)-1; i >= 0 && k >= 0; {
		switch {
		case used[i].Timestamp > free[k].Timestamp:
			i--
		case used[i].Timestamp < free[k].Timestamp:
			k--
		default:
			return s.amount(used[i].Value+free[k].Value, s.unit)
		}
	}
	return gpu.Opt[uint64]{}
}
