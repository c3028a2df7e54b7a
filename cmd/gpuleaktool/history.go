// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// history is what a backtest reads: the samples of one memory or of several.
type history interface {
	// each hands every sample to take, those of one memory in the order of time. It
	// ends with the first error of take, or with its own, which names the place.
	each(ctx context.Context, take func(m *memory, s *gpu.Sample) error) error
}

// memory is what samples are of: a GPU, or one series of a metric. It is the same
// for all of its samples.
type memory struct {
	info   gpu.Info
	labels labels
	scope  string // of a metric's series, as rules name it; "" is that of a GPU
}

// label is a name and a value that is not empty.
type label struct{ name, value string }

// labels are ordered by name.
type labels []label

// labelsOf returns labels from names and values in turn. Prometheus makes no
// difference between a label that is empty and one that is not there: it is left
// out.
func labelsOf(pairs ...string) labels {
	var l labels
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			l = append(l, label{pairs[i], pairs[i+1]})
		}
	}
	l.sort()
	return l
}

// labelsOfGPU returns the labels of a GPU, as far as a log tells them.
func labelsOfGPU(info *gpu.Info) labels {
	if !info.Named() {
		return nil
	}
	return labelsOf("gpu", info.IndexLabel(), "uuid", info.UUID)
}

func (l labels) sort() {
	slices.SortFunc(l, func(a, b label) int { return cmp.Compare(a.name, b.name) })
}

// with returns l with more names and values.
func (l labels) with(pairs ...string) labels {
	out := append(slices.Clone(l), labelsOf(pairs...)...)
	out.sort()
	return out
}

// without returns l without labels of these names.
func (l labels) without(names ...string) labels {
	return slices.DeleteFunc(slices.Clone(l), func(x label) bool { return slices.Contains(names, x.name) })
}

// get returns the value of a label, "" without it.
func (l labels) get(name string) string {
	for _, x := range l {
		if x.name == name {
			return x.value
		}
	}
	return ""
}

// compareNumbers compares a label whose values are numbers. No number comes before
// all others.
func (l labels) compareNumbers(other labels, name string) int {
	number := func(l labels) int {
		n, err := strconv.Atoi(l.get(name))
		if err != nil {
			return -1
		}
		return n
	}
	return cmp.Compare(number(l), number(other))
}

// String writes the labels for people: the names and the values.
func (l labels) String() string {
	var b strings.Builder
	for i, x := range l {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(x.name + "=" + x.value)
	}
	return b.String()
}
