// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package history reads what GPUs did: logs, recordings, and what a Prometheus keeps.
package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
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

// Label is a name and a value that is not empty.
type Label struct{ Name, Value string }

// Labels are ordered by name.
type Labels []Label

// LabelsOf returns labels from names and values in turn. Prometheus makes no
// difference between a Label that is empty and one that is not there: it is left
// out.
func LabelsOf(pairs ...string) Labels {
	var l Labels
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			l = append(l, Label{pairs[i], pairs[i+1]})
		}
	}
	l.sort()
	return l
}

// labelsOfGPU returns the labels of a GPU, as far as a log tells them.
func labelsOfGPU(info *gpu.Info) Labels {
	if !info.Named() {
		return nil
	}
	return LabelsOf("gpu", info.IndexLabel(), "uuid", info.UUID)
}

func (l Labels) sort() {
	slices.SortFunc(l, func(a, b Label) int { return cmp.Compare(a.Name, b.Name) })
}

// With returns l with more names and values.
func (l Labels) With(pairs ...string) Labels {
	out := append(slices.Clone(l), LabelsOf(pairs...)...)
	out.sort()
	return out
}

// Without returns l without labels of these names.
func (l Labels) Without(names ...string) Labels {
	return slices.DeleteFunc(slices.Clone(l), func(x Label) bool { return slices.Contains(names, x.Name) })
}

// Get returns the value of a Label, "" without it.
func (l Labels) Get(name string) string {
	for _, x := range l {
		if x.Name == name {
			return x.Value
		}
	}
	return ""
}

// CompareNumbers compares a Label whose values are numbers. No number comes before
// all others.
func (l Labels) CompareNumbers(other Labels, name string) int {
	number := func(l Labels) int {
		n, err := strconv.Atoi(l.Get(name))
		if err != nil {
			return -1
		}
		return n
	}
	return cmp.Compare(number(l), number(other))
}

// JSON writes the labels as an object.
func (l Labels) JSON() json.RawMessage {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	b.WriteByte('{')
	for i, x := range l {
		if i > 0 {
			b.WriteByte(',')
		}
		for k, text := range []string{x.Name, x.Value} {
			if k == 1 {
				b.WriteByte(':')
			}
			_ = encoder.Encode(text) // a string can be encoded, and a buffer takes it
			b.Truncate(b.Len() - 1)  // the line break
		}
	}
	b.WriteByte('}')
	return b.Bytes()
}

// UUID returns that of the GPU, which DCGM's labels write in capitals.
func (l Labels) UUID() string { return cmp.Or(l.Get("uuid"), l.Get("UUID")) }

// String writes the labels for people: the names and the values.
func (l Labels) String() string {
	var b strings.Builder
	for i, x := range l {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(x.Name + "=" + x.Value)
	}
	return b.String()
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
