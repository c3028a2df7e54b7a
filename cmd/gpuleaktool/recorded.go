// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// recorded is the history that a recording of GPUs holds.
type recorded struct {
	reader *gpu.RecordingReader
	rows   int // that were read
}

// leftOut tells, in a line for each reason, of what is of no use in the recording.
func (r *recorded) leftOut() []string {
	var lines []string
	for _, l := range r.reader.LeftOut() {
		lines = append(lines, l.String())
	}
	return lines
}

// useless returns an error where a single row of a time to come, as of a clock that was
// wrong until it was set, has cost most of the rows: nothing would be said of what is in them.
func (r *recorded) useless() error {
	for _, l := range r.reader.LeftOut() {
		if l.SetBack() && l.Lines > r.rows {
			return fmt.Errorf("has more rows that cannot be used than others: %s: take out the row before it, or split the file there", l)
		}
	}
	return nil
}

// each implements history.
func (r *recorded) each(ctx context.Context, take func(*memory, *gpu.Sample) error) error {
	gpus := map[string]*memory{}
	var sample gpu.Sample // one for all: who takes it keeps nothing of it, and a new one for each row is a tenth of the time
	for ctx.Err() == nil {
		info, next, err := r.reader.Next()
		sample = next
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		m := gpus[info.UUID]
		if m == nil {
			m = &memory{info: info, labels: labelsOf("gpu", strconv.Itoa(info.Index), "uuid", info.UUID)}
			gpus[info.UUID] = m
		}
		r.rows++
		if err := take(m, &sample); err != nil {
			return err
		}
	}
	return ctx.Err()
}
