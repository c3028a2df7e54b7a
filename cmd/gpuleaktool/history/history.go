// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package history reads what GPUs did: logs, recordings, and what a Prometheus keeps.
package history

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// History is what a backtest reads: the samples of one memory or of several.
type History interface {
	// Each hands every sample to take, those of one memory in the order of time. It
	// ends with the first error of take, or with its own, which names the place.
	Each(ctx context.Context, take func(m *Memory, s *gpu.Sample) error) error
}

// Memory is what samples are of: a GPU, or one series of a metric. It is the same
// for all of its samples.
type Memory struct {
	Info   gpu.Info
	Labels Labels
	Scope  string // of a metric's series, as rules name it; "" is that of a GPU
}

// Labels are the values of labels by name. Prometheus makes no difference between one that is empty and one that is not
// there: it is left out.
type Labels map[string]string

// With returns l with more names and values, in turn.
func (l Labels) With(pairs ...string) Labels {
	out := Labels{}
	maps.Copy(out, l)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			out[pairs[i]] = pairs[i+1]
		}
	}
	return out
}

// Without returns l without labels of these names.
func (l Labels) Without(names ...string) Labels {
	out := l.With()
	for _, name := range names {
		delete(out, name)
	}
	return out
}

// agrees reports whether no label that both have differs.
func (l Labels) agrees(other Labels) bool {
	for name, value := range l {
		if v, ok := other[name]; ok && v != value {
			return false
		}
	}
	return true
}

// UUID returns that of the GPU, which DCGM's labels write in capitals.
func (l Labels) UUID() string { return cmp.Or(l["uuid"], l["UUID"]) }

// info names the GPU of a series. All labels name one that has neither number nor UUID.
func (l Labels) info() gpu.Info {
	info := gpu.Info{Index: -1, UUID: l.UUID()}
	if index, err := strconv.ParseUint(l["gpu"], 10, 16); err == nil {
		info.Index = int(index)
	}
	if info.UUID == "" && info.Index < 0 {
		info.UUID = l.String()
		return info
	}
	info.Place[0] = cmp.Or(l["Hostname"], l["hostname"], l["instance"])
	return info
}

// String writes the labels for people: the names and the values, in the order of the names.
func (l Labels) String() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(l)) {
		parts = append(parts, name+"="+l[name])
	}
	return strings.Join(parts, ", ")
}

// Wall returns the moment on the clock of a recording.
func Wall(t time.Duration) time.Time { return time.Unix(0, int64(t)).UTC() }

// SumOf returns what the processes hold together, absent if one does not tell.
func SumOf(list []gpu.Process) gpu.Opt[uint64] {
	var sum uint64
	for i := range list {
		if !list[i].Used.OK {
			return gpu.Opt[uint64]{}
		}
		sum += list[i].Used.V
	}
	return gpu.Some(sum)
}
