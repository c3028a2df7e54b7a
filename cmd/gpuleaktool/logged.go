// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"

	"github.com/gpuleak/gpu_leak_exporter/cmd/gpuleaktool/formats"
	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// leaver is a history of which something may be left out because it cannot be used.
type leaver interface {
	// leftOut tells of it, in a line for each reason.
	leftOut() []string
}

// logged is the history that a log of another program holds.
type logged struct {
	name    string
	in      io.Reader
	options formats.Options
	left    []gpu.LeftOut
}

// leftOut implements leaver.
func (l *logged) leftOut() []string {
	var lines []string
	for _, x := range l.left {
		lines = append(lines, x.String())
	}
	return lines
}

// each implements history.
func (l *logged) each(ctx context.Context, take func(*memory, *gpu.Sample) error) (err error) {
	gpus := map[string]*memory{}
	l.left, err = formats.Read(ctx, l.name, l.in, l.options, func(info gpu.Info, s *gpu.Sample) error {
		m := gpus[info.UUID]
		if m == nil {
			m = &memory{info: info, labels: labelsOfGPU(&info)}
			gpus[info.UUID] = m
		}
		return take(m, s)
	})
	if err != nil {
		return err
	}
	if len(gpus) == 0 && len(l.left) > 0 {
		return fmt.Errorf("%s: holds no sample that can be read as CSV: %s", l.name, l.left[0])
	}
	if len(gpus) == 0 {
		return fmt.Errorf("%s: holds no sample that can be read as CSV", l.name)
	}
	return nil
}
