// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/gpuleak/gpu_leak_exporter/cmd/internal/promapi"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// scalar is one series of a metric: numbers in the order of time, in the metric's
// own unit.
type scalar struct {
	name   string
	labels Labels
	points []scalarPoint
}

// steadyMetrics hardly ever change: points that say the same as the one before are not kept.
var steadyMetrics = []string{
	"gpu_info", "gpu_memory_total_bytes", "gpu_memory_reserved_bytes", "gpu_mig_memory_total_bytes", "gpu_mig_memory_reserved_bytes",
	"gpu_process_start_time_seconds",
}

// append adds a point after the last one.
func (x *scalar) append(t time.Duration, v float64) {
	if n := len(x.points); n == 0 || x.points[n-1].v != v || !slices.Contains(steadyMetrics, x.name) {
		x.points = append(x.points, scalarPoint{t, v})
	}
}

type scalarPoint struct {
	t time.Duration // since the Unix epoch
	v float64
}

// scalars is the history that series of metrics tell: their used memory and, where
// it is known, the capacity.
type scalars struct {
	from string // the file or the query; stands in errors
	used []*scalar
	// bounds are the series that bound the used memory, by the name of its metric.
	bounds map[string]*bounds
	// unit and capacityUnit are how many bytes one is.
	unit, capacityUnit float64
}

// bounds are series that tell how much memory there is: all of it, what of that can never
// be allocated, and what is free.
type bounds struct{ total, reserved, free []*scalar }

// bounding returns the used memory that a metric bounds, and its place among what does; ok
// is false for another metric.
func bounding(name string) (used string, of func(*bounds) *[]*scalar, ok bool) {
	for used, m := range promapi.MemoryMetrics {
		switch name {
		case "":
		case m.Total:
			return used, func(b *bounds) *[]*scalar { return &b.total }, true
		case m.Reserved:
			return used, func(b *bounds) *[]*scalar { return &b.reserved }, true
		case m.Free:
			return used, func(b *bounds) *[]*scalar { return &b.free }, true
		}
	}
	return "", nil, false
}

// history returns what series tell that were read together. used are the names of those that are
// used memory.
func (h *scalars) history(all []*scalar, used []string) History {
	if isExported(used) {
		return newExported(h, all)
	}
	h.sort(all, used)
	return h
}

// sort takes series over that were read together. used are the names of those that are used
// memory; others bound that, or are of no use.
func (h *scalars) sort(all []*scalar, used []string) {
	h.bounds = map[string]*bounds{}
	for _, name := range used {
		h.bounds[name] = &bounds{}
	}
	for _, x := range all {
		if slices.Contains(used, x.name) {
			if len(used) > 1 {
				x.labels = x.labels.With(model.MetricNameLabel, x.name)
			}
			h.used = append(h.used, x)
		} else if name, of, ok := bounding(x.name); ok && h.bounds[name] != nil {
			list := of(h.bounds[name])
			*list = append(*list, x)
		}
	}
}

// Each implements History.
func (h *scalars) Each(ctx context.Context, take func(*Memory, *gpu.Sample) error) error {
	for _, x := range h.used {
		c, err := h.capacityOf(x)
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		m := &Memory{Labels: x.labels, Scope: promapi.MemoryMetrics[x.name].Scope}
		for _, p := range x.points {
			s := gpu.Sample{Time: Wall(p.t), T: p.t}
			if s.Memory.Used, err = h.bytes(x, p, h.unit); err != nil {
				return err
			}
			if err := c.at(p.t, &s.Memory); err != nil {
				return err
			}
			if err := take(m, &s); err != nil {
				return err
			}
		}
	}
	return nil
}

// bytes returns the amount of memory that a point stands for.
func (h *scalars) bytes(x *scalar, p scalarPoint, unit float64) (gpu.Opt[uint64], error) {
	v := math.Round(p.v * unit)
	switch {
	case v >= 0 && v <= detector.MaxBytes:
		return gpu.Some(uint64(v)), nil
	case v > 0:
		return gpu.Opt[uint64]{}, fmt.Errorf("%s: %s is %g at %s, more than any GPU has: check --unit", h.from, x, p.v, Wall(p.t).Format(time.RFC3339))
	}
	return gpu.Opt[uint64]{}, fmt.Errorf("%s: %s is %g at %s: this is no used memory", h.from, x, p.v, Wall(p.t).Format(time.RFC3339))
}

// String names the series as Prometheus does.
func (x *scalar) String() string {
	var b strings.Builder
	b.WriteString(x.name + "{")
	for i, l := range x.labels {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "%s=%q", l.Name, l.Value)
	}
	return b.String() + "}"
}

// capacity walks along the series that bound one of used memory.
type capacity struct {
	h                     *scalars
	total, reserved, free cursor
	sum                   gpu.Opt[uint64] // used and free memory, when both were known last
}

// capacityOf finds what bounds a series of used memory.
func (h *scalars) capacityOf(x *scalar) (*capacity, error) {
	c, b := &capacity{h: h}, h.bounds[x.name]
	if b == nil {
		return c, nil
	}
	for _, m := range []struct {
		to   *cursor
		list []*scalar
	}{{&c.total, b.total}, {&c.reserved, b.reserved}, {&c.free, b.free}} {
		var err error
		if m.to.series, err = h.match(x, m.list); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// at fills in the memory that there is at time t, which does not decrease. Where no series
// tells it, it is what is used and what is free together, where both were read at once.
func (c *capacity) at(t time.Duration, m *gpu.Memory) (err error) {
	if m.Reserved, _, err = c.reserved.latest(c.h, t); err != nil {
		return err
	}
	if m.Total, _, err = c.total.latest(c.h, t); err != nil || c.total.series != nil {
		return err
	}
	free, read, err := c.free.latest(c.h, t)
	if read == t && free.OK {
		c.sum = gpu.Some(m.Used.V + free.V)
	}
	m.Total, m.Reserved = c.sum, gpu.Opt[uint64]{} // reserved memory is not free
	return err
}

// match returns the one of list whose labels do not contradict those of x: that with the very
// same ones if there are several, as of a GPU that had no pod for a while. Nil is none.
func (h *scalars) match(x *scalar, list []*scalar) (*scalar, error) {
	own := x.labels.Without(model.MetricNameLabel)
	if i := slices.IndexFunc(list, func(c *scalar) bool { return slices.Equal(own, c.labels) }); i >= 0 {
		return list[i], nil
	}
	var found *scalar
	for _, c := range list {
		switch {
		case !agree(own, c.labels):
		case found == nil:
			found = c
		case !found.same(c):
			return nil, fmt.Errorf("%s: both %s and %s could be the capacity of %s, and they differ: aggregate them, as in max by (gpu) (…)", h.from, found, c, x)
		}
	}
	return found, nil
}

// same reports whether both series have one and the same value all the time.
func (x *scalar) same(other *scalar) bool {
	if len(x.points) == 0 || len(other.points) == 0 {
		return false
	}
	differs := func(p scalarPoint) bool { return p.v != x.points[0].v }
	return !slices.ContainsFunc(x.points, differs) && !slices.ContainsFunc(other.points, differs)
}

// agree reports whether no label that both have differs. Both are ordered.
func agree(a, b Labels) bool {
	for i, k := 0, 0; i < len(a) && k < len(b); {
		switch {
		case a[i].Name < b[k].Name:
			i++
		case a[i].Name > b[k].Name:
			k++
		case a[i].Value != b[k].Value:
			return false
		default:
			i, k = i+1, k+1
		}
	}
	return true
}
