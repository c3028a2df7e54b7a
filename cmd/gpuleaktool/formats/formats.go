// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package formats reads logs of GPU memory that other programs than the exporter write: any CSV
// whose columns are named.
//
// It streams: what it holds does not grow with the log. A line has a bound. What cannot be used is
// left out and told of, where a log goes on after it; anything else is an error that names file
// and line.
package formats

import (
	"context"
	"io"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// Options say what a log does not.
type Options struct {
	// Location is the zone of time stamps that tell none; nil is UTC.
	Location *time.Location
	// Start is when a log begins that tells no date or no time, zero if that is not known.
	Start time.Time
	// Interval is between two rows of a log that tells no time; 0 if it is not known.
	Interval time.Duration
	// Columns are the names of the columns of a CSV, in its order.
	Columns []string
	// Unit is how many bytes one is of an amount in a CSV that tells no unit; 0 if that is not known.
	Unit float64
}

// Take is handed each sample. The samples of a GPU, which is known by Info.UUID, come in the
// order of time. An error ends the reading.
type Take func(info gpu.Info, s *gpu.Sample) error

// Read reads any CSV by Options.Columns and hands its samples to take. name stands in errors. What is
// returned beside an error tells what was left out.
func Read(ctx context.Context, name string, in io.Reader, o Options, take Take) ([]gpu.LeftOut, error) {
	l := newLog(ctx, name, in, o, take)
	err := readCSV(l)
	if err == nil {
		err = l.useless()
	}
	return l.left, err
}
