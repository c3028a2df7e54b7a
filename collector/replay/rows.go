// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Rows reads the lines of a CSV of another program than nvidia-smi.
type Rows interface {
	// Read puts a line into an empty row. Below a first row, a line with an error is left out, unless that is a LogError. It
	// returns ErrNoRow for a line of no use that is no error of the log.
	Read(line string, r *Row) error
	// IsWhole reports whether nothing is missing of a last line without a line break.
	IsWhole(line string) bool
	// OfProcesses reports whether each row is of a process, and none of a GPU.
	OfProcesses() bool
}

// ErrNoRow says that a line is no row and need not be counted, such as a header.
var ErrNoRow = errors.New("no row")

// LogError is the error of a line that makes the whole log unusable.
type LogError string

// Error implements error.
func (e LogError) Error() string { return string(e) }

const (
	// maxRowsGPUs bounds the GPUs of such a CSV: with more the column names something else.
	maxRowsGPUs = 4096
	// maxRowsLine bounds a line of it, in bytes.
	maxRowsLine = 1 << 20
)

// NewRowsReader returns a reader of a CSV whose lines rows reads. Comments, which begin with #, and messages of nvidia-smi are
// left out. All else is as with NewReader.
func NewRowsReader(name string, in io.Reader, loc *time.Location, rows Rows) (*Reader, error) {
	lines, err := newLineReader(name, in, false)
	if err != nil {
		return nil, err
	}
	lines.most, lines.exact = maxRowsLine, true
	f := &Reader{lines: lines, names: programNames{}}
	h := &smiHeader{other: rows, zone: smiZone{loc: cmp.Or(loc, time.UTC)}}
	if rows.OfProcesses() {
		f.format = &smiApps{header: h, lists: map[string]*smiList{}}
	} else {
		f.format = &smiGPUs{header: h, last: map[string]*smiStamp{}, reuse: true}
	}
	return f, nil
}

// SetTime sets the time of a row, since the Unix epoch, and its text in the log. local says that it has no zone.
func (r *Row) SetTime(text string, t time.Duration, local bool) {
	r.stamp, r.local = smiStamp{text: text, t: t}, local
}

// readOther reads a line of another program.
func (h *smiHeader) readOther(line string, r *Row) error {
	if strings.HasPrefix(line, "#") || IsSMIMessage(line) {
		return &leftOutError{reason: leftOutMessage, why: "is no part of the log: " + QuoteLine(line)}
	}
	err := h.other.Read(line, r)
	if err == nil && r.local {
		r.stamp = h.zone.stamp(r.stamp.text, r.stamp.t)
	}
	return err
}

// manyGPUs returns the error of rows that are of several GPUs and do not tell which.
func (h *smiHeader) manyGPUs() error {
	const bursts = "the rows come in bursts, as of several GPUs, and no column tells which: "
	if h.other != nil {
		return errors.New(bursts + "name the column that does, as gpu or uuid; if they are of one GPU, keep one row of each moment")
	}
	return errors.New(bursts + "record with index or uuid: " + smiQueryGPUs)
}

// checkGPUs returns an error if a log of so many GPUs cannot have another one.
func (h *smiHeader) checkGPUs(n int) error {
	if h.other != nil && n >= maxRowsGPUs {
		return fmt.Errorf("names more than %d GPUs: check which column names the GPU", maxRowsGPUs)
	}
	return nil
}
