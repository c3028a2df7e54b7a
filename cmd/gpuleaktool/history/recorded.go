// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package history

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
	"github.com/gpuleak/gpu_leak_exporter/collector/replay"
)

// Recorded is the history that a recording of GPUs holds.
type Recorded struct {
	name   string
	reader *replay.Reader
}

// LeftOut tells, in a line for each reason, of what is of no use in the recording.
func (r *Recorded) LeftOut() []string {
	var lines []string
	for _, l := range r.reader.LeftOut() {
		text := l.String()
		if l.SetBack() > 0 {
			text += "; if it is daylight saving, give --timezone"
		}
		lines = append(lines, text)
	}
	return lines
}

// Each implements History.
func (r *Recorded) Each(ctx context.Context, take func(*Memory, *gpu.Sample) error) error {
	gpus := map[string]*Memory{}
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
			m = &Memory{Info: info, Labels: labelsOfGPU(&info)}
			gpus[info.UUID] = m
		}
		if err := take(m, &sample); err != nil {
			return fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return ctx.Err()
}
