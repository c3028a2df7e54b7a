// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

// Package formats reads logs of GPU memory that other programs than the exporter write: any CSV
// whose columns are named. It translates their lines; package replay makes samples of them.
package formats

import (
	"io"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/replay"
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

// NewReader returns a reader of any CSV by Options.Columns. name stands in its errors.
func NewReader(name string, in io.Reader, o Options) (*replay.Reader, error) {
	if o.Location == nil {
		o.Location = time.UTC
	}
	clock := clock{loc: o.Location, start: o.Start, interval: o.Interval}
	columns, err := parseColumns(o.Columns, &clock)
	if err != nil {
		return nil, err
	}
	return replay.NewRowsReader(name, in, o.Location, &csvRows{
		clock: clock, unit: o.Unit, columns: columns, untimed: columns.untimed(), first: true,
		points: map[string]*points{"used": {}, "total": {}, "free": {}},
	})
}
