// Copyright 2026 The gpu_leak_exporter Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"io"
	"time"

	"github.com/gpuleak/gpu_leak_exporter/collector/gpu"
)

// Kind says what a recording was written by.
type Kind string

// The kinds of recordings that New and NewReader read.
const (
	KindGPUs      Kind = "nvidia-smi"   // nvidia-smi --query-gpu
	KindApps      Kind = "compute-apps" // nvidia-smi --query-compute-apps
	KindRecording Kind = "recording"    // a Writer
)

// Reader reads the samples of a recording once, in the order of its
// rows. One goroutine may use it.
type Reader struct{ file *recordingFile }

// NewReader returns a reader of a recording in any format that New
// takes; name stands in its errors. Time stamps that do not tell their zone are in
// loc; nil is UTC.
//
// A name that ends in .partial says that the recording may have been cut off
// anywhere: what is not whole at its end is then left out. Of any other file it is
// an error.
func NewReader(name string, in io.Reader, loc *time.Location) (*Reader, error) {
	return NewHeaderlessReader(name, in, loc, "")
}

// NewHeaderlessReader returns a reader of a log of nvidia-smi that was recorded with noheader, as
// --format=csv,noheader does: header is the line that it lacks, with the names of --query-gpu
// or --query-compute-apps in their order. All else is as with NewReader.
func NewHeaderlessReader(name string, in io.Reader, loc *time.Location, header string) (*Reader, error) {
	if loc == nil {
		loc = time.UTC
	}
	f, err := newRecordingFile(name, in, loc, header, false)
	if err != nil {
		return nil, err
	}
	switch log := f.format.(type) {
	case *smiGPUs:
		log.reuse = true // of a row, what stays is its sample
		log.indices = nil
	case *smiApps:
		log.indices = nil
	}
	return &Reader{file: f}, nil
}

// Kind returns what the recording was written by.
func (r *Reader) Kind() Kind {
	switch r.file.format.(type) {
	case *smiGPUs:
		return KindGPUs
	case *smiApps:
		return KindApps
	default:
		return KindRecording
	}
}

// HasMemory reports whether it has a place for the memory in use, be it that of GPUs or of processes: a log of nvidia-smi
// has only the columns that it was asked for.
func (r *Reader) HasMemory() bool {
	f, ok := r.file.format.(*smiGPUs)
	return !ok || f.header.known["memory.used"] || f.header.known["memory.free"]
}

// Next returns the next sample and its GPU, which is known by Info.UUID as in
// New. What a log does not tell of the GPU is not made up: Info.Index is then -1, and Info.Named
// tells whether Info.UUID is a name. The time of each GPU increases. The error is io.EOF at the end, or
// names file and line.
func (r *Reader) Next() (gpu.Info, gpu.Sample, error) {
	reading, err := r.file.next()
	return reading.info, reading.sample, err
}
