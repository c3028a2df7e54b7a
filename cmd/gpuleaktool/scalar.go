// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/detector"
)

// scalar is one series of a metric: numbers in the order of time, in the metric's
// own unit.
type scalar struct {
	name   string
	labels labels
	points []scalarPoint
}

type scalarPoint struct {
	t time.Duration // since the Unix epoch
	v float64
}

// scalars is the history that series of metrics tell: their used memory and, where
// it is known, the capacity.
type scalars struct {
	from     string // the file or the query; stands in errors
	used     []*scalar
	capacity []*scalar
	reserved []*scalar // is no part of the capacity
	// unit and capacityUnit are how many bytes one is.
	unit, capacityUnit float64
}

// memoryMetric is a metric whose name says that it is used memory.
type memoryMetric struct{ total, reserved string }

// memoryMetrics are those of this exporter, DCGM's and nvidia_gpu_exporter's.
var memoryMetrics = map[string]memoryMetric{
	"gpu_memory_used_bytes":          {"gpu_memory_total_bytes", "gpu_memory_reserved_bytes"},
	"gpu_mig_memory_used_bytes":      {"gpu_mig_memory_total_bytes", "gpu_mig_memory_reserved_bytes"},
	"gpu_process_memory_used_bytes":  {},
	"gpu_workload_memory_used_bytes": {},
	"DCGM_FI_DEV_FB_USED":            {"DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_FB_RESERVED"},
	"nvidia_smi_memory_used_bytes":   {"nvidia_smi_memory_total_bytes", "nvidia_smi_memory_reserved_bytes"},
}

const mebibyte = 1 << 20

// unitOf returns how many bytes one is of a metric, or of a query; ok is false where
// it does not tell.
func unitOf(text string) (unit float64, ok bool) {
	mib, bytes := strings.Contains(text, "DCGM_FI_DEV_FB_"), strings.Contains(text, "_bytes")
	switch {
	case mib && !bytes:
		return mebibyte, true
	case bytes && !mib:
		return 1, true
	}
	return 0, false
}

// each implements history.
func (h *scalars) each(ctx context.Context, take func(*memory, *gpu.Sample) error) error {
	for _, x := range h.used {
		total, err := h.match(x, h.capacity)
		if err != nil {
			return err
		}
		reserved, err := h.match(x, h.reserved)
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		m := &memory{labels: x.labels}
		for _, p := range x.points {
			s := gpu.Sample{Time: wall(p.t), T: p.t}
			if s.Memory.Used, err = h.bytes(x, p, h.unit); err != nil {
				return err
			}
			if s.Memory.Total, err = total.at(h, p.t); err != nil {
				return err
			}
			if s.Memory.Reserved, err = reserved.at(h, p.t); err != nil {
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
		return gpu.Opt[uint64]{}, fmt.Errorf("%s: %s is %g at %s, more than any GPU has: check --unit", h.from, x, p.v, wall(p.t).Format(time.RFC3339))
	}
	return gpu.Opt[uint64]{}, fmt.Errorf("%s: %s is %g at %s: this is no used memory", h.from, x, p.v, wall(p.t).Format(time.RFC3339))
}

// String names the series as Prometheus does.
func (x *scalar) String() string {
	var b strings.Builder
	b.WriteString(x.name + "{")
	for i, l := range x.labels {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, "%s=%q", l.name, l.value)
	}
	return b.String() + "}"
}

// cursor walks along a series. The zero cursor has none.
type cursor struct {
	series *scalar
	next   int
}

// match returns the one of list whose labels do not contradict those of x.
func (h *scalars) match(x *scalar, list []*scalar) (cursor, error) {
	var found cursor
	for _, c := range list {
		if !agree(x.labels, c.labels) {
			continue
		}
		if found.series != nil {
			return cursor{}, fmt.Errorf("%s: both %s and %s could be the capacity of %s: aggregate them, as in max by (gpu) (…)", h.from, found.series, c, x)
		}
		found.series = c
	}
	return found, nil
}

// agree reports whether no label that both have differs. Both are ordered.
func agree(a, b labels) bool {
	for i, k := 0, 0; i < len(a) && k < len(b); {
		switch {
		case a[i].name < b[k].name:
			i++
		case a[i].name > b[k].name:
			k++
		case a[i].value != b[k].value:
			return false
		default:
			i, k = i+1, k+1
		}
	}
	return true
}

// at returns the last amount until t, the first one before that. t does not
// decrease.
func (c *cursor) at(h *scalars, t time.Duration) (gpu.Opt[uint64], error) {
	if c.series == nil || len(c.series.points) == 0 {
		return gpu.Opt[uint64]{}, nil
	}
	for c.next+1 < len(c.series.points) && c.series.points[c.next+1].t <= t {
		c.next++
	}
	return h.bytes(c.series, c.series.points[c.next], h.capacityUnit)
}

// errUnit says that the unit of a metric is not known.
var errUnit = errors.New("does not tell its unit: give --unit=B or --unit=MiB")
